// Package run is the role that a person starts: it makes one sandbox for one
// command, stands between the two terminals, answers `bailey exec`, `ps` and
// `stop` while it lasts, and leaves nothing behind. It starts the other roles
// (watchdog, proxy, helper) as its own children and ends with them.
package run
