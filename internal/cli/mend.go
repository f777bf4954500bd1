package cli

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/netlog"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
)

// adviser finds what would let a question through that is refused here, by
// deciding it with what would hold then: nothing is said that does not help.
type adviser struct {
	a   *app
	s   settings.Sources // what bailey run would start with
	ask policy.Request
}

// outcome is what some sources come to.
type outcome struct {
	e   settings.Effective
	d   bailey.Decision
	err error // why nothing would start by them
}

func (o outcome) helps() bool { return o.err == nil && o.d.Verdict == bailey.Allow }

// try decides with the sources changed.
func (v adviser) try(change func(*settings.Sources)) outcome {
	s := v.s
	change(&s)
	var o outcome
	if o.e, o.err = settings.Resolve(s, v.a.place().Mirror); o.err != nil {
		return o
	}
	if o.err = o.e.Refusal(); o.err == nil {
		o.err = o.e.Policy().Validate()
	}
	o.d = outOfReach(v.ask, policy.Decide(o.e.Policy(), v.ask))
	return o
}

func trusting(s *settings.Sources) { s.Trusted = s.Project != nil }

// flagged adds a flag of bailey run, as policy.Remedy writes it.
func flagged(flag string) func(*settings.Sources) {
	return func(s *settings.Sources) {
		if port, ok := strings.CutPrefix(flag, "--host-service "); ok {
			s.Flags.Services = append(slices.Clone(s.Flags.Services), port)
		}
		if host, ok := strings.CutPrefix(flag, "--allow "); ok {
			s.Flags.Allow = append(slices.Clone(s.Flags.Allow), host)
		}
	}
}

// withEntry returns a file, or none, with an entry in its list allow.
func withEntry(f *settings.File, entry string) *settings.File {
	added, err := settings.Parse(settings.ProjectFile, []byte(settings.AllowLine(entry)+"\n"))
	if err != nil || f == nil {
		return added
	}
	out := *f
	out.Net.Allow = slices.Concat(f.Net.Allow, added.Net.Allow)
	return &out
}

// advise finds what helps, or says why nothing does.
func (v adviser) advise(remedy policy.Remedy) *mend {
	m := &mend{Note: remedy.Note}
	untrusted := v.s.Project != nil && !v.s.Trusted
	if o := v.try(trusting); untrusted && o.helps() {
		m.First, m.Note = trustCommand, decider(o.e, v.ask, o.d)+" allows it, and the file is not trusted"
		return m
	}
	last := v.step(m, remedy, func(*settings.Sources) {})
	if m.helps() {
		return m
	}
	if untrusted {
		if last = v.step(m, remedy, trusting); m.helps() {
			m.First = trustCommand
			m.Note = fmt.Sprintf("bailey run does not start before %s is trusted, as it would widen what you allow", v.s.Project.Path)
			return m
		}
	}
	m.Note = v.whyNot(last, remedy)
	return m
}

func (m *mend) helps() bool { return m.Flag != "" || m.YAML != "" }

// step tries the flag and the entry of a remedy, after something else was done,
// and returns what the last of them came to.
func (v adviser) step(m *mend, remedy policy.Remedy, before func(*settings.Sources)) outcome {
	last := v.try(before)
	if remedy.Flag != "" {
		if last = v.try(both(before, flagged(remedy.Flag))); last.helps() {
			m.Flag = remedy.Flag
		}
	}
	v.inFiles(m, remedy.Entry, before, &last)
	return last
}

const trustCommand = "bailey policy trust"

func both(f, g func(*settings.Sources)) func(*settings.Sources) {
	return func(s *settings.Sources) { f(s); g(s) }
}

// inFiles tries an entry in the user's own file, and in the project's.
func (v adviser) inFiles(m *mend, entry string, before func(*settings.Sources), last *outcome) {
	if entry == "" {
		return
	}
	own := v.try(both(before, func(s *settings.Sources) { s.User = withEntry(s.User, entry) }))
	project := v.try(func(s *settings.Sources) { s.Project, s.Trusted = withEntry(s.Project, entry), true })
	if m.Flag == "" {
		*last = own
	}
	if own.helps() {
		m.YAML, m.File, m.project = settings.AllowLine(entry), v.a.place().UserFile(), project.helps()
	}
}

