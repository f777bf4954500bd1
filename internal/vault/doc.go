// Package vault keeps a person's secrets at rest: one file of sealed rows in
// their data folder, the key that opens them elsewhere, and a note of how new
// the file has to be in a third place. It asks no network, prints nothing and
// decides nothing about requests; the command line and the role that starts a
// sandbox call it.
package vault
