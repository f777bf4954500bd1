// Package clients knows how the MCP clients of this machine are told of a
// server: which file of each, in which form, and how long its tools may take.
//
// It turns the text of a configuration into the text with bailey in it, and
// does no I/O. What stands in a file stays as it is, comments included; a file
// that cannot be changed so is refused.
package clients
