package inject

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

var errNoHalf = errors.New("one direction of the connection cannot be closed alone")

// webSocket is the connection to a host after an upgrade (RFC 6455): what is
// read from it has no values, and what is written to it no placeholders.
type webSocket struct {
	io.ReadWriteCloser
	in, out frames
	chunk   []byte
	ready   []byte
}

func newWebSocket(c io.ReadWriteCloser, l *Loan) *webSocket {
	return &webSocket{
		ReadWriteCloser: c,
		in:              frames{message: &scrub{l.tape()}, control: &scrub{l.tape()}},
		out:             frames{masked: true, message: &watch{tape: tape{m: l.set.asked}, loan: l}, control: &watch{tape: tape{m: l.set.asked}, loan: l}},
		chunk:           make([]byte, readSize),
	}
}

// Read reads what the host says.
func (w *webSocket) Read(p []byte) (int, error) {
	for len(w.ready) == 0 {
		n, err := w.ReadWriteCloser.Read(w.chunk)
		ready, bad := w.in.pass(w.chunk[:n])
		if bad != nil {
			return 0, bad
		}
		if w.ready = ready; len(ready) == 0 && err != nil {
			return 0, err
		}
	}
	n := copy(p, w.ready)
	w.ready = w.ready[n:]
	return n, nil
}

