package wire

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// maxSignal is Linux's highest signal number.
const maxSignal = 64

// FailKind says why a command did not start.
type FailKind uint8

// The reasons, as docker's exit codes tell them apart.
const (
	FailOther         FailKind = iota // the sandbox's own trouble
	FailNotFound                      // no such command
	FailNotExecutable                 // the command exists and cannot be executed
)

// Exit is how a command ended: with a code, or by a signal.
type Exit struct {
	Code   int            // 0 to 255; 0 when Signal is set
	Signal syscall.Signal // 1 to 64, or 0
}

// ResizePayload encodes the payload of a Resize frame.
func ResizePayload(rows, cols uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, rows)
	return binary.BigEndian.AppendUint16(b, cols)
}

// Resize decodes the payload of a Resize frame.
func (f Frame) Resize() (rows, cols uint16) {
	return binary.BigEndian.Uint16(f.Payload), binary.BigEndian.Uint16(f.Payload[2:])
}

// NumberPayload encodes the payload of a Started or a Credit frame.
func NumberPayload(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// Number decodes the payload of a Started or a Credit frame.
func (f Frame) Number() uint32 { return binary.BigEndian.Uint32(f.Payload) }

// SignalNumber decodes the payload of a Signal or a Stopped frame.
func (f Frame) SignalNumber() (syscall.Signal, error) {
	n := f.Payload[0]
	if n == 0 || n > maxSignal {
		return 0, fmt.Errorf("signal %d: %w", n, ErrFrame)
	}
	return syscall.Signal(n), nil
}

// Output decodes the payload of a CloseOut frame: 1 for stdout, 2 for stderr.
func (f Frame) Output() (int, error) {
	n := int(f.Payload[0])
	if n != 1 && n != 2 {
		return 0, fmt.Errorf("output %d: %w", n, ErrFrame)
	}
	return n, nil
}

// ExitPayload encodes the payload of an Exited frame.
func ExitPayload(e Exit) []byte {
	return []byte{byte(e.Code), byte(e.Signal)} //nolint:gosec // wait status: both fit a byte
}

// Exit decodes the payload of an Exited frame.
func (f Frame) Exit() (Exit, error) {
	e := Exit{Code: int(f.Payload[0]), Signal: syscall.Signal(f.Payload[1])}
	if e.Signal > maxSignal || (e.Signal != 0 && e.Code != 0) {
		return Exit{}, fmt.Errorf("exit code %d with signal %d: %w", e.Code, int(e.Signal), ErrFrame)
	}
	return e, nil
}

// FailPayload encodes the payload of a Failed frame. A message that is too
// long is cut.
func FailPayload(k FailKind, message string) []byte {
	_, most := payloadBounds(Failed)
	b := append([]byte{byte(k)}, message...)
	return b[:min(len(b), int(most))]
}

// Failure decodes the payload of a Failed frame. The message is the sandbox's
// and has to be sanitised before it is shown.
func (f Frame) Failure() (FailKind, string, error) {
	k := FailKind(f.Payload[0])
	if k > FailNotExecutable {
		return 0, "", fmt.Errorf("failure kind %d: %w", k, ErrFrame)
	}
	return k, string(f.Payload[1:]), nil
}
