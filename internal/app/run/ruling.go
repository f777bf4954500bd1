package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
)

// ruling is what holds for the network of a running sandbox, and how it is
// changed: by the policy files that the run began with, and by what a person
// answers. The flags of the run stay on top of the files.
type ruling struct {
	u     *running
	steer *steer // nil: no network, and nothing to change
	holds atomic.Pointer[policy.Policy]

	mu      sync.Mutex
	start   settings.Sources // that edits of a project's file cannot open
	held    settings.Files   // that hold now
	spent   settings.Mark    // how records of trust looked when the project's file was last not trusted; nil: it is
	now     settings.Effective
	granted []policy.Rule
	refused []policy.Rule
	told    told
	rushed  bool // the last reading was not used: a file changed under it

	asking pending
}

func newRuling(u *running) *ruling {
	r := &ruling{u: u, start: u.plan.sources, held: u.plan.sources.Files, now: u.plan.effective, told: told{own: true}}
	if !r.held.Trusted {
		r.spent = u.plan.mark
	}
	r.holds.Store(&u.plan.policy)
	r.asking.now = time.Now
	return r
}

// policyPoll is how often the files are looked at. A change has to have
// reached every connection within a second.
const policyPoll = 250 * time.Millisecond

// attend follows the policy files, and asks where that can be done here, until
// the function that it returns is called, which may be done twice.
func (r *ruling) attend(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	if !r.u.req.Bare {
		all.Go(func() { r.follow(ctx) })
	}
	if r.steer != nil {
		all.Go(func() { r.prompt(ctx) })
		if len(r.u.plan.secrets) > 0 {
			all.Go(func() { r.followSecrets(ctx) })
		}
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// follow looks at the files until ctx ends. What it costs to read the project's
// is at most a quarter of the time, however often a sandbox writes it; the
// user's and what is trusted are not made to wait for that.
func (r *ruling) follow(ctx context.Context) {
	mark, settled, ownSettled, patient := r.u.plan.mark, true, true, false
	var rest time.Time // until then what a sandbox can write is not read again
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(policyPoll):
		}
		now := r.u.plan.place.Mark()
		if patient = !patient && now.Empties(mark); patient { // it may be being written: an empty file would cut everything
			continue
		}
		sameOwn := now.Own().Equal(mark.Own())
		own := !sameOwn || !ownSettled
		if now.Equal(mark) && settled || !own && time.Now().Before(rest) {
			continue
		}
		// Once more after each change: a file can be written twice within the
		// grain of its times.
		settled, ownSettled = now.Equal(mark), sameOwn
		mark = now
		began := time.Now()
		if !r.reload(mark, own) {
			settled, ownSettled = false, false
		}
		rest = began.Add(4 * time.Since(began))
	}
}

// reload reads the files, which look as marked, and has the proxy follow them.
// What cannot be read, or cannot be followed, changes nothing, and is said. A
// project's file that is the reason, which a sandbox can make at any time, does
// not hold back what the user says: what it said before is taken in its place,
// or else what it said at the start. own: the user did something. It reports
// false where a file changed while it was read, once in a row: one that is written
// in place is empty for a moment, and that would cut everything.
func (r *ruling) reload(mark settings.Mark, own bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told.own = own
	defer func() { r.told.own = true }() // an answer is the user's too
	files, bad, err := settings.LoadApart(r.u.plan.place)
	if err != nil {
		r.told.reads()
		r.fault(err, "what held before holds")
		return true
	}
	if r.rushed = !r.rushed && !r.u.plan.place.Mark().Equal(mark); r.rushed {
		return false
	}
	r.told.reads()
	if bad == nil {
		if bad = r.adopt(r.asGiven(files, mark)); bad == nil {
			return true
		}
	}
	before, start := r.before(files), settings.Files{User: files.User}
	if r.adopt(before) != nil && r.adopt(start) != nil {
		r.fault(bad, "what held before holds")
		return true
	}
	r.fault(bad, "what that file said before holds")
	return true
}

func (r *ruling) fault(err error, then string) {
	r.warn("policy: " + text(short(err)) + "; " + then)
}

