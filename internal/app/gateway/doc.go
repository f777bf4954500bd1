// Package gateway is the role that answers a sandbox's model calls: a process
// that is given its settings, the wire that calls come over, the day's ledger
// and the provider's key as descriptors, takes its privileges away, and serves
// until its starter lets go.
//
// The provider's key is in no other process that lasts. What it parses comes
// from the sandbox and from the provider; it opens no file after its start but
// those that a resolver of names reads.
package gateway
