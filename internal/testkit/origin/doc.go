// Package origin makes the small servers that real clients are tried against:
// a git repository over HTTP, registries of npm, Python and Go that each hold
// one package, PostgreSQL, and one page that has a browser make every kind of
// connection it can.
//
// It is for tests only. The handlers work on any HTTP server; they look at
// nothing but the path and the Host header, so that one of them serves a host
// that is allowed and another that is not.
package origin
