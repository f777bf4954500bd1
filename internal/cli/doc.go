// Package cli is bailey's command line: one file a command, each a struct
// whose fields are its flags. It parses, checks and hands on; what a command
// does lives in the packages below.
package cli