// asGiven takes the trust in a project's file away that was edited since it was
// given: whoever puts it back as it was may be the sandbox, and the edit may have
// been the user's, to tighten. To trust it anew is the user's to say.
func (r *ruling) asGiven(files settings.Files, mark settings.Mark) settings.Files {
	if files.Trusted && r.spent != nil && !r.u.plan.place.GivenSince(files.Project.Path, r.spent) {
		files.Trusted = false
		r.warn(fmt.Sprintf("policy: %s is as it was when it was trusted, and was not in between: in this run it can only tighten (bailey policy trust)", files.Project.Path))
	}
	if files.Trusted {
		r.spent = nil
	} else if r.spent == nil {
		r.spent = mark
	}
	return files
}

// before is the project's file that held last, beside what the user says now:
// they may have ended the trust in it.
func (r *ruling) before(files settings.Files) settings.Files {
	out := settings.Files{User: files.User, Project: r.held.Project}
	if r.held.Trusted {
		holds, err := r.u.plan.place.Trust().Holds(out.Project.Path, out.Project.Data)
		out.Trusted = holds && err == nil
	}
	return out
}

// adopt has the proxy follow some files.
func (r *ruling) adopt(files settings.Files) error {
	now, start, err := r.read(files)
	if err == nil {
		err = r.follows(now)
	}
	if err == nil {
		r.start, r.held = start, files
	}
	return err
}

// read says what files say now, and what they may not be opened beyond.
func (r *ruling) read(files settings.Files) (now settings.Effective, start settings.Sources, err error) {
	s := r.start
	s.Files = files
	if now, err = settings.Follow(r.start, s, r.u.plan.place.Mirror); err != nil {
		return now, r.start, err
	}
	if len(now.Widens) > 0 {
		r.warn(fmt.Sprintf("policy: %s: what it would add does not hold, as it is not trusted (%s; bailey policy diff)", now.Widens[0].From, now.Widens[0].What))
	}
	r.unopened(now)
	start = r.start
	if files.Trusted || start.Project == nil && files.Project == nil {
		start = s
	}
	return now, start, nil
}

// unopened says which rules want to see inside TLS and cannot in this run: what
// programs inside trust was settled at its start. The proxy refuses what such a
// rule is about.
func (r *ruling) unopened(now settings.Effective) {
	for _, rule := range now.Policy().Opened() {
		host := rule.Host
		switch {
		case rule.Addr.IsValid():
			host = rule.Addr.String()
		case rule.Wildcard:
			host = "any." + host
		}
		if root := r.u.plan.root; r.steer != nil && (root == nil || !root.Speaks(host)) {
			r.warn(fmt.Sprintf("policy: the rule %s needs to see inside TLS to a host for which that was not so at the start: until the next run TLS to it is refused", rule.Brief()))
		}
	}
}

// follows has the proxy follow what the files say now.
func (r *ruling) follows(now settings.Effective) error {
	gone, come := settings.Changes(r.now, now)
	if len(gone)+len(come) == 0 {
		r.now = now
		return nil
	}
	if r.steer == nil {
		if now.Mode.Value != bailey.NetNone {
			r.warn("policy: the files open the network, and this sandbox began without one: it takes effect at the next run")
		}
		r.now = now
		return nil
	}
	if err := r.put(now, r.granted, r.refused, changeText(gone, come)); err != nil {
		return err
	}
	r.now = now
	return nil
}

// put has the proxy follow a policy, and says so.
func (r *ruling) put(files settings.Effective, granted, refused []policy.Rule, what string) error {
	p := files.Policy()
	p.Allow = slices.Concat(p.Allow, granted)
	p.Deny = slices.Concat(p.Deny, refused)
	if p.Mode == bailey.NetAllow && len(p.Allow) == 0 && !p.Ask && !p.Learn {
		p.Mode = bailey.NetNone // nothing could be reached
	}
	r.u.signer.follow(p)
	reply, err := r.steer.tell(gate.Message{Policy: &p})
	if err != nil {
		return err
	}
	r.holds.Store(&p)
	if reply.Cut > 0 {
		what += cutText(reply.Cut)
	}
	if r.told.may() {
		r.u.out.event(bailey.Event{Type: bailey.EventNetPolicy, Message: what})
		r.u.out.say("policy: %s", what)
	}
	return nil
}

// changeText says what became of the rules, with an end.
func changeText(gone, come []string) string {
	const most = 6
	var parts []string
	for _, line := range gone {
		parts = append(parts, "- "+line)
	}
	for _, line := range come {
		parts = append(parts, "+ "+line)
	}
	text := strings.Join(parts[:min(len(parts), most)], "; ")
	if more := len(parts) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return "the rules changed: " + text
}

