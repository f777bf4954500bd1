// Package plants lists the files that an agent can leave in a work tree to have
// something run later on the machine of whoever uses it: hooks, editor tasks,
// settings of agents, package scripts, CI files and the like.
//
// It is one list for everyone who points them out: internal/carry in what tasks
// and phases bring back, internal/workspace at the end of a run.
package plants
