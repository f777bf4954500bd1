// Package nft is the one door to nftables: a rule set is written down as
// data, set in one transaction, and read back and compared rule by rule.
//
// It acts on the network namespace of the calling thread, which must be one
// of the caller's own making, since Apply expects it to hold no rule. It
// decides nothing: what the rules say is the business of its caller,
// internal/airlock. It never runs the nft program.
package nft
