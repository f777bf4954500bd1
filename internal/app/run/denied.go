package run

import (
	"slices"
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
	target string // host, or host:port
	flag   string // value of --allow that would have let it through; may be empty
	reason string
	count  int
}

// mostDenials is how many different targets a run remembers.
const mostDenials = 256

func (d *denials) add(e bailey.Event) {
	if e.Type != bailey.EventNetDecision || e.Verdict == bailey.Allow.String() {
		return
	}
	flag, _ := policy.AllowFlag(e)
	target := e.Host
	if target == "" {
		target = e.Address
	}
	if target == "" {
		return
	}
	key := target + " " + e.Reason
	if d.seen == nil {
		d.seen = map[string]*denial{}
	}
	if x, ok := d.seen[key]; ok {
		x.count++
		if x.flag == "" || len(flag) > len(x.flag) { // a port is the narrower rule
			x.flag = flag
		}
		return
	}
	if len(d.order) == mostDenials {
		d.more++
		return
	}
	d.seen[key] = &denial{target: target, flag: flag, reason: e.Reason, count: 1}
	d.order = append(d.order, key)
}

// list returns the targets in the order of their first refusal.
func (d *denials) list() []denial {
	out := make([]denial, 0, len(d.order))
	for _, k := range d.order {
		out = append(out, *d.seen[k])
	}
	return out
}

// flags returns the --allow flags that would have let everything through that
// a flag can let through, as one line to copy.
func (d *denials) flags() string {
	var flags []string
	for _, x := range d.list() {
		if f := "--allow " + x.flag; x.flag != "" && !slices.Contains(flags, f) {
			flags = append(flags, f)
		}
	}
	return strings.Join(flags, " ")
}