// text is an error for a person, with its hint.
func text(err error) string {
	if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
		return e.Error() + " (" + e.Hint + ")"
	}
	return err.Error()
}

func (r *ruling) warn(message string) {
	if r.told.warns(message) {
		r.u.warn(message)
	}
}

// current is what holds.
func (r *ruling) current() policy.Policy { return *r.holds.Load() }

// told bounds what is said of the files, which a sandbox can rewrite for ever.
type told struct {
	last  map[string]bool // warnings of the reading before this one: what stays is said once
	now   map[string]bool // of this one
	count int
	own   bool // what is said now is of what the user did, which no sandbox is to drown
}

// mostTold is how many changes, and warnings, of a project's file a run tells of.
const mostTold = 100

// reads begins a reading of the files. Each change has two.
func (t *told) reads() { t.last, t.now = t.now, map[string]bool{} }

// warns reports whether a warning is to be said.
func (t *told) warns(message string) bool {
	if t.now[message] || len(t.now) >= mostTold {
		return false
	}
	if t.now == nil {
		t.now = map[string]bool{}
	}
	t.now[message] = true
	return !t.last[message] && t.may()
}

func (t *told) may() bool {
	if t.own {
		return true
	}
	t.count++
	return t.count <= mostTold
}

// order does what a `bailey net` command, or a person at the prompt, says.
func (r *ruling) order(q control.NetRequest) (control.NetAnswer, error) {
	if q.Do == control.NetPending {
		return control.NetAnswer{Pending: r.asking.list(r.u.plan.name)}, nil
	}
	if r.steer == nil {
		return control.NetAnswer{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("sandbox %s has no network", r.u.plan.name), "start it with --allow HOST, or with --ask")
	}
	allow := q.Do == control.NetAllow
	if !allow && q.Do != control.NetDeny {
		return control.NetAnswer{}, fmt.Errorf("unknown order %q", q.Do)
	}
	parse := policy.ParseDenyRule
	if allow {
		parse = policy.ParseRule
	}
	rule, err := parse(q.Rule)
	if err != nil {
		return control.NetAnswer{}, err
	}
	said := ""
	switch q.For {
	case control.ForOnce:
		said, err = r.once(rule, allow)
	case control.ForRun, control.ForAlways:
		said, err = r.grant(rule, allow, q.For == control.ForAlways)
	default:
		err = fmt.Errorf("unknown time %q", q.For)
	}
	return control.NetAnswer{Said: said}, err
}

// once answers for those that wait now.
func (r *ruling) once(rule policy.Rule, allow bool) (string, error) {
	count := 0
	for _, p := range r.asking.list("") {
		if !about(rule, p) {
			continue
		}
		_, err := r.steer.tell(gate.Message{Answer: &gate.Answer{Host: p.Host, Port: p.Port, Allow: allow}})
		if bailey.KindOf(err) == bailey.Invalid {
			continue // it was answered meanwhile
		}
		if err != nil {
			return "", err
		}
		count++
	}
	if count == 0 {
		return "", bailey.NewError(bailey.NotFound, fmt.Sprintf("nothing waits for an answer about %s", rule), "bailey net pending lists what does; without --once the answer holds for the run")
	}
	if allow {
		return fmt.Sprintf("%s: what waited was let through", rule), nil
	}
	return fmt.Sprintf("%s: what waited was refused", rule), nil
}

// refuseWaiting has a person's no be the answer to what waits for one, and not
// a rule that comes of it.
func (r *ruling) refuseWaiting(rule policy.Rule) error {
	for _, p := range r.asking.list("") {
		if !about(rule, p) {
			continue
		}
		_, err := r.steer.tell(gate.Message{Answer: &gate.Answer{Host: p.Host, Port: p.Port, Allow: false}})
		if err != nil && bailey.KindOf(err) != bailey.Invalid { // it was answered meanwhile
			return err
		}
	}
	return nil
}

