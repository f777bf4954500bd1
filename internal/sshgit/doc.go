// Package sshgit is git over SSH and nothing else of SSH: the server that a
// sandbox's clients find in the place of their host, the client that speaks to
// the host itself, what a push may change, and what the two processes that hold
// the one and the other say to each other.
//
// The server takes one command of git a connection and knows no shell, no
// terminal, no other subsystem, no forwarding. It asks for no proof of who the
// client is: the connection is. The client runs the command that it is told,
// with the user's key, against host keys that the user knows already.
//
// It decides nothing and reads no rule. Its callers are internal/egress (the
// server), internal/app/gitbearer (the client) and internal/app/run.
package sshgit
