// Package control is how one bailey command finds and speaks to another that
// holds a running sandbox: a Unix socket per sandbox in the caller's runtime
// folder, reached only by the same user. There is no daemon and no state file;
// a sandbox whose socket nobody holds is not there.
package control
