package run

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// denials counts what the network refused, for the footer. It is bounded: a
// sandbox can make up names for ever.
type denials struct {
	seen  map[string]*denial
	order []string
	more  int // refusals that found no place
}

type denial struct {
	target string   // a host or an address
	flags  []string // values of --allow that would have let it through, one a port
	reason string
	count  int
}

// mostDenials is how many different targets a run remembers, mostPorts how
// many ports of one.
const (
	mostDenials = 256
	mostPorts   = 8
)

func (d *denials) add(e bailey.Event) {
	if e.Type != bailey.EventNetDecision || e.Verdict == bailey.Allow.String() {
		return
	}
	flag, _ := policy.AllowFlag(e)
	target := targetOf(e)
	if target == "" {
		return
	}
	key := target + " " + e.Reason
	if d.seen == nil {
		d.seen = map[string]*denial{}
	}
	if x, ok := d.seen[key]; ok {
		x.count++
		x.addFlag(flag)
		return
	}
	if len(d.order) == mostDenials {
		d.more++
		return
	}
	x := &denial{target: target, reason: e.Reason, count: 1}
	x.addFlag(flag)
	d.seen[key] = x
	d.order = append(d.order, key)
}

// targetOf is what a refusal was about, as a row shows it. What is no host name
// is in quotes: a sandbox can say anything for a name, such as what reads like
// a row about another host.
func targetOf(e bailey.Event) string {
	if e.Host == "" {
		if _, err := netip.ParseAddr(e.Address); e.Address == "" || err == nil {
			return e.Address
		}
		return quoted(e.Address)
	}
	if _, err := policy.NormalizeName(e.Host); err == nil {
		return e.Host
	}
	return quoted(e.Host)
}

// quoted makes a sandbox's words recognisable as such, and no longer than a
// name may be.
func quoted(s string) string {
	const most = 128
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// named returns the event with a host that is one, as docs/events.md says. What
// was said in a name's place and is none stands in the message, in quotes.
func named(e bailey.Event) bailey.Event {
	if e.Host == "" {
		return e
	}
	name, err := policy.NormalizeName(e.Host)
	if said := quoted(e.Host); err != nil && !strings.Contains(e.Message, said) {
		e.Message = said + " is no host name: " + e.Message
	}
	e.Host = name
	return e
}

// addFlag keeps a flag. That of a look-up names no port: it gives way to those
// of the connections, which are narrower.
func (x *denial) addFlag(flag string) {
	if flag == "" || slices.Contains(x.flags, flag) || len(x.flags) == mostPorts {
		return
	}
	lookup := len(x.flags) == 1 && x.flags[0] == x.target
	switch {
	case lookup:
		x.flags[0] = flag
	case flag != x.target || len(x.flags) == 0:
		x.flags = append(x.flags, flag)
	}
}

// allow returns the flags to copy, or "". The two ports of the web together
// are what a rule without a port means.
func (x *denial) allow() string {
	flags := slices.Clone(x.flags)
	plain, secure := slices.Index(flags, x.target+":80"), slices.Index(flags, x.target+":443")
	if plain >= 0 && secure >= 0 {
		flags[min(plain, secure)] = x.target
		flags = slices.Delete(flags, max(plain, secure), max(plain, secure)+1)
	}
	for i := range flags {
		flags[i] = "--allow " + flags[i]
	}
	return strings.Join(flags, " ")
}

// row is one line of the footer.
func (x *denial) row() string {
	line := x.target + " (" + inWords(x.reason)
	if x.count > 1 {
		line += ", " + strconv.Itoa(x.count) + " times"
	}
	line += ")"
	if flags := x.allow(); flags != "" {
		line += "   " + flags
	}
	return line
}

// inWords says what a person can do about a refusal that no --allow mends. The
// others keep the word that events have.
func inWords(reason string) string {
	switch reason {
	case policy.ReasonUnresolved:
		return "this machine could not resolve it: check the name, and this machine's DNS"
	case policy.ReasonSpecialAddress:
		return "a private or special address, which no sandbox reaches whatever the rules say"
	case policy.ReasonHostAddress:
		return "an address of this machine itself, which no sandbox reaches whatever the rules say"
	case policy.ReasonDeniedByRule:
		return "a --deny rule refuses it"
	case policy.ReasonUpstream:
		return "allowed, but it did not answer"
	}
	return reason
}

// list returns the targets in the order of their first refusal.
func (d *denials) list() []denial {
	out := make([]denial, 0, len(d.order))
	for _, k := range d.order {
		out = append(out, *d.seen[k])
	}
	return out
}

// flagsOf returns the --allow flags that would have let all of a list through
// that a flag can let through, as one line to copy, or "" when that would be
// longer than anybody reads before it is copied.
func flagsOf(list []denial) string {
	const most = 1024
	var flags []string
	for _, x := range list {
		if f := x.allow(); f != "" && !slices.Contains(flags, f) {
			flags = append(flags, f)
		}
	}
	line := strings.Join(flags, " ")
	if len(line) > most {
		return ""
	}
	return line
}
