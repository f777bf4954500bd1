package nft_test

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/nft"
	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// sample uses every match and verdict once.
func sample() nft.Ruleset {
	rule := func(v nft.Verdict, m ...nft.Match) nft.Rule { return nft.Rule{Matches: m, Verdict: v} }
	v4, tcp := nft.OfFamily(nft.IPv4), nft.OfProtocol(nft.TCP)
	a := netip.MustParseAddr("192.0.2.1")
	return nft.Ruleset{Table: "sample", Chains: []nft.Chain{
		{Name: "a", Hook: nft.Prerouting, Priority: nft.PriorityRaw, Rules: []nft.Rule{
			rule(nft.Drop(), nft.NotInInterface("r0")),
			rule(nft.RejectProhibited(), nft.OfFamily(nft.IPv6)),
			rule(nft.Drop(), v4, nft.SourceIsNot(a)),
			rule(nft.Drop(), v4, nft.DestinationIsLoopback()),
			rule(nft.RejectPort(), v4, nft.OfProtocol(nft.UDP)),
			rule(nft.RejectReset(), tcp),
		}},
		{Name: "b", Type: nft.NAT, Hook: nft.Prerouting, Priority: nft.PriorityDNAT, Policy: nft.PolicyAccept, Rules: []nft.Rule{
			rule(nft.Redirect(15001), v4, tcp, nft.DestinationPort(443)),
		}},
		{Name: "c", Hook: nft.Input, Priority: nft.PriorityFilter, Rules: []nft.Rule{
			rule(nft.Accept(), nft.InInterface("r0"), v4, nft.DestinationIs(a), tcp),
		}},
		{Name: "d", Hook: nft.Forward, Priority: nft.PriorityFilter},
		{Name: "e", Hook: nft.Output, Priority: nft.PriorityFilter, Rules: []nft.Rule{
			rule(nft.Accept(), nft.OutInterface("r0"), nft.Established()),
			rule(nft.Accept(), tcp, nft.ResetOfSYN()),
			rule(nft.Accept(), v4, nft.OfProtocol(nft.ICMP), nft.ICMPType(3)),
			rule(nft.Accept(), nft.OfFamily(nft.IPv6), nft.OfProtocol(nft.ICMPv6), nft.ICMPType(1)),
		}},
	}}
}

// apply sets the rule sets, one after the other, in a fresh namespace and
// verifies what is there against want.
func apply(want nft.Ruleset, set ...nft.Ruleset) error {
	return thread.Run(func() (err error) {
		ns, err := netns.New()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ns.Close()) }()
		c, err := nft.Dial()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		for _, rs := range set {
			if err := c.Apply(rs); err != nil {
				return err
			}
		}
		return c.Verify(want)
	})
}

func TestVerify_FindsWhatWasSet(t *testing.T) {
	t.Parallel()
	if err := apply(sample(), sample()); err != nil {
		t.Error(err)
	}
}

