package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/mirror"
	"github.com/bailey-dev/bailey/internal/policy"
)

// Sources is everything that has a say, from the weakest to the strongest.
type Sources struct {
	Files
	Flags Flags
	Agent []string // rules of the agent that is started by name

	regardless bool // the user's mode none does not keep a project's file out
}

// Effective is what holds, and from where.
type Effective struct {
	Mode    Setting[bailey.NetMode]
	DNS     Setting[bailey.DNSMode]
	Ask     Setting[bool]
	Allow   []Held
	Deny    []Held
	Presets []Setting[string]
	Key     *Setting[string] // the user's key for git over SSH; nil: those of their agent

	Upstream *Upstream // of the user's own file; nil: there is none
	Learn    bool      // nothing is let through for that
	// Widens lists what a project's file that is not trusted would add. While
	// there is any, nothing is started; what holds is then without it.
	Widens []Widening

	opened bool   // the mode is that of flags which name a host, in the place of the user's none
	edited bool   // the project's file was trusted, and not as it is now
	closed string // where a project's file says none, against flags that ask for a network; or ""
	asking string // one of those flags
}

// Widening is one thing by which a project's file would let more through.
type Widening struct {
	What string // such as "allow example.com"
	From string
}

// Policy is what holds, for the one who decides.
func (e Effective) Policy() policy.Policy {
	return policy.Policy{Mode: e.Mode.Value, Allow: bare(e.Allow), Deny: bare(e.Deny), DNS: e.DNS.Value, Ask: e.Ask.Value, Learn: e.Learn}
}

func bare(list []Held) []policy.Rule {
	var out []policy.Rule
	for _, h := range list {
		out = append(out, h.Rule)
	}
	return out
}

// Resolve says what holds.
func Resolve(s Sources, h mirror.Host) (Effective, error) {
	flags, err := s.Flags.net()
	if err != nil {
		return Effective{}, err
	}
	agent, err := flagRules("the agent's own", s.Agent, policy.ParseRule)
	if err != nil {
		return Effective{}, err
	}
	var user, project Net
	if s.User != nil {
		user = s.User.Net
	}
	base, err := personal(user, flags, agent, h)
	if err != nil || s.Project == nil {
		return base, err
	}
	project = s.Project.Net
	base.edited = s.Edited
	if base.shut() && !s.regardless { // whatever a project's file says
		base.Deny = append(base.Deny, project.Deny...)
		return base, nil
	}
	added, err := expandAll(project.Presets, h)
	if err != nil {
		return base, err
	}
	project.Allow = slices.Concat(project.Allow, added)
	if s.Trusted {
		base.widen(project, flags)
	} else {
		base.tighten(project)
	}
	if m := project.Mode; base.Mode.Value == bailey.NetNone && m != nil && m.Value == bailey.NetNone {
		base.Mode, base.closed, base.asking = *m, m.From, s.Flags.asking()
	}
	return base, nil
}

func expandAll(presets []Setting[string], h mirror.Host) ([]Held, error) {
	var out []Held
	for _, p := range presets {
		rules, err := Expand(p.Value, p.From, h)
		if err != nil {
			return nil, at(p.From, err)
		}
		out = append(out, rules...)
	}
	return out, nil
}

// at puts where a thing was named before an error about it.
func at(from string, err error) error {
	if bailey.KindOf(err) == bailey.Internal {
		return fmt.Errorf("%s: %w", from, err)
	}
	return flagError(from, err)
}

// personal is what the user alone says: their file, the agent that they start,
// their flags.
func personal(user, flags Net, agent []Held, h mirror.Host) (Effective, error) {
	presets := slices.Concat(user.Presets, flags.Presets)
	of, err := expandAll(presets, h)
	if err != nil {
		return Effective{}, err
	}
	e := Effective{
		Mode: Setting[bailey.NetMode]{bailey.NetNone, byDefault}, DNS: Setting[bailey.DNSMode]{bailey.DNSRules, byDefault},
		Ask:     Setting[bool]{false, byDefault},
		Allow:   unwidened(slices.Concat(user.Allow, agent, of, flags.Allow)),
		Deny:    slices.Concat(user.Deny, flags.Deny),
		Presets: presets,
		Key:     user.Key, Upstream: user.Upstream, Learn: flags.learn,
	}
	for _, n := range []Net{user, flags} {
		if n.DNS != nil {
			e.DNS = *n.DNS
		}
		if n.Ask != nil {
			e.Ask = *n.Ask
		}
	}
	return e, e.setMode(user, flags)
}