// whyNot says why what was tried last does not help.
func (v adviser) whyNot(o outcome, remedy policy.Remedy) string {
	d := o.d
	nothing := remedy == policy.Remedy{}
	if out := beyond(v.ask, o.e); nothing && d.Reason == policy.ReasonModeNone && out != "" { // a network would not do either
		return out
	}
	switch {
	case o.err != nil:
		return o.err.Error()
	case d.Reason == policy.ReasonDeniedByRule:
		note := fmt.Sprintf("the deny rule %s refuses it, and deny beats allow", d.Rule)
		if from := decider(o.e, v.ask, d); from != "" {
			note += ": " + from
		}
		return note
	case nothing && d.Reason == policy.ReasonModeNone:
		return "no rule can name it"
	case d.Reason == policy.ReasonModeNone && (remedy.Flag != "" || remedy.Entry != ""):
		return fmt.Sprintf("mode none of %s keeps it out", o.e.Mode.From)
	case remedy.Note != "" && d.Reason != policy.ReasonSpecialAddress:
		return remedy.Note
	}
	return policy.WithoutAdvice(d.Detail) + ofThisMachine(v.ask)
}

// beyond says why a question would be refused in any network, or "".
func beyond(ask policy.Request, e settings.Effective) string {
	p := e.Policy()
	p.Mode = bailey.NetOpen
	d := outOfReach(ask, policy.Decide(p, ask))
	if d.Verdict != bailey.Deny || d.Reason != policy.ReasonSpecialAddress && d.Reason != policy.ReasonNotAllowed {
		return ""
	}
	return policy.WithoutAdvice(d.Detail) + ofThisMachine(ask)
}

// ofThisMachine says what there is in the place of the machine's loopback.
func ofThisMachine(ask policy.Request) string {
	if ask.Host == "" && policy.Classify(ask.Addr) == policy.ClassLoopback || policy.IsLocalhost(ask.Host) {
		return fmt.Sprintf("; a service of this machine is at %s inside, with bailey run --host-service PORT", policy.ServiceHost+":PORT")
	}
	return ""
}

// here says of a refusal what is of use to the person who would start a sandbox.
func here(ask policy.Request, e settings.Effective, d bailey.Decision) bailey.Decision {
	if d.Verdict != bailey.Deny {
		return d
	}
	d.Detail = strings.ReplaceAll(policy.WithoutAdvice(d.Detail), " of this sandbox", " here")
	if d.Reason == policy.ReasonModeNone {
		d.Detail = "a sandbox that starts here has no network (mode none, " + e.Mode.From + ")"
		if out := beyond(ask, e); out != "" {
			d.Detail += ", and " + out
		}
	}
	return d
}

// asking is what is known of a question beside it.
type asking struct {
	port bool            // its port was written, or is on record
	last []netlog.Record // what was decided about the host, the newest first
}

// mendOf finds what would allow what a report refuses or, where the rules
// allow it now, what of the last connection no rule for the host would mend.
// The flag names the port where that was written or recorded. s is nil for what
// a running sandbox decides, whose sources are not known.
func (a *app) mendOf(s *settings.Sources, ask policy.Request, r testReport, why asking) *mend {
	ev := bailey.Event{Type: bailey.EventNetDecision, Verdict: r.Verdict, Reason: r.Reason, Protocol: policy.ProtocolTLS, Host: r.Host, Port: r.Port}
	if addr, err := netip.ParseAddr(r.Host); err == nil {
		ev.Host, ev.Address, ev.Protocol = "", addr.String(), policy.ProtocolTCP
	}
	if !why.port {
		ev.Port = 0
	}
	from := r.From
	if r.Verdict == bailey.Allow.String() {
		i := slices.IndexFunc(why.last, func(rec netlog.Record) bool { return rec.Port == r.Port || rec.Port == 0 })
		if i < 0 || !beyondRules(why.last[i].Reason) {
			return nil
		}
		rec := why.last[i]
		ev.Verdict, ev.Reason, ev.Address, ev.Protocol, from = bailey.Deny.String(), rec.Reason, rec.Address, rec.Proto, ""
	} else if s != nil && r.Verdict == bailey.Deny.String() && isOfHost(r.Reason) {
		ask.Port = r.Port
		ev.Reason = policy.ReasonNotAllowed // whatever it is: what is said is tried out
		return adviser{a, *s, ask}.advise(policy.RemedyOf(ev))
	}
	remedy := policy.RemedyOf(ev)
	m := &mend{Flag: remedy.Flag, Note: remedy.Note, project: true}
	if from != "" && m.Flag == "" {
		m.Note += ": " + from
	}
	if remedy.Entry != "" {
		m.YAML, m.File = settings.AllowLine(remedy.Entry), a.place().UserFile()
	}
	if m.Flag == "" && m.YAML == "" && m.Note == "" {
		return nil
	}
	return m
}

// isOfHost reports whether a refusal is about the host and port, whatever is
// asked of them.
func isOfHost(reason string) bool {
	switch reason {
	case policy.ReasonModeNone, policy.ReasonNotAllowed, policy.ReasonPortNotAllowed, policy.ReasonDeniedByRule, policy.ReasonSpecialAddress:
		return true
	}
	return false
}
