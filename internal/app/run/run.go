package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/watch"
	"github.com/bailey-dev/bailey/internal/wire"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// Run makes a sandbox, runs the command in it and takes the sandbox down. It
// returns the exit code of `bailey run`; an error means that bailey failed
// and nothing of the sandbox is left.
func Run(ctx context.Context, h Host, r Request) (int, error) {
	if h.Helper == nil {
		h.Helper = local.Launch(h.Caller())
	}
	defer h.Helper.Abandon()
	out := &output{w: r.Background.voice(h), json: r.JSON, quiet: r.Quiet, now: time.Now}
	code, err := start(ctx, h, &r, out)
	if err != nil && r.JSON {
		out.failed(err)
		return bailey.ExitBailey, nil
	}
	return code, err
}

func start(ctx context.Context, h Host, r *Request, out *output) (int, error) {
	p, err := makePlan(h, r)
	if err != nil {
		return 0, err
	}
	if err := p.openHome(); err != nil {
		return 0, err
	}
	defer p.closeHome() //nolint:errcheck // release was called before, but for a panic
	out.sandbox = p.spec.ID
	u := &running{host: h, req: r, plan: p, out: out, started: time.Now(), stamped: beneath.Clock(), stop: make(chan ending, 16), ready: make(chan struct{}), learned: p.learned}
	if u.guarded() {
		u.held = workspace.Hold(p.guards())
		defer u.held.Release()
		u.held.MarkObjects()
		u.watchGit()
		defer u.trip.Stop()
	}
	if err := u.prepareBackground(); err != nil {
		return 0, err
	}
	return u.run(ctx)
}

// running is one sandbox from before its start to after its end.
type running struct {
	host    Host
	req     *Request
	plan    *plan
	out     *output
	started time.Time
	stamped time.Time // the same moment by the clock of files' stamps

	held    *workspace.Held     // nil for a workspace that is only read
	trip    *workspace.Tripwire // likewise
	server  *control.Server
	limits  *limits
	proxy   *proxyRole
	signer  *signerRole  // of a run with git over SSH
	gateway *gatewayRole // of a run with a model
	slot    *budget.Slot // likewise, where the model has a bound
	sandbox *local.Sandbox
	rules   *ruling
	wire    *wire.Host    // there when ready is closed
	ready   chan struct{} // closed when commands can be run
	stop    chan ending
	ran     atomic.Bool     // the command has started
	ringing atomic.Bool     // a bell is on its way to the terminal
	ctx     context.Context //nolint:containedctx // for the handlers of the control socket

	limit    string  // that ended the run
	atEnd    *ending // what ended was when the command ended
	released bool
	isRight  bool                // what the sandbox may not leave in the workspace is undone
	reverted []workspace.Finding // what that was
	objects  workspace.Objects   // of git that are not what their names say, or may not be
	last     *bailey.Event       // of a run whose sandbox was there, or was told to end before

	mu        sync.Mutex
	ended     *ending   // why the run was ended from outside of its command
	commandAt time.Time // when the command started
	over      bool      // the command has ended
	status    string
	denied    denials
	learned   *learned // of a run that learns

	modelUse modelUse
	uses     uses

	decisions decisions
}

func (u *running) run(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // for who still waits for ready
	u.ctx = ctx
	u.rules = newRuling(u)
	u.setStatus("creating")
	defer u.release() //nolint:errcheck,contextcheck // it was called before, but for a panic; the end must not depend on the caller
	code, err := u.live(ctx)
	return u.farewell(code, errors.Join(err, u.release())) //nolint:contextcheck // likewise
}

// live makes the sandbox and has the command run in it.
func (u *running) live(ctx context.Context) (int, error) {
	err := u.acquire(u.untilStopped(ctx))
	if e, ok := errors.AsType[*ending](err); ok {
		u.last = &bailey.Event{Type: bailey.EventSandboxExited, Name: u.plan.name}
		return u.endedFor(e), nil
	}
	if err != nil {
		return 0, err
	}
	return u.attend(ctx)
}

// farewell says what is still to be said. What cannot be cleaned up is said
// before the last event too.
func (u *running) farewell(code int, err error) (int, error) {
	if u.last == nil {
		u.out.release()
		return code, err
	}
	if err != nil {
		code = bailey.ExitBailey
	}
	if err != nil && u.req.JSON {
		u.out.failed(err)
		err = nil
	}
	u.last.ExitCode, u.last.Limit = &code, u.limit
	u.out.end(*u.last)
	return code, err
}

