// Package control is the role that people, planners and agents' output meet: it
// serves tasks (internal/delegate) over the service's Unix socket
// (internal/taskapi) and MCP over HTTP (internal/mcp), and has the launcher do
// what takes a privilege.
//
// It is started with its settings, a socket to the launcher, its listening
// sockets and its own folder, each as a descriptor, and takes everything else
// away before it reads a byte of anybody: it cannot be looked into, gains no
// privilege, connects to nothing, and of the file system has its own folder
// alone. It has no provider's key and no repository, and starts no process.
package control