// unwidened leaves the host of a secret to the rules that let some requests to
// it through, where there are such: they have its TLS opened too, and whoever
// wrote them did not want the rest. So it is with a wildcard if a name below it
// has rules that let through less; and where rules say which addresses a host
// has, the secret's say so too.
func unwidened(list []Held) []Held {
	var out []Held
	for _, h := range list {
		if h.lent {
			out = append(out, h.within(list)...)
		} else {
			out = append(out, h)
		}
	}
	return out
}

// within is what there is to be of the rule for a secret's host beside others.
func (h Held) within(list []Held) []Held {
	at := []Held{}
	for _, o := range list {
		switch same, below := o.about(h.Rule), h.about(o.Rule); {
		case o.lent || !same && !below:
		case o.ofRequests() || !same && o.ofAddresses():
			return nil
		case same && o.ofAddresses():
			narrow := *h.Narrow
			narrow.Addresses = o.Narrow.Addresses
			here := h
			here.Narrow = &narrow
			at = append(at, here)
		}
	}
	if len(at) > 0 {
		return at
	}
	return []Held{h}
}

func (h Held) ofRequests() bool {
	return h.Narrow != nil && len(h.Narrow.Methods)+len(h.Narrow.Paths)+len(h.Narrow.Repositories) > 0
}

func (h Held) ofAddresses() bool { return h.Narrow != nil && len(h.Narrow.Addresses) > 0 }

// about reports whether the rule speaks of all that another does, by host and
// port.
func (h Held) about(r policy.Rule) bool {
	same := h.Host == r.Host && h.Wildcard == r.Wildcard
	below := h.Wildcard && strings.HasSuffix(r.Host, "."+h.Host)
	return (same || below) && (h.Port == r.Port || h.Port == 0 && r.Port == 443 || r.Port == 0 && h.Port == 443)
}

// opener is the flag by which something is allowed.
func (n Net) opener() string {
	if len(n.Presets) == 0 && !slices.ContainsFunc(n.Allow, func(h Held) bool { return !h.lent }) {
		return "--secret"
	}
	return "--allow"
}

// setMode finds the mode that the user alone says, or implies.
func (e *Effective) setMode(user, flags Net) error {
	given, asks := len(flags.Allow)+len(flags.Presets), flags.Ask != nil && flags.Ask.Value
	by := byAsk
	if flags.learn && !asks {
		asks, by = true, byLearn
	}
	switch {
	case flags.Mode != nil:
		e.Mode = *flags.Mode
		if e.Mode.Value == bailey.NetNone && given > 0 {
			return bailey.NewError(bailey.Invalid, "--net none and "+flags.opener()+" contradict each other", "leave one of them out")
		}
		if e.Mode.Value == bailey.NetNone && asks {
			return bailey.NewError(bailey.Invalid, "--net none and "+by+" contradict each other", "leave one of them out")
		}
	case user.Mode != nil && (user.Mode.Value != bailey.NetNone || given == 0 && !asks):
		e.Mode = *user.Mode
	case user.Mode != nil && given == 0:
		e.Mode, e.opened = Setting[bailey.NetMode]{bailey.NetAllow, by}, true
	case user.Mode != nil: // a flag opens the user's none, for what it names
		e.Mode, e.opened = Setting[bailey.NetMode]{bailey.NetAllow, byAllow}, true
	case len(e.Allow) > 0:
		e.Mode = Setting[bailey.NetMode]{bailey.NetAllow, e.Allow[0].From}
	case e.Ask.Value:
		e.Mode = Setting[bailey.NetMode]{bailey.NetAllow, e.Ask.From}
	case e.Learn:
		e.Mode = Setting[bailey.NetMode]{bailey.NetAllow, byLearn}
	}
	return nil
}

