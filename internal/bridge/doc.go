// Package bridge carries the settings that a person has made on the host for
// their agent into its sandbox: which model, which provider, how hard it thinks.
// It does so by a list of keys for each agent, and what is not on it stays
// outside: hooks, commands, MCP servers, environments, headers. A key of a
// provider never enters: what was one is a reference to a variable, which the
// run has to pass. No file of credentials is opened.
//
// The files are the caller's own, and are read without waiting; one that lies
// in the workspace, by a link, is the sandbox's to write and is not read.
package bridge
