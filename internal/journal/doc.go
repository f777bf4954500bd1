// Package journal keeps what runs in the background write: the output of the
// command, and the sentences of bailey beside it, in a ring of files below the
// user's state folder, so that `bailey logs` can print it, also for a while
// after the run has ended.
//
// What is kept is bounded in bytes, whatever the command writes, and how much
// was thrown away for that is known to the byte. It is kept as it was written:
// hostile bytes. Text makes them harmless for whoever prints them.
//
// The holder of a sandbox writes, any bailey of the same user reads.
package journal