// untilStopped is for the making of the sandbox: it ends when somebody asks for
// the end of what is not there yet. What was asked is still to be found in stop.
func (u *running) untilStopped(ctx context.Context) context.Context {
	making, abort := context.WithCancelCause(ctx)
	go func() {
		defer abort(nil)
		select {
		case e := <-u.stop:
			abort(&e)
			select {
			case u.stop <- e:
			default: // it is full of the like
			}
		case <-u.ready:
		case <-ctx.Done():
		}
	}()
	return making
}

// acquire makes everything that the run needs, in the one order that leaves
// nothing behind: what cleans up comes before what needs cleaning. The proxy,
// the helper and its namespaces need none: they end with this process. So the
// watchdog and the cgroup can be made while the helper is at work.
func (u *running) acquire(ctx context.Context) error {
	if err := u.host.Helper.Err(); err != nil {
		return err // else the proxy would say something of its own
	}
	if err := u.bindPublished(ctx); err != nil {
		return err
	}
	if err := u.startProxy(); err != nil {
		return starting("proxy", err)
	}
	if err := u.startGateway(ctx); err != nil {
		return starting("model gateway", err)
	}
	return starting("sandbox", u.startSandbox(ctx))
}

// enroll puts the sandbox's first processes under its limits, and says what
// is about to run.
func (u *running) enroll(pids []int) ([]*os.File, error) {
	if err := errors.Join(u.startLimits(), u.watchHome()); err != nil {
		return nil, starting("watchdog", err)
	}
	if err := u.unkept(); err != nil {
		return nil, err
	}
	if err := u.claimName(); err != nil {
		return nil, starting("name", err)
	}
	joins, err := u.limits.enroll(pids)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(u.awaitWatchdog(), u.awaitHome(pids[0])); err != nil {
		return nil, starting("watchdog", err)
	}
	u.announce()
	u.req.Background.named(u.plan.name)
	return joins, nil
}

// starting names what could not be started, where the error does not.
func starting(what string, err error) error {
	if err == nil || bailey.KindOf(err) != bailey.Internal {
		return err
	}
	return fmt.Errorf("start %s: %w", what, err)
}

func (u *running) claimName() error {
	s, err := control.Listen(u.ctx, u.host.Dirs.Runtime, u.plan.name, u.host.UID)
	if err != nil {
		return err
	}
	u.server = s
	go s.Serve(u)
	return nil
}

func (u *running) startProxy() error {
	if u.plan.policy.Mode == bailey.NetNone {
		return nil
	}
	u.keepDecisions()
	settings, err := u.plan.proxy()
	if err != nil {
		return err
	}
	signer, err := u.startSigner()
	if err != nil {
		return err
	}
	p, err := startProxy(settings, u.host.UID, signer, u.netEvent)
	_ = signer.Close() // which may be nil
	if err != nil {
		return err
	}
	u.proxy = p
	u.rules.steer = p.steer
	go u.watchProxy(p)
	return nil
}

// watchProxy ends the run when its proxy does, or when that does not follow any
// more: whoever tightens the rules has to be able to count on it.
func (u *running) watchProxy(p *proxyRole) {
	message := "the proxy ended, and with it the only way out"
	select {
	case <-p.events:
		time.Sleep(proxyPatience)
	case <-p.steer.lost:
		message = "the proxy does not take rules any more, so what the sandbox may reach could not be changed"
	}
	if !u.gone() {
		u.stop <- ending{reason: reasonProxy, message: message}
	}
}

// announce prints the header.
func (u *running) announce() {
	header := u.header()
	for _, line := range header {
		u.out.say("%s", line)
	}
	if u.out.quiet && u.plan.answered() {
		u.out.must("%s", u.plan.answerLine())
	}
	u.out.event(bailey.Event{
		Type: bailey.EventSandboxStarting, Name: u.plan.name, Command: u.req.Command, Message: strings.Join(header, "\n"),
	})
}

// firstWait is how long the sandbox's first process may take until it answers.
// It is there for one that never will: of a hundred sandboxes that start at once
// on two processors, the last ones take minutes.
const firstWait = 10 * time.Minute

func (u *running) startSandbox(ctx context.Context) error {
	cfg := local.Config{
		Spec: u.plan.spec, Executable: u.host.Executable,
		Enroll:   u.enroll,
		DebugDir: u.host.DebugDir,
	}
	if u.proxy != nil {
		cfg.Proxy = u.proxy.Sandbox
	}
	if u.gateway != nil {
		cfg.Model = u.gateway.Sandbox
	}
	sb, err := u.host.Helper.Start(ctx, cfg)
	if u.proxy != nil {
		err = errors.Join(err, u.proxy.Sandbox.Close())
	}
	if u.gateway != nil {
		err = errors.Join(err, u.gateway.Sandbox.Close())
	}
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.sandbox = sb
	u.mu.Unlock()
	if u.wire, err = wire.NewHost(sb.Wire); err != nil {
		return err
	}
	err = u.hideFiles(ctx)
	if err == nil {
		err = u.readyModel(ctx)
	}
	if err != nil && !u.isLost() {
		return err
	}
	close(u.ready)
	return nil
}

