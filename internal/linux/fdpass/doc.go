// Package fdpass hands the three listening sockets of an airlock from the
// process that made them to the proxy that serves them, over a Unix stream
// socket (SCM_RIGHTS, unix(7)).
//
// It takes exactly the three in exactly one message and refuses anything
// else, so that a confused peer cannot leave a stray descriptor behind. It
// never creates a socket. Its callers are the airlock's helper (Send) and
// internal/app/proxy (Receive).
package fdpass
