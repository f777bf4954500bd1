package settings

import (
	"fmt"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// dead says, a line each and with the place, which allow rules of a file let
// nothing through, for what else the file says.
func (n Net) dead() []string {
	if n.Mode != nil && n.Mode.Value == bailey.NetNone && len(n.Allow)+len(n.Presets) > 0 {
		return []string{n.Mode.From + ": warning: mode none keeps out what allow and presets name; take the mode out (in config.yaml, your own, a flag such as --allow opens it)"}
	}
	if len(n.Deny) == 0 {
		return nil
	}
	all := policy.NewIndex(policy.Policy{Mode: bailey.NetFull, Deny: bare(n.Deny)})
	var out []string
	for _, h := range n.Allow {
		by := deniedBy(all, h)
		if by == "" {
			continue
		}
		i := slices.IndexFunc(n.Deny, func(d Held) bool { return d.String() == by })
		line := fmt.Sprintf("%s: warning: deny beats allow, and the deny rule %s (%s) refuses all of %s; take one of them out", h.From, by, n.Deny[max(i, 0)].From, h.String())
		if len(out) == 0 || out[len(out)-1] != line {
			out = append(out, line)
		}
	}
	return out
}

// deniedBy returns the deny rule that keeps out what an allow rule names, at
// each of its ports, or "".
func deniedBy(all *policy.Index, h Held) (rule string) {
	ports := []uint16{h.Port}
	if h.Port == 0 {
		ports = []uint16{80, 443}
	}
	host := h.Host
	if h.Wildcard { // a name below that no rule spells out
		host = "any." + host
	}
	for _, port := range ports {
		d := all.Decide(policy.Request{Protocol: policy.ProtocolTCP, Host: host, Addr: h.Addr, Port: port})
		if d.Reason != policy.ReasonDeniedByRule {
			return ""
		}
		rule = d.Rule
	}
	return rule
}
