package airlock

import (
	"github.com/bailey-dev/bailey/internal/linux/nft"
	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// Rules is the rule set that Build sets.
func Rules(cfg Config) nft.Ruleset { return rules(cfg.withDefaults()) }

// BuildWith builds an airlock with other rules, for the tests that show what
// a rule is good for.
func BuildWith(cfg Config, rs nft.Ruleset) (*Lock, error) {
	b, err := newBuilder(cfg)
	if err != nil {
		return nil, err
	}
	b.rules = rs
	if err := thread.Run(b.run); err != nil {
		return nil, err
	}
	return b.lock, nil
}
