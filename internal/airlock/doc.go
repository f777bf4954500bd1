// Package airlock builds the one way out of a sandbox: two network namespaces
// joined by a virtual cable, and listeners that everything which may leave
// ends at.
//
//	sandbox namespace S                 router namespace R
//	lo                                  nftables: every TCP connection → TCP
//	eth0 192.0.0.2/30 ─────────────── r0 192.0.0.1/30    port 53 → DNS
//	default via 192.0.0.1               all else rejected, nothing forwarded
//
// The sandbox gets S. The listeners are made in R and served from outside, by
// a process that dials from its own namespace; R itself has no second link, so
// nothing can be forwarded whatever the rules say. The namespaces have no
// name: they are gone when the last descriptor and process are.
//
// Build needs CAP_NET_ADMIN and CAP_SYS_ADMIN in the user namespace it runs
// in, nothing on the host, and adds nothing to the host's namespace. Its
// caller is the engine's helper. It never serves a connection and decides
// nothing: that is the proxy's part.
//
// # The addresses
//
// The link uses 192.0.0.0/30, out of the block that RFC 7335 sets aside for
// links between a host and its own translator (192.0.0.0/29). Nothing is ever
// routed there, so it hides no machine that the sandbox may want to reach, as
// a piece of 10.0.0.0/8, 100.64.0.0/10 or 198.18.0.0/15 would for somebody.
// And it is special in the IANA registry: a policy that opens private ranges
// does not open it, so a connection to the gateway's own address is never
// dialled on the host. All sandboxes use the same addresses; they share no
// namespace.
package airlock
