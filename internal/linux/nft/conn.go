package nft

import (
	"fmt"
	"reflect"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Conn is a netfilter socket in the namespace of the thread that dialled it.
type Conn struct {
	c *nftables.Conn
}

// Dial opens a netfilter socket in the calling thread's namespace.
//
// The thread must already be there: the library's own way of entering a
// namespace switches back afterwards, which is refused in a user namespace
// that does not own the first one.
func Dial() (*Conn, error) {
	c, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	return &Conn{c: c}, nil
}

// Close closes the socket. The rules stay.
func (c *Conn) Close() error { return c.c.CloseLasting() }

// Apply sets the table in one transaction: all of it or nothing.
func (c *Conn) Apply(rs Ruleset) error {
	t := c.c.CreateTable(&nftables.Table{Name: rs.Table, Family: nftables.TableFamilyINet})
	for _, want := range rs.Chains {
		chain := c.c.AddChain(want.kernel(t))
		for _, r := range want.Rules {
			if r.Verdict.exprs == nil {
				return fmt.Errorf("rule %q of chain %s has no verdict", r, want.Name)
			}
			c.c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: r.exprs()})
		}
	}
	if err := c.c.Flush(); err != nil {
		return fmt.Errorf("set table %s: %w", rs.Table, err)
	}
	return nil
}

// DifferenceError says where the kernel's rules are not those that were set.
type DifferenceError struct {
	Where string // "chain input, rule 2"
	What  string
}

// Error returns place and difference on one line.
func (e *DifferenceError) Error() string { return e.Where + ": " + e.What }

// Verify reads the namespace's rules back and compares them with rs: the same
// one table, the same chains with the same hooks, priorities and policies, and
// the same rules in the same order. Any difference is a *DifferenceError.
func (c *Conn) Verify(rs Ruleset) error {
	if err := c.verifyTables(rs); err != nil {
		return err
	}
	chains, err := c.c.ListChains()
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	if len(chains) != len(rs.Chains) {
		return differs("table "+rs.Table, "has %d chains, not %d", len(chains), len(rs.Chains))
	}
	for i, want := range rs.Chains {
		if err := c.verifyChain(want, chains[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) verifyTables(rs Ruleset) error {
	tables, err := c.c.ListTables()
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	if len(tables) != 1 {
		return differs("namespace", "has %d tables, not 1", len(tables))
	}
	got := tables[0]
	if got.Name != rs.Table || got.Family != nftables.TableFamilyINet {
		return differs("namespace", "has table %q of family %d, not inet %q", got.Name, got.Family, rs.Table)
	}
	if got.Flags&unix.NFT_TABLE_F_DORMANT != 0 {
		return differs("table "+rs.Table, "is dormant")
	}
	return nil
}

func (c *Conn) verifyChain(want Chain, got *nftables.Chain) error {
	k := want.kernel(got.Table)
	where := "chain " + want.Name
	switch {
	case got.Name != want.Name:
		return differs(where, "is called %q", got.Name)
	case got.Type != k.Type:
		return differs(where, "has type %q, not %q", got.Type, k.Type)
	case got.Hooknum == nil || *got.Hooknum != *k.Hooknum:
		return differs(where, "is not at hook %d", *k.Hooknum)
	case got.Priority == nil || *got.Priority != *k.Priority:
		return differs(where, "has not priority %d", *k.Priority)
	case got.Policy == nil || *got.Policy != *k.Policy:
		return differs(where, "has not the policy of %q", want)
	}
	rules, err := c.c.GetRules(got.Table, got)
	if err != nil {
		return fmt.Errorf("list rules of chain %s: %w", want.Name, err)
	}
	if len(rules) != len(want.Rules) {
		return differs(where, "has %d rules, not %d", len(rules), len(want.Rules))
	}
	for i, r := range want.Rules {
		if !reflect.DeepEqual(rules[i].Exprs, r.exprs()) {
			return differs(fmt.Sprintf("%s, rule %d", where, i+1), "is not %q", r)
		}
	}
	return nil
}

func differs(where, format string, args ...any) error {
	return &DifferenceError{Where: where, What: fmt.Sprintf(format, args...)}
}

func (c Chain) kernel(t *nftables.Table) *nftables.Chain {
	policy := nftables.ChainPolicyDrop
	if c.Policy == PolicyAccept {
		policy = nftables.ChainPolicyAccept
	}
	typ := nftables.ChainTypeFilter
	if c.Type == NAT {
		typ = nftables.ChainTypeNAT
	}
	return &nftables.Chain{
		Name: c.Name, Table: t, Type: typ, Policy: &policy,
		Hooknum:  new(c.Hook.kernel()),
		Priority: new(nftables.ChainPriority(c.Priority)),
	}
}

func (h Hook) kernel() nftables.ChainHook {
	switch h {
	case Prerouting:
		return unix.NF_INET_PRE_ROUTING
	case Input:
		return unix.NF_INET_LOCAL_IN
	case Forward:
		return unix.NF_INET_FORWARD
	case Output:
		return unix.NF_INET_LOCAL_OUT
	}
	return ^nftables.ChainHook(0) // the kernel refuses it
}

func (r Rule) exprs() []expr.Any {
	var list []expr.Any
	for _, m := range r.Matches {
		list = append(list, m.exprs...)
	}
	return append(list, r.Verdict.exprs...)
}