// byDefault is where a setting comes from that nobody made, byAllow and byAsk
// where a mode does that flags imply.
const (
	byDefault = "default"
	byAllow   = "--allow"
	byAsk     = "--ask"
	byLearn   = "--learn"

	byEnvironment = "BAILEY_NET"
)

// shut reports whether the user has said that there is no network.
func (e *Effective) shut() bool { return e.Mode.Value == bailey.NetNone && e.Mode.From != byDefault }

// ClosedBy is where a project's file says that there is no network, or "".
func (e Effective) ClosedBy() string { return e.closed }

// widen adds a project's file that is trusted. What a flag says stays.
func (e *Effective) widen(project, flags Net) {
	e.Allow = append(e.Allow, project.Allow...)
	e.Deny = append(e.Deny, project.Deny...)
	e.Presets = append(e.Presets, project.Presets...)
	switch {
	case flags.Mode != nil, e.opened:
	case project.Mode != nil:
		e.Mode = *project.Mode
	case e.Mode.Value == bailey.NetNone && len(project.Allow) > 0:
		e.Mode = Setting[bailey.NetMode]{bailey.NetAllow, project.Allow[0].From}
	}
	if project.DNS != nil && flags.DNS == nil {
		e.DNS = *project.DNS
	}
	if project.Ask != nil && flags.Ask == nil {
		e.Ask = *project.Ask
	}
	if e.Ask.Value && e.Mode.Value == bailey.NetNone && e.Mode.From == byDefault {
		e.Mode = Setting[bailey.NetMode]{bailey.NetAllow, e.Ask.From}
	}
}

// tighten takes of a project's file that is not trusted what lets less
// through, and notes the rest. A file that says none adds nothing, whatever it
// lists.
func (e *Effective) tighten(project Net) {
	if project.Mode != nil && project.Mode.Value == bailey.NetNone {
		project = Net{Mode: project.Mode, Deny: project.Deny}
	}
	base := e.Policy()
	var covered []Held
	for _, h := range project.Allow {
		if !base.Covers(h.Rule) {
			e.Widens = append(e.Widens, Widening{"allow " + h.Brief(), h.From})
			continue
		}
		h.Fenced = true
		covered = append(covered, h)
	}
	if m := project.Mode; tightenSetting(e, "mode", &e.Mode, m) && m.Value == bailey.NetAllow {
		e.Allow = append(e.Allow, covered...) // the mode before needed no list
	}
	tightenSetting(e, "dns", &e.DNS, project.DNS)
	if a := project.Ask; a != nil && a.Value && !e.Ask.Value {
		e.Widens = append(e.Widens, Widening{"ask", a.From})
	} else if a != nil && !a.Value {
		e.Ask = *a
	}
	for _, h := range project.Deny {
		h.Fenced = true
		e.Deny = append(e.Deny, h)
	}
}

// tightenSetting takes a setting over that is narrower, and reports whether it
// is; one that is wider is noted.
func tightenSetting[T interface {
	~uint8
	fmt.Stringer
}](e *Effective, what string, now, wanted *Setting[T]) bool {
	switch {
	case wanted == nil:
	case wanted.Value > now.Value:
		e.Widens = append(e.Widens, Widening{what + " " + wanted.Value.String(), wanted.From})
	case wanted.Value < now.Value:
		*now = *wanted
		return true
	}
	return false
}

// Refusal is why nothing may be started by what holds, or nil: a project's
// file that would widen and is not trusted, and what this version cannot keep.
func (e Effective) Refusal() error {
	if len(e.Widens) > 0 {
		w := e.Widens[0]
		more := ""
		if n := len(e.Widens) - 1; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		state, shows := "is not trusted", "shows it"
		if e.edited {
			state, shows = "is not trusted any more, as it was changed since it was", "shows what changed"
		}
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s: the project's file would widen what you allow (%s%s) and %s", w.From, w.What, more, state),
			"bailey policy diff "+shows+", bailey policy trust agrees to it as it is now; --net none does without it")
	}
	if e.closed != "" && e.asking != "" {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s and mode none of %s contradict each other", e.asking, e.closed), "leave the flag out, or take the mode out of the file")
	}
	return nil
}
