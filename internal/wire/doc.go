// Package wire is the one connection between a sandbox and the host: its
// multiplexing, its messages and their bounds.
//
// One inherited stream socket (FD inside) carries every conversation. The
// host opens a stream for each (yamux), writes one Header that says what it
// wants, and both ends then exchange frames: a byte for the type, four bytes
// for the length (big-endian, at most MaxPayload), the payload. Commands and
// environments travel in the header and so never in the arguments or the
// environment of a host process.
//
// All that comes out of the sandbox is hostile. The host's end refuses a
// stream that the sandbox opens, a ping, any length over its bound, and any
// frame type that only the host sends; each of these ends the connection or
// the stream. The package holds nothing without a bound.
//
// It never starts a process, never touches a terminal and does not know what
// the frames mean. internal/session speaks it on the host,
// internal/app/sandboxd inside.
package wire
