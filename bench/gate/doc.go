// Command gate measures what the way out of a sandbox costs, beside its
// neighbours, in one run: the latency that a proxy adds to new connections, the
// throughput of long ones, requests a second where TLS is opened, the first
// byte of an event stream, decisions a second, and memory.
//
// The world is a network namespace with a DNS server and upstreams, behind one
// cable; clients, upstreams and DNS are in this process. Each proxy is a
// process of its own: bailey's is the role of the built binary with an airlock,
// as `bailey run` starts it; the plain splice proxy is the least that could
// stand there, on an airlock of its own; mitmproxy and squid get CONNECT, which
// is kinder to them than being redirected to. The contenders take turns in
// random order, so that whatever else the machine does falls on all of them.
//
// It prints numbers and goals and judges nothing: what cannot be measured is
// named, in the report and by the exit code.
package main
