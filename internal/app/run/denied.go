package run

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
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
	hosts  []string // values of --allow that would have let it through, one a port
	flags  []string // other flags that would have
	files  []string // entries of a policy file that would have, where no flag does
	note   string   // what to do where no rule for the host helps
	reason string
	count  int

	unreached bool // it is allowed: no rule refused it
}

// mostDenials is how many different targets a run remembers, mostPorts how
// many ports of one.
const (
	mostDenials = 256
	mostPorts   = 8
)

func (d *denials) add(e bailey.Event) {
	if e.Type != bailey.EventNetDecision || e.Verdict == bailey.Allow.String() || e.Verdict == bailey.Ask.String() {
		return // what was asked for has a decision of its own
	}
	if toProxy(e) && e.Reason == policy.ReasonSilent {
		return // nothing was asked for: a program ended a connection that it had in store
	}
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
		x.mend(e)
		return
	}
	if len(d.order) == mostDenials {
		d.more++
		return
	}
	x := &denial{target: target, reason: e.Reason, count: 1, unreached: unreached(e)}
	x.mend(e)
	d.seen[key] = x
	d.order = append(d.order, key)
}

// unreached reports an event of a host that is allowed, and to which there was
// no way. Where no host is named it is a deny rule that nobody could apply.
func unreached(e bailey.Event) bool { return e.Host != "" && policy.Unreached(e.Reason) != "" }

// toProxy reports an event of a connection to the proxy that programs inside
// are told of, which had not said where it wants to go.
func toProxy(e bailey.Event) bool {
	return e.Host == "" && e.Address == airlock.Gateway().String() && (e.Port == gate.ProxyPort || e.Port == gate.SOCKSPort)
}

// targetOf is what a refusal was about, as a row shows it. What is no host name
// is in quotes: a sandbox can say anything for a name, such as what reads like
// a row about another host.
func targetOf(e bailey.Event) string {
	if toProxy(e) {
		return "a connection to bailey's own proxy"
	}
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

// mend keeps what would have let a refusal through.
func (x *denial) mend(e bailey.Event) {
	r := policy.RemedyOf(e)
	x.note = r.Note
	host, named := strings.CutPrefix(r.Flag, "--allow ")
	switch {
	case named:
		x.addHost(host)
	case r.Flag != "":
		x.flags = addTo(x.flags, r.Flag)
		if r.Entry != "" {
			x.files = addTo(x.files, r.Entry)
		}
	case r.Entry != "":
		x.files = addTo(x.files, r.Entry)
	}
}

func addTo(list []string, one string) []string {
	if slices.Contains(list, one) || len(list) == mostPorts {
		return list
	}
	return append(list, one)
}

// addHost keeps a value of --allow. That of a look-up names no port: it gives
// way to those of the connections, which are narrower.
func (x *denial) addHost(host string) {
	lookup := len(x.hosts) == 1 && x.hosts[0] == x.target
	switch {
	case lookup:
		x.hosts[0] = host
	case host != x.target || len(x.hosts) == 0:
		x.hosts = addTo(x.hosts, host)
	}
}

// allow returns the values of --allow.
func (x *denial) allow() []string { return policy.Together(x.target, x.hosts) }

// command returns the flags to copy, or "".
func (x *denial) command() string {
	var flags []string
	for _, host := range x.allow() {
		flags = append(flags, "--allow "+host)
	}
	return strings.Join(append(flags, x.flags...), " ")
}

// row is one line of the footer: what was refused, why, and what would allow
// it in the next run.
func (x *denial) row() string {
	why := x.note
	if why == "" {
		why = x.reason
	}
	line := x.target + " (" + why
	if x.count > 1 {
		line += ", " + strconv.Itoa(x.count) + " times"
	}
	line += ")"
	if flags := x.command(); flags != "" {
		line += "   " + flags
	} else if len(x.files) > 0 {
		line += "   " + strings.Join(x.files, ", ")
	}
	return line
}

// list returns the targets in the order of their first refusal.
func (d *denials) list() []denial {
	out := make([]denial, 0, len(d.order))
	for _, k := range d.order {
		out = append(out, *d.seen[k])
	}
	return out
}

// mostCopied is how long a line to copy may be, in bytes: one that is longer
// nobody reads before they copy it.
const mostCopied = 1024

// flagsOf returns the flags that would have let all of a list through that a
// flag can let through, as one line to copy, or "" when that would be too long.
func flagsOf(list []denial) string {
	var flags []string
	for _, host := range allowValues(list) {
		flags = append(flags, "--allow "+host)
	}
	for _, x := range list {
		flags = appendNew(flags, x.flags...)
	}
	return copied(strings.Join(flags, " "))
}

// allowValues returns the values of --allow for a list, each host once: one that is
// named without a port is so for those of the web.
func allowValues(list []denial) []string {
	var hosts []string
	for _, x := range list {
		hosts = appendNew(hosts, x.allow()...)
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		for _, port := range []string{":80", ":443"} {
			if bare, ok := strings.CutSuffix(host, port); ok && slices.Contains(hosts, bare) {
				return true
			}
		}
		return false
	})
}

// offered leaves out what a person refused in the run: they are not offered to
// allow it with the rest. What is allowed already is not offered either.
func offered(list []denial) []denial {
	return slices.DeleteFunc(slices.Clone(list), func(x denial) bool { return x.unreached || x.reason == policy.ReasonAnsweredNo })
}

// lineOf is flagsOf for a policy file.
func lineOf(list []denial) string {
	var entries []string
	for _, host := range allowValues(list) {
		entries = append(entries, policy.Entry(host))
	}
	for _, x := range list {
		entries = appendNew(entries, x.files...)
	}
	if len(entries) == 0 {
		return ""
	}
	return copied(settings.AllowLine(entries...))
}

func appendNew(list []string, more ...string) []string {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

func copied(line string) string {
	if len(line) > mostCopied {
		return ""
	}
	return line
}
