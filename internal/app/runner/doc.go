// Package runner is the role that makes one sandbox for the agent of a task, or
// for a check, and ends with it. It is told what to run by settings on a
// descriptor (package taskrun), decides everything else itself, and leaves a
// record of the end. It parses nothing that an agent prints: the agent's output
// goes from the sandbox to the descriptor that it was given, and no further
// than a bound.
//
// A SIGTERM, a SIGINT or a SIGHUP ends the sandbox in order. When the runner is
// killed, the kernel ends what it has started (package launch).
package runner