// about reports whether a rule speaks of what is asked.
func about(rule policy.Rule, p control.Pending) bool {
	ask := policy.Request{Protocol: policy.ProtocolTCP, Host: p.Host, Port: p.Port}
	if a, err := netip.ParseAddr(p.Host); err == nil {
		ask.Host, ask.Addr = "", a
	}
	alone := policy.Policy{Mode: bailey.NetOpen, Deny: []policy.Rule{rule}}
	if rule.Port == 0 && p.Port != 80 && p.Port != 443 && rule.String() != p.Host {
		return false // a wildcard without a port is about the web
	}
	return policy.Decide(alone, ask).Verdict == bailey.Deny
}

// grant makes a rule of an answer, for this run or also for later ones.
func (r *ruling) grant(rule policy.Rule, allow, always bool) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := func(o policy.Rule) bool {
		port := rule.Port == 0 || rule.Port == o.Port
		o.Port = rule.Port
		return port && o == rule
	}
	granted := slices.DeleteFunc(slices.Clone(r.granted), same)
	refused := slices.DeleteFunc(slices.Clone(r.refused), same)
	list, word := settings.DenyList, "refused"
	if allow {
		list, word = settings.AllowList, "let through"
		granted = append(granted, rule)
		if err := r.helps(rule, granted, refused); err != nil {
			return "", err
		}
	} else {
		refused = append(refused, rule)
		if err := r.refuseWaiting(rule); err != nil {
			return "", err
		}
	}
	const most = 1000 // of a person's answers in a run
	if len(granted)+len(refused) > most {
		return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("the run has %d answers already", most), "write the rule into a policy file")
	}
	if err := r.put(r.now, granted, refused, fmt.Sprintf("%s is %s", rule, word)); err != nil {
		return "", err
	}
	r.granted, r.refused = granted, refused
	if !always {
		return fmt.Sprintf("%s is %s until sandbox %s ends%s", rule, word, r.u.plan.name, r.stillWaits(rule)), nil
	}
	place := r.u.plan.place
	comment := fmt.Sprintf("%s: bailey net %s, sandbox %s", time.Now().Format(time.DateOnly), list, r.u.plan.name)
	if err := place.AddRule(list, rule.String(), comment); err != nil {
		return "", forRunAlone(err, fmt.Sprintf("%s is %s until sandbox %s ends, and no longer: ", rule, word, r.u.plan.name))
	}
	return fmt.Sprintf("%s is %s from now on: %s%s", rule, word, place.UserFile(), r.stillWaits(rule)), nil
}

// forRunAlone says of an answer that could not be written down what holds all
// the same.
func forRunAlone(err error, holds string) error {
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		return &bailey.Error{Kind: e.Kind, Message: holds + e.Message, Hint: e.Hint, Cause: e.Cause}
	}
	return fmt.Errorf("%s%w", holds, err)
}

// stillWaits names what waits for the same host at a port that the rule does
// not speak of.
func (r *ruling) stillWaits(rule policy.Rule) string {
	x := policy.NewIndex(r.current())
	for _, p := range r.asking.list("") {
		ask := policy.Request{Protocol: policy.ProtocolTCP, Host: p.Host, Port: p.Port}
		if p.Host == rule.Host && x.Decide(ask).Verdict == bailey.Ask {
			return fmt.Sprintf("; %s:%d still waits", p.Host, p.Port)
		}
	}
	return ""
}

// helps refuses a grant that would let nothing through: a deny rule beats it,
// or the mode.
func (r *ruling) helps(rule policy.Rule, granted, refused []policy.Rule) error {
	p := r.now.Policy()
	p.Allow, p.Deny = slices.Concat(p.Allow, granted), slices.Concat(p.Deny, refused)
	ask := policy.Request{Protocol: policy.ProtocolTLS, Host: rule.Host, Addr: rule.Addr, Port: rule.Port}
	if rule.Wildcard {
		ask.Host = "any." + rule.Host
	}
	if rule.Port == 0 {
		ask.Port = 443
	}
	switch d := policy.Decide(p, ask); {
	case d.Verdict == bailey.Allow:
		return nil
	case d.Reason == policy.ReasonModeNone:
		return bailey.NewError(bailey.Invalid, "mode none holds in this sandbox", "change net.mode in the policy file that says so")
	default:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s would not be let through: %s", rule, d.Detail), "take the deny rule out of its file; bailey net deny of this run is taken back by bailey net allow of the same host")
	}
}

// cutText says how many connections a change ended.
func cutText(n int) string {
	if n == 1 {
		return " (1 open connection was cut)"
	}
	return fmt.Sprintf(" (%d open connections were cut)", n)
}
