package airlock

import (
	"net/netip"

	"github.com/bailey-dev/bailey/internal/linux/nft"
)

// Rules is the rule set that Build sets.
func Rules() nft.Ruleset { return rules() }

// Address is the sandbox's, with the link's prefix.
func Address() netip.Prefix { return address() }

// BuildWith builds an airlock with other rules, for the tests that show what a
// rule is good for. Its link has more addresses than two: the kernel's own
// check of sources lets a neighbour's pass.
func BuildWith(rs nft.Ruleset) (*Lock, error) {
	b := &builder{address: netip.PrefixFrom(address().Addr(), 29), rules: rs, lock: &Lock{}}
	return b.build()
}