// isLost reports whether the sandbox has ended already. No command can reach it
// any more then, and who runs one is told why.
func (u *running) isLost() bool {
	select {
	case <-u.wire.Done():
		return true
	case <-time.After(lastWords):
		return false
	}
}

// attend runs the command and decides what its end means.
func (u *running) attend(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go u.watchEnd(cancel) //nolint:contextcheck,gosec // it outlives what it cancels
	u.setStatus("running")
	if u.plan.tty {
		u.out.hold(sentences)
	}
	stopRules := u.rules.attend(ctx)
	defer stopRules()
	go u.followKey(ctx)
	endPublished := u.servePublished(ctx)
	endBrowser := u.lendBrowserTo(ctx)
	stdout, stderr := u.streams()
	result, err := session.Run(ctx, u.wire, u.seated(session.Options{
		Command: u.plan.exec, Stdin: u.host.Stdin, Stdout: stdout, Stderr: stderr,
		Started: func(int) {
			u.ran.Store(true)
			u.setBegun(time.Now())
			u.out.event(bailey.Event{Type: bailey.EventSandboxStarted, Name: u.plan.name})
		},
	}))
	u.leftBackground(result)
	u.mu.Lock()
	u.status, u.over, u.atEnd = "stopping", true, u.ended
	u.mu.Unlock()
	if errors.Is(err, session.ErrLost) { // the runtime is about to say why
		select {
		case <-u.sandbox.Done():
		case <-time.After(lastWords):
		}
	}
	stopRules()
	cancel(nil)
	endPublished()
	endBrowser()
	u.end() //nolint:contextcheck // it must not depend on the caller
	return u.verdict(result, err)
}

// watchEnd ends the run when somebody asks for it or a limit is reached. It
// says nothing: who reads what bailey says may not do so.
func (u *running) watchEnd(cancel context.CancelCauseFunc) {
	var deadline <-chan time.Time
	if t := u.plan.spec.Limits.Timeout; t > 0 {
		deadline = time.After(time.Until(u.started.Add(t)))
	}
	var e ending
	select {
	case e = <-u.stop:
	case <-deadline:
		e = ending{reason: watch.Timeout, message: fmt.Sprintf("the deadline of %v passed", u.plan.spec.Limits.Timeout), at: time.Now()}
	}
	u.mu.Lock()
	over := u.over
	if !over || e.reason != watch.Timeout {
		u.ended = &e
	}
	u.status = "stopping"
	u.mu.Unlock()
	if over {
		return
	}
	if e.reason == reasonStop || e.reason == watch.Timeout {
		ctx, done := context.WithTimeout(context.Background(), stopGrace) //nolint:forbidigo // the end must not depend on the caller
		_ = u.wire.Shutdown(ctx)
		done()
	}
	u.sandbox.Kill()
	cancel(&e)
}

// lastWords is how long a lost sandbox may take to end by itself.
const lastWords = time.Second

// end takes the sandbox down and collects what is to be told about it. From
// here to the farewell nothing is written: whoever reads it may keep us waiting
// for ever, and until then there would be a sandbox's leavings.
func (u *running) end() {
	u.out.hold(everything)
	u.trip.Stop() // the end of a watch takes as long as that of a sandbox; what is made meanwhile is set right
	_ = u.wire.Close()
	_ = u.sandbox.Close()
	u.setRight()
	u.finishRoles()
}

// finishRoles waits for what the roles beside the sandbox have to say yet.
func (u *running) finishRoles() {
	if u.proxy != nil {
		u.proxy.finish()
	}
	if u.gateway != nil {
		u.gateway.finish()
	}
	u.signer.finish()
}

// verifyBudget bounds the verification of git's objects at the end of a run.
const verifyBudget = 10 * time.Second

// setRight undoes what the sandbox, which is gone, may not leave in the
// workspace.
func (u *running) setRight() {
	if u.held == nil || u.isRight {
		return
	}
	u.reverted = slices.Concat(u.trip.Stop(), u.held.Revert(u.stamped))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), verifyBudget)
	defer cancel()
	u.objects = u.held.VerifyObjects(ctx)
	u.isRight = true
}

