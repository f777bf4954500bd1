package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Type is the kind of a frame. The zero value is none and is refused.
type Type uint8

// The frames of an exec stream. First those that the host sends, then those
// that the sandbox sends.
const (
	Stdin     Type = iota + 1 // bytes for the command's input; bounded by StdinWindow
	StdinEOF                  // no payload: the input has ended
	Resize                    // rows and cols, two bytes each
	Signal                    // one byte: a signal for the foreground process group
	CloseOut                  // one byte, 1 or 2: the host cannot write that output any more
	hostTypes                 // the number of host types plus one

	Started   Type = iota + 10 // four bytes: pid inside
	Stdout                     // bytes
	Stderr                     // bytes; never with a terminal
	Credit                     // four bytes: input that was written and may be sent again
	Stopped                    // one byte: the command was stopped by this signal; terminals only
	Exited                     // two bytes: exit code, and signal or 0; the last frame
	Failed                     // one byte FailKind, then a message; the last frame
	Ready                      // no payload: done as asked; the last frame, but of OpDial
	StdoutEOF                  // no payload: a connection of OpDial has no more to say
	sandboxTypes
)

// MaxPayload is the most bytes that a frame carries after its five bytes of
// type and length.
const MaxPayload = 64 << 10

// StdinWindow is how many bytes of input may be on the way to a command that
// has not read them. The host sends no more until a Credit frame comes, so
// input that nobody reads never delays a signal or a resize.
const StdinWindow = 128 << 10

// frameHeader is the size of a frame's type and length.
const frameHeader = 1 + 4

// Side says whose frames a Reader accepts.
type Side uint8

// The two ends of a wire.
const (
	FromHost Side = iota + 1
	FromSandbox
)

// ErrFrame is wrapped by the error for a frame that breaks the rules: its
// type, its length or its payload. The stream is of no use afterwards.
var ErrFrame = errors.New("bad frame on the wire")

// Frame is one message of a stream.
type Frame struct {
	Type    Type
	Payload []byte // valid until the next Next
}

// Reader reads frames that one side sends, and refuses all others. It holds
// at most one frame. It is for one goroutine.
type Reader struct {
	r    *bufio.Reader
	from Side
	buf  []byte
}

// NewReader makes a Reader for frames of the given side.
func NewReader(r io.Reader, from Side) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 4096), from: from, buf: nil}
}

// Next returns the next frame. It returns io.EOF when the stream ended
// between two frames, and an error that wraps ErrFrame for a bad one.
func (r *Reader) Next() (Frame, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return Frame{}, io.EOF
		}
		return Frame{}, fmt.Errorf("read frame: %w", err)
	}
	t, size := Type(head[0]), binary.BigEndian.Uint32(head[1:])
	if err := checkFrame(r.from, t, size); err != nil {
		return Frame{}, err
	}
	if int(size) > cap(r.buf) {
		r.buf = make([]byte, size)
	}
	p := r.buf[:size]
	if _, err := io.ReadFull(r.r, p); err != nil {
		return Frame{}, fmt.Errorf("read frame: %w", err)
	}
	return Frame{Type: t, Payload: p}, nil
}

// checkFrame holds the table of who sends which type with how many bytes.
func checkFrame(from Side, t Type, size uint32) error {
	ours := t >= Stdin && t < hostTypes
	theirs := t >= Started && t < sandboxTypes
	if (from == FromHost && !ours) || (from == FromSandbox && !theirs) || (!ours && !theirs) {
		return fmt.Errorf("type %d: %w", t, ErrFrame)
	}
	least, most := payloadBounds(t)
	if size < least || size > most {
		return fmt.Errorf("type %d with %d bytes: %w", t, size, ErrFrame)
	}
	return nil
}

func payloadBounds(t Type) (least, most uint32) {
	switch t {
	case Stdin, Stdout, Stderr:
		return 1, MaxPayload
	case Resize, Started, Credit:
		return 4, 4
	case Exited:
		return 2, 2
	case Signal, CloseOut, Stopped:
		return 1, 1
	case Failed:
		return 1, 4096
	case StdinEOF, StdoutEOF, Ready, hostTypes, sandboxTypes:
		return 0, 0
	}
	return 0, 0
}

// Writer sends frames, each as one write. It may be used by several
// goroutines.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewWriter makes a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Send sends one frame. It panics when the payload exceeds MaxPayload, which
// only a mistake of ours can bring about.
func (w *Writer) Send(t Type, payload []byte) error {
	if len(payload) > MaxPayload {
		panic("wire: payload too large")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := append(w.buf[:0], byte(t))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // bounded above
	b = append(b, payload...)
	w.buf = b
	if _, err := w.w.Write(b); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}
