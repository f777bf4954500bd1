// Package netns is the one door to network namespaces: making them,
// and setting links, addresses, routes, sysctls and listening sockets in them.
//
// Everything here acts on the namespace of the calling thread, so all of it
// belongs inside thread.Run. The package never touches the namespace that the
// process was started in, never leaves a name under /run/netns, and knows
// nothing of what the namespaces are for. Its callers are internal/airlock and
// the labs of the tests.
package netns
