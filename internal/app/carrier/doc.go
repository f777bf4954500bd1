// Package carrier is the role that has a user's repository in its hands: one
// process for one operation of internal/carry, and the git that it starts.
//
// It runs as the user that the repository belongs to, whoever started it, in
// user, network, mount, process and IPC namespaces of its own, without any
// capability, and can reach the folders of its operation and nothing else, nor
// execute anything but git. It reads its request on standard input, writes the
// answer to standard output, which is a file in memory, and says what is wrong
// on standard error as one JSON document.
//
// Starter is the other side: internal/app/launcher starts the role with it.
package carrier