// release lets go of everything, however far acquire came. However the run
// ended, the workspace is set right before the watchdog is told that all is
// done: if that is not reached, it does it.
func (u *running) release() error {
	if u.released {
		return nil
	}
	u.released = true
	u.closePublished()
	var errs []error
	if u.sandbox != nil {
		errs = append(errs, u.sandbox.Close())
		u.setRight()
	}
	u.finishRoles()
	if u.slot != nil {
		errs = append(errs, u.slot.Close())
		u.slot = nil
	}
	errs = append(errs, u.closeDecisions(), u.plan.environment.Close(), u.plan.closeHome())
	if u.limits != nil {
		errs = append(errs, u.limits.close())
	}
	if u.server != nil {
		errs = append(errs, u.server.Close())
	}
	return errors.Join(errs...)
}

// proxyPatience is how long a proxy's end may precede the sandbox's.
const proxyPatience = 300 * time.Millisecond

// gone reports whether the sandbox has ended, is about to since its command
// has, or was never there.
func (u *running) gone() bool {
	u.mu.Lock()
	sb, over := u.sandbox, u.over
	u.mu.Unlock()
	if sb == nil || over {
		return true
	}
	return closed(sb.Done())
}

// netEvent takes what the proxy says. Of what it is not asked to say nothing
// is passed on: it is the process that hostile bytes reach first.
func (u *running) netEvent(e bailey.Event) {
	if e.Type == bailey.EventNetOpen || e.Type == bailey.EventNetDecision {
		u.uses.passed(e)
	}
	switch e.Type {
	case bailey.EventWarning:
		u.keep(e)
		u.warn(e.Message)
	case bailey.EventError:
		u.out.event(bailey.Event{Type: e.Type, Time: e.Time, Message: "proxy: " + e.Message})
		u.out.must("proxy: %s", e.Message)
	case bailey.EventNetOpen:
		e = named(e)
		u.keep(e)
		u.out.event(e)
	case bailey.EventNetFlow:
		u.tell(named(e))
	case bailey.EventSecretUse:
		u.keep(e)
		u.out.event(e)
	case bailey.EventNetAsk:
		u.rules.asked(named(e))
	case bailey.EventNetAnswered:
		u.rules.answered(named(e))
	case bailey.EventNetDecision:
		said := named(e)
		u.keep(said)
		u.out.event(said)
		u.mu.Lock()
		defer u.mu.Unlock()
		if !slices.Contains(u.plan.quiet, e.Host) {
			u.denied.add(e)
			if u.learned != nil {
				u.learned.add(said)
			}
		}
	default:
	}
}

func (u *running) setStatus(s string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.status = s
}

// Info answers `bailey ps`.
func (u *running) Info() control.Info {
	holds := u.rules.current()
	u.mu.Lock()
	defer u.mu.Unlock()
	info := control.Info{
		Name: u.plan.name, ID: u.plan.spec.ID, PID: os.Getpid(), Net: holds.Mode, DNS: holds.DNS,
		Mounts: u.plan.open.listed(), Loosened: u.req.Loose.listed(), Runtime: u.plan.spec.Runtime.String(), Started: u.started, Workspace: u.plan.workspace, Command: u.req.Command, Status: u.status,
		Home: u.plan.homeName(), Shown: u.plan.showing, Published: u.plan.publishedInfo(), Opens: u.plan.opens,
	}
	if u.sandbox != nil && u.status != "creating" {
		info.Helper = u.sandbox.Pid
	}
	u.background(&info)
	return info
}

// Stop answers `bailey stop`.
func (u *running) Stop() {
	select {
	case u.stop <- ending{reason: reasonStop, message: "it was told to stop"}:
	default:
	}
}

// Exec answers `bailey exec`. Who comes before the sandbox runs waits for it.
func (u *running) Exec(conn net.Conn) {
	select {
	case <-u.ready:
	case <-u.ctx.Done():
		return
	}
	_ = session.Serve(u.ctx, conn, u.wire, u.adjust) // the client has been told what went wrong
}

// adjust completes the command of a client: it adds its own variables to those
// of the sandbox, and starts where the sandbox's command did unless it says.
func (u *running) adjust(x *wire.Exec) error {
	x.Env = merge(giveWay(u.plan.exec.Env, x.Env), x.Env)
	if x.Dir == "" {
		x.Dir = u.plan.exec.Dir
	}
	x.Umask, x.Limits, x.Files = u.plan.exec.Umask, u.plan.exec.Limits, nil
	return nil
}

// Net answers `bailey net`.
func (u *running) Net(r control.NetRequest) (control.NetAnswer, error) { return u.rules.order(r) }

var _ control.Handler = (*running)(nil)
