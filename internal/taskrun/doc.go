// Package taskrun is what the launcher and a runner agree on: the name by which
// a runner is started, its descriptors, the settings that it reads, and the
// record that it leaves at its end.
//
// A runner makes one sandbox, for the agent of one task or for one check, and
// ends with it (internal/app/runner). The settings are a closed list: whoever
// writes them names what is to run, and never a mount, a flag or a variable of
// the sandbox.
package taskrun
