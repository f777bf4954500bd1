package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

// service is one `bailey serve --local`.
type service struct {
	settings launcher.Settings
	noDisks  string // why tasks have none
	engine   *engine
	control  *control
	out      *voice
	log      *slog.Logger
	rest     *rest
	told     sync.Once   // what is taken up of the service before
	held     []io.Closer // until the end
}

// voice says to whoever keeps the service in the foreground what it does.
type voice struct {
	to   io.Writer // JSON lines
	text io.Writer // and sentences
	json bool
	now  func() time.Time
}

// say says one thing. Nobody may be listening.
func (v *voice) say(s launcher.Said, sentence string) {
	s.Time = v.now().UTC()
	if !v.json {
		_, _ = fmt.Fprintln(v.text, "bailey: "+sentence)
		return
	}
	line, err := json.Marshal(s)
	if err == nil {
		_, _ = v.to.Write(append(line, '\n'))
	}
}

func (v *voice) warn(err error) {
	text := err.Error()
	v.say(launcher.Said{Type: "warning", Message: text}, text)
}

// newService makes everything that is there before anybody is served. What it
// has made is let go of by close, also on an error.
func newService(ctx context.Context, settings launcher.Settings, noDisks string, out *voice) (*service, error) {
	s := &service{settings: settings, noDisks: noDisks, out: out, rest: newRest(settings.Idle, out.now)}
	for _, dir := range []string{settings.Runtime, settings.Data, settings.State} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return s, bailey.WrapError(bailey.Unavailable, "make the folder "+dir, err, "")
		}
	}
	if err := private(settings.Runtime, settings.UID); err != nil {
		return s, err
	}
	if err := s.claim(); err != nil {
		return s, err
	}
	file, err := openLog(filepath.Join(settings.State, launcher.LogName), logSize)
	if err != nil {
		return s, err
	}
	s.held = append(s.held, file)
	s.log = slog.New(slog.NewJSONHandler(file, nil))
	if err := s.makeEngine(ctx); err != nil {
		return s, err
	}
	return s, s.makeControl(ctx)
}

// claim takes the locks of the two folders that one service has for itself: of
// its tasks, and of its socket. Each leads to the other.
func (s *service) claim() error {
	data, runtime := s.settings.Data, s.settings.Runtime
	lock, err := launcher.Claim(data, runtime)
	if held, ok := errors.AsType[*launcher.HeldError](err); ok {
		at := ""
		if other := held.By.Beside; other != "" && other != runtime {
			at = ", with its socket in " + other + ", by another XDG_RUNTIME_DIR"
		}
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("%v%s; it works on the tasks in %s", held, at, data), "bailey serve stop ends it")
	}
	if err != nil {
		return err
	}
	s.held = append(s.held, lock)
	lock, err = launcher.Claim(runtime, data)
	if held, ok := errors.AsType[*launcher.HeldError](err); ok {
		return bailey.NewError(bailey.Conflict, fmt.Sprintf("%v; it has its socket in %s, and works on the tasks in %s and not on those in %s", held, runtime, cmp.Or(held.By.Beside, "another folder"), data),
			"bailey serve stop ends it; with XDG_RUNTIME_DIR set to another folder both can run")
	}
	if err != nil {
		return err
	}
	s.held = append(s.held, lock)
	return nil
}

func (s *service) makeEngine(ctx context.Context) error {
	home, err := newHousehold()
	if err != nil {
		return err
	}
	store, err := openStore(s.settings.Data, launcher.Folder, s.settings.UID)
	if err != nil {
		return err
	}
	s.engine = &engine{
		settings: s.settings, store: store, disks: disks{can: s.noDisks == "", why: s.noDisks}, home: home, tasks: withReal(s.settings.Tasks),
		log: s.log, now: s.out.now, changed: s.rest.look, point: func(string) {}, late: lateBy, units: make(map[task.ID]*unit),
	}
	s.engine.helpers = &git{home: home, settings: s.settings, allowed: s.engine.allowed}
	s.engine.reads = s.engine.catalog
	return s.engine.recover(ctx)
}