func TestVerify_FindsEveryDifference(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*nft.Ruleset)
		where  string
	}{
		"name of the table": {func(rs *nft.Ruleset) { rs.Table = "other" }, "namespace"},
		"chain missing":     {func(rs *nft.Ruleset) { rs.Chains = rs.Chains[1:] }, "table sample"},
		"chain too many": {func(rs *nft.Ruleset) {
			rs.Chains = append(rs.Chains, nft.Chain{Name: "f", Hook: nft.Forward, Priority: 10})
		}, "table sample"},
		"order of chains": {func(rs *nft.Ruleset) { slices.Reverse(rs.Chains) }, "chain a"},
		"hook":            {func(rs *nft.Ruleset) { rs.Chains[3].Hook = nft.Input }, "chain d"},
		"priority":        {func(rs *nft.Ruleset) { rs.Chains[2].Priority = 1 }, "chain c"},
		"policy":          {func(rs *nft.Ruleset) { rs.Chains[3].Policy = nft.PolicyAccept }, "chain d"},
		"rule missing":    {func(rs *nft.Ruleset) { rs.Chains[0].Rules = rs.Chains[0].Rules[1:] }, "chain a"},
		"rule too many": {func(rs *nft.Ruleset) {
			rs.Chains[3].Rules = []nft.Rule{{Verdict: nft.Accept()}}
		}, "chain d"},
		"order of rules": {func(rs *nft.Ruleset) { slices.Reverse(rs.Chains[0].Rules) }, "chain a, rule 1"},
		"verdict":        {func(rs *nft.Ruleset) { rs.Chains[0].Rules[0].Verdict = nft.Accept() }, "chain a, rule 1"},
		"match missing": {func(rs *nft.Ruleset) {
			rs.Chains[2].Rules[0].Matches = rs.Chains[2].Rules[0].Matches[1:]
		}, "chain c, rule 1"},
		"address": {func(rs *nft.Ruleset) {
			rs.Chains[0].Rules[2].Matches[1] = nft.SourceIsNot(netip.MustParseAddr("192.0.2.2"))
		}, "chain a, rule 3"},
		"port": {func(rs *nft.Ruleset) { rs.Chains[1].Rules[0].Matches[2] = nft.DestinationPort(444) }, "chain b, rule 1"},
		"redirected port": {func(rs *nft.Ruleset) {
			rs.Chains[1].Rules[0].Verdict = nft.Redirect(15002)
		}, "chain b, rule 1"},
		"code of the rejection": {func(rs *nft.Ruleset) { rs.Chains[0].Rules[4].Verdict = nft.RejectProhibited() }, "chain a, rule 5"},
		"interface":             {func(rs *nft.Ruleset) { rs.Chains[0].Rules[0].Matches[0] = nft.NotInInterface("r01") }, "chain a, rule 1"},
		"sense":                 {func(rs *nft.Ruleset) { rs.Chains[0].Rules[0].Matches[0] = nft.InInterface("r0") }, "chain a, rule 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := sample()
			tc.change(&changed)
			err := apply(sample(), changed)
			diff, ok := errors.AsType[*nft.DifferenceError](err)
			if !ok || diff.Where != tc.where {
				t.Errorf("got %v, want a difference in %s", err, tc.where)
			}
		})
	}
}

func TestVerify_FindsASecondTableAndNone(t *testing.T) {
	t.Parallel()
	other := nft.Ruleset{Table: "other"}
	for name, set := range map[string][]nft.Ruleset{"second": {sample(), other}, "none": nil} {
		if _, ok := errors.AsType[*nft.DifferenceError](apply(sample(), set...)); !ok {
			t.Errorf("%s: no difference", name)
		}
	}
}

func TestApply_RefusesARuleWithoutVerdict(t *testing.T) {
	t.Parallel()
	rs := sample()
	rs.Chains[0].Rules[0].Verdict = nft.Verdict{}
	if err := apply(rs, rs); err == nil || !strings.Contains(err.Error(), "no verdict") {
		t.Errorf("got %v", err)
	}
}

// TestApply_AllOrNothing: a chain that the kernel refuses takes the others
// with it.
func TestApply_AllOrNothing(t *testing.T) {
	t.Parallel()
	bad := sample()
	bad.Chains[4].Hook = 99
	err := thread.Run(func() error {
		ns, err := netns.New()
		if err != nil {
			return err
		}
		c, err := nft.Dial()
		if err != nil {
			return errors.Join(err, ns.Close())
		}
		if err := c.Apply(bad); err == nil {
			t.Error("the kernel took hook 99")
		}
		return errors.Join(c.Verify(sample()), c.Close(), ns.Close())
	})
	if diff, ok := errors.AsType[*nft.DifferenceError](err); !ok || diff.What != "has 0 tables, not 1" {
		t.Errorf("got %v", err)
	}
}

func TestString_IsTheSyntaxOfNft(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/sample.nft")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), sample().String()); diff != "" {
		t.Error(diff)
	}
}
