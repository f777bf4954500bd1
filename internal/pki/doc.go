// Package pki mints the certificates with which TLS of a sandbox is opened: a
// root for one sandbox, which says itself which hosts it may speak for, and
// leaves for one host each. The private key of a root exists in the memory of
// the process that made it and of the one it is handed to (gate.Settings).
//
// The package reads and writes no file, knows no rule and decides nothing. Its
// callers are internal/app/run, which makes roots, and internal/egress, which
// makes leaves.
package pki
