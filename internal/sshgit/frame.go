package sshgit

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Kinds of frames: what comes back from the host.
const (
	FrameOut     = 'o' // of standard output
	FrameErr     = 'e' // of standard error
	FrameExit    = 'x' // the command's exit code, one byte; the last
	FrameFailed  = 'f' // why there was no command, or why it was ended: a sentence; the last
	FrameRefused = 'r' // likewise, where it was refused what it asked for
)

// maxFrame bounds what one frame holds, in bytes.
const maxFrame = 32 << 10

// Frames writes frames. It may be used by several at once.
type Frames struct {
	mu sync.Mutex
	w  io.Writer
}

// NewFrames writes to w.
func NewFrames(w io.Writer) *Frames { return &Frames{w: w} }

// Write sends bytes as frames of a kind.
func (f *Frames) Write(kind byte, b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		part := b[:min(len(b), maxFrame)]
		head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(part)))
		if _, err := f.w.Write(append(head, part...)); err != nil {
			return err
		}
		if b = b[len(part):]; len(b) == 0 {
			return nil
		}
	}
}

// Of returns what writes frames of one kind.
func (f *Frames) Of(kind byte) io.Writer { return framing{f, kind} }

type framing struct {
	to   *Frames
	kind byte
}

// Write sends bytes.
func (f framing) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := f.to.Write(f.kind, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ReadFrame reads one frame into a buffer, which is returned if it was large
// enough.
func ReadFrame(r io.Reader, buf []byte) (kind byte, b []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes is too long", n)
	}
	if cap(buf) < maxFrame {
		buf = make([]byte, maxFrame)
	}
	b = buf[:n]
	_, err = io.ReadFull(r, b)
	return head[0], b, err
}