func (s *service) makeControl(ctx context.Context) error {
	state, err := controlFolder(s.settings.State, s.settings.UID)
	if err != nil {
		return err
	}
	clients, err := listenClients(s.settings.Runtime)
	if err != nil {
		return err
	}
	s.held = append(s.held, clients)
	cs := launcher.ControlSettings{
		UID: s.settings.UID, MaxParallel: s.settings.Tasks.MaxParallel, Idle: s.settings.Idle, Version: s.settings.Version,
		Folders: launcher.Folders{Config: s.settings.Config, Data: s.settings.Data, State: s.settings.State}, Path: s.settings.Path(),
	}
	s.control = &control{home: s.engine.home, host: host{s.engine, s.rest, s.resumed}, settings: cs, state: state, clients: clients, log: s.log, now: s.out.now}
	if s.settings.MCPListen == "" {
		return nil
	}
	sum, err := token(s.settings.Config, s.settings.UID)
	if err != nil {
		return err
	}
	mcp, at, err := listenMCP(ctx, s.settings.MCPListen)
	if bailey.KindOf(err) == bailey.Unavailable { // the port is another's: what else is served goes on
		s.out.warn(err)
		s.log.LogAttrs(ctx, slog.LevelWarn, "mcp is not served", slog.String("why", err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	s.held = append(s.held, mcp)
	s.control.mcp, s.control.settings.MCPAddr, s.control.settings.MCPToken = mcp, at, sum
	return nil
}

// host is what control is answered by.
type host struct {
	*engine

	rest    *rest
	resumed func(tasks int)
}

// Activity is Host's.
func (h host) Activity(_ context.Context, a launcher.Activity) error {
	h.rest.tell(a)
	if a.Resumed > 0 {
		h.resumed(a.Resumed)
	}
	return nil
}

// resumed says, once, that tasks are taken up which a service before this one
// left.
func (s *service) resumed(n int) {
	s.told.Do(func() {
		s.out.say(launcher.Said{Type: "resumed", Tasks: n}, fmt.Sprintf("tasks of the service before this one that are taken up again: %d; bailey task ls lists them", n))
	})
}

// serve serves until ctx ends, which is a request to end, or nobody has needed
// it for as long as it was told. Hurry ends the waiting for what ends.
func (s *service) serve(ctx context.Context, hurry <-chan struct{}) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		s.control.keep(ctx)
	}()
	socket := filepath.Join(s.settings.Runtime, launcher.SocketName)
	path := filepath.Join(s.settings.State, launcher.LogName)
	at, also := s.control.settings.MCPAddr, ""
	if at != "" {
		also = ", MCP on http://" + at + "/mcp"
	}
	s.out.say(launcher.Said{Type: "serving", PID: os.Getpid(), Socket: socket, MCP: at, Log: path}, "serving on "+socket+also+"; log: "+path)
	why := "it was told to"
	select {
	case <-ctx.Done():
	case <-s.rest.over(ctx, func() bool { return len(s.engine.live()) == 0 }):
		why = fmt.Sprintf("nobody needed it for %v", s.settings.Idle)
	}
	s.out.say(launcher.Said{Type: "stopping", Message: why}, "ending: "+why)
	end()
	go func() {
		select {
		case <-hurry:
			s.engine.home.killAll()
		case <-kept:
		}
	}()
	<-kept // control has had its work handed back
	s.engine.stopAll()
	_ = os.Remove(socket)
	s.out.say(launcher.Said{Type: "stopped"}, "ended")
}

// close lets go of everything.
func (s *service) close() {
	for _, c := range s.held {
		_ = c.Close()
	}
}

// rest knows since when nobody has needed the service.
type rest struct {
	after time.Duration // 0: it never ends for that
	now   func() time.Time
	mu    sync.Mutex
	last  launcher.Activity
	kick  chan struct{} // something has changed
}

func newRest(after time.Duration, now func() time.Time) *rest {
	return &rest{after: after, now: now, kick: make(chan struct{}, 1)}
}

// tell is control's word about who needs it.
func (r *rest) tell(a launcher.Activity) {
	r.mu.Lock()
	r.last = a
	r.mu.Unlock()
	r.look()
}

// look has the count begin anew.
func (r *rest) look() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

func (r *rest) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Clients == 0 && r.last.Tasks == 0
}

// over is closed when nobody has needed the service for as long as it waits.
// Quiet says that nothing runs.
func (r *rest) over(ctx context.Context, quiet func() bool) <-chan struct{} {
	done := make(chan struct{})
	if r.after == 0 {
		return done // never closed
	}
	go func() {
		timer := time.NewTimer(r.after)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.kick:
				timer.Reset(r.after)
			case <-timer.C:
				if r.idle() && quiet() {
					close(done)
					return
				}
				timer.Reset(r.after)
			}
		}
	}()
	return done
}