// Write writes what the sandbox says.
func (w *webSocket) Write(p []byte) (int, error) {
	ready, err := w.out.pass(p)
	if err != nil {
		return 0, err
	}
	if len(ready) > 0 {
		if _, err := w.ReadWriteCloser.Write(ready); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// CloseWrite closes one direction, if the connection can do that.
func (w *webSocket) CloseWrite() error {
	if c, ok := w.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errNoHalf
}

const (
	opContinuation = 0
	opBinary       = 2
	opClose        = 8
	opPong         = 10

	fin        = 0x80
	reserved   = 0x70
	maskBit    = 0x80
	maxControl = 125
	maxQueue   = 64 << 10 // bytes that may wait for a message to go on: control frames, if there are many
)

// frames is one direction of a WebSocket. What passes has the same frames as
// what came.
type frames struct {
	masked  bool   // it is the client's
	message filter // of a message's payload
	control filter // of a control frame's

	head   []byte // of the frame, as far as it is there
	inside bool   // the payload is being read
	op     byte
	final  bool
	key    [4]byte
	at     int    // byte of the payload, for the key
	left   uint64 // bytes of payload to come

	open bool // a message is, of which more frames come

	queue   []byte // as it goes out
	pending []run  // of the queue: payload that the filter holds back
	plain   []byte
	ctl     []byte // payload of a control frame
	out     []byte
}

// run is a part of the queue.
type run struct{ start, end int }

func malformed(what string) error {
	return fmt.Errorf("the frames of the WebSocket are not as RFC 6455 has them: %s", what)
}

// pass adds to the stream and returns what may be passed on, valid until the
// next call.
func (f *frames) pass(b []byte) ([]byte, error) {
	for len(b) > 0 {
		n, err := f.step(b)
		if err != nil {
			return nil, err
		}
		b = b[n:]
	}
	n := len(f.queue)
	if len(f.pending) > 0 {
		n = f.pending[0].start
	}
	f.out = append(f.out[:0], f.queue[:n]...)
	f.queue = append(f.queue[:0], f.queue[n:]...)
	for i := range f.pending {
		f.pending[i].start -= n
		f.pending[i].end -= n
	}
	if len(f.queue) > maxQueue {
		return nil, malformed("too many control frames within a message")
	}
	return f.out, nil
}

// step reads the beginning of b and returns how much that was.
func (f *frames) step(b []byte) (int, error) {
	if !f.inside {
		return f.readHead(b)
	}
	n := int(min(uint64(len(b)), f.left)) //nolint:gosec // no more than b
	err := f.payload(b[:n])
	return n, err
}

// readHead reads of a frame's head (RFC 6455 §5.2).
func (f *frames) readHead(b []byte) (int, error) {
	n := min(len(b), f.headSize()-len(f.head))
	f.head = append(f.head, b[:n]...)
	if len(f.head) < f.headSize() {
		return n, nil
	}
	if err := f.begin(); err != nil {
		return n, err
	}
	f.queue = append(f.queue, f.head...)
	f.head = f.head[:0]
	f.inside = true
	if f.left == 0 {
		return n, f.payload(nil)
	}
	return n, nil
}

// headSize is how long the head is, as far as that is known.
func (f *frames) headSize() int {
	const short, in16, in64, key = 2, 126, 127, 4
	n := short
	if len(f.head) < short {
		return n
	}
	switch f.head[1] &^ maskBit {
	case in16:
		n += 2
	case in64:
		n += 8
	}
	if f.head[1]&maskBit != 0 {
		n += key
	}
	return n
}

// begin judges a head.
func (f *frames) begin() error {
	h := f.head
	f.op, f.final, f.at = h[0]&15, h[0]&fin != 0, 0
	masked, length := h[1]&maskBit != 0, uint64(h[1]&^maskBit)
	least := uint64(0)
	switch length {
	case 126:
		length, least = uint64(binary.BigEndian.Uint16(h[2:])), 126
	case 127:
		length, least = binary.BigEndian.Uint64(h[2:]), 1<<16
	}
	f.left = length
	if masked {
		copy(f.key[:], h[len(h)-len(f.key):])
	}
	switch {
	case h[0]&reserved != 0:
		return malformed("a reserved bit is set")
	case masked != f.masked:
		return malformed("a frame's mask")
	case length < least || length>>63 != 0:
		return malformed("a frame's length")
	case f.op > opPong || f.op > opBinary && f.op < opClose:
		return malformed("an unknown opcode")
	case f.op >= opClose && (!f.final || length > maxControl):
		return malformed("a control frame in parts, or too long")
	case f.op < opClose && (f.op == opContinuation) != f.open:
		return malformed("a message within another, or none")
	}
	if f.op < opClose {
		f.open = !f.final
	}
	return nil
}

// payload takes in bytes of a frame.
func (f *frames) payload(b []byte) error {
	f.left -= uint64(len(b))
	end := f.left == 0
	f.inside = !end
	plain := f.unmask(b)
	if f.op >= opClose {
		return f.controlPayload(plain, end)
	}
	if len(b) > 0 {
		f.pending = append(f.pending, run{len(f.queue), len(f.queue) + len(b)})
		f.queue = append(f.queue, b...)
	}
	ready, err := f.message.pass(plain, f.final && end)
	if err != nil {
		return err
	}
	f.release(ready)
	return nil
}

// unmask undoes the client's mask.
func (f *frames) unmask(b []byte) []byte {
	if !f.masked {
		return b
	}
	f.plain = f.plain[:0]
	for _, c := range b {
		f.plain = append(f.plain, c^f.key[f.at&3])
		f.at++
	}
	return f.plain
}

// controlPayload takes in bytes of a control frame, which passes as a whole.
func (f *frames) controlPayload(b []byte, end bool) error {
	f.ctl = append(f.ctl, b...)
	if !end {
		return nil
	}
	ready, err := f.control.pass(f.ctl, true)
	if err != nil {
		return err
	}
	at := len(f.queue)
	f.queue = append(f.queue, ready...)
	if f.masked {
		for i := range ready {
			f.queue[at+i] ^= f.key[i&3]
		}
	}
	f.ctl = f.ctl[:0]
	return nil
}

// release has payload go out that the filter passed. The client's is as it
// came: the filter only looks at it.
func (f *frames) release(ready []byte) {
	for len(ready) > 0 && len(f.pending) > 0 {
		r := &f.pending[0]
		n := min(len(ready), r.end-r.start)
		if !f.masked {
			copy(f.queue[r.start:], ready[:n])
		}
		ready = ready[n:]
		if r.start += n; r.start == r.end {
			f.pending = f.pending[1:]
		}
	}
}
