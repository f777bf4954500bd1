// Command model measures what the model gateway costs, beside its neighbours,
// in one run: what it adds to a call and to the first event of a stream, calls
// a second, and the memory of streams that stay open.
//
// The provider is in this process: it answers at once, and always the same.
// On the host it is asked directly, through a plain reverse proxy (the least
// that could stand in the gateway's place), through the gateway's own process
// on a wire, as `bailey run` starts it, and through another gateway. From
// inside a sandbox of `bailey run --model` a client asks the gateway through
// sandboxd and the wire, the same answers from a listener beside it, and, where
// it may, the plain reverse proxy through the airlock. Each proxy is a process
// of its own. The contenders take turns in random order, so that whatever else
// the machine does falls on all of them.
//
// It prints numbers and goals and judges nothing: what cannot be measured is
// named, in the report and by the exit code.
package main
