// Package dns answers the DNS questions of one sandbox, on sockets that it is
// given.
//
// A question leaves the host only for a name that the policy allows, and then
// as a new question of the host's own resolver: nothing of the sandbox's
// packet is forwarded. Names that are not allowed do not exist (NXDOMAIN),
// and neither does a name with a special address among its addresses. A name
// that only a wildcard allows is not asked for at all: it gets an address that
// stands for it (docs/adr/0009). A is answered with data, and TXT and SRV where
// a rule names them. AAAA, HTTPS, SVCB and every other type of an allowed
// name are empty: a sandbox has IPv4 alone, and an answer without IPv6 or ECH
// makes programs try IPv4 and the visible server name at once instead of
// after a time-out. What was answered is remembered in Pins, so that a
// connection which says no name can be told which name it is for.
//
// It opens no socket but through the Resolver, keeps no zone and is no
// recursive server. Its caller is internal/app/proxy; the decision is
// internal/policy's.
package dns
