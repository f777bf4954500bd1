// Package taskapi is task.Service over a Unix socket, as HTTP with JSON: a
// server for internal/app/control and a client for the command line and
// `bailey mcp`. Both look at who the other is by the kernel's word: the server
// answers its own user and root, the client talks to a socket that its own user
// or root listens on.
//
// What is decoded is bounded, of known fields, and one document. Errors keep
// their kind, message and hint. What goes on is told as JSON lines while it
// does.
package taskapi
