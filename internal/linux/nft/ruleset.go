package nft

import (
	"fmt"
	"strings"
)

// Ruleset is one table of family inet (IPv4 and IPv6 together).
type Ruleset struct {
	Table  string
	Chains []Chain
}

// Chain is a base chain: a list of rules at one point of a packet's way. The
// zero Policy drops.
type Chain struct {
	Name     string
	Type     Type
	Hook     Hook
	Priority int // lower is earlier; see the constants
	Policy   Policy
	Rules    []Rule
}

// Type is the type of a base chain.
type Type uint8

// The types of chain in use.
const (
	Filter Type = iota
	NAT
)

// Hook is where in the kernel's packet path a chain is called.
type Hook uint8

// The hooks of family inet.
const (
	Prerouting Hook = iota
	Input
	Forward
	Output
)

// Priorities as nft(8) names them (linux/netfilter_ipv4.h).
const (
	PriorityRaw    = -300 // before connection tracking, after defragmentation
	PriorityDNAT   = -100
	PriorityFilter = 0
)

// Policy is what happens to a packet that no rule of a chain decides.
type Policy uint8

// The policies.
const (
	PolicyDrop Policy = iota
	PolicyAccept
)

// Rule applies Verdict to the packets that all Matches match.
type Rule struct {
	Matches []Match
	Verdict Verdict
}

// String returns the rule as nft(8) writes it.
func (r Rule) String() string {
	words := make([]string, 0, len(r.Matches)+1)
	for _, m := range r.Matches {
		words = append(words, m.text)
	}
	return strings.Join(append(words, r.Verdict.text), " ")
}

// String returns the chain's first line as nft(8) writes it.
func (c Chain) String() string {
	typ := map[Type]string{Filter: "filter", NAT: "nat"}[c.Type]
	hook := map[Hook]string{Prerouting: "prerouting", Input: "input", Forward: "forward", Output: "output"}[c.Hook]
	policy := map[Policy]string{PolicyDrop: "drop", PolicyAccept: "accept"}[c.Policy]
	return fmt.Sprintf("type %s hook %s priority %d; policy %s;", typ, hook, c.Priority, policy)
}

// String returns the table in the syntax of nft(8).
func (rs Ruleset) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", rs.Table)
	for _, c := range rs.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n\t\t%s\n", c.Name, c)
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}
