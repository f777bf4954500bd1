// Package netlab is a throw-away network for a test: a namespace that plays
// the host, and behind its one link another that plays the world, with
// public-looking addresses, a real DNS server, TLS and plain upstreams and a
// fake metadata service. On the host's loopback there are canaries, and a
// capture sees every connection and question that the host makes.
//
// A program started with [Lab.Command] takes the lab for the host's network:
// it has the lab's interfaces, /etc/resolv.conf and /etc/hosts, and no way to
// the machine's real network. The servers run inside the test process; when
// the test ends, or is killed, the namespace dies with its descriptors.
//
// It needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN) and util-linux (nsenter,
// unshare, setpriv). It may be imported by tests only. Any number of labs may
// run at the same time.
package netlab
