// Package inherit is what a role does with the descriptors that it is started
// with: sees that all are there, has the runtime's poller wait for them, and
// reads its settings from one. It opens nothing by name.
package inherit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Check returns an error that names the first descriptor from first to last
// that is not there: whatever is opened next would be taken for it.
func Check(first, last int) error {
	for fd := first; fd <= last; fd++ {
		if err := syscall.Fstat(fd, &syscall.Stat_t{}); err != nil {
			return fmt.Errorf("descriptor %d is not there (%w); bailey starts it", fd, err)
		}
	}
	return nil
}

// Polled is a descriptor that the runtime's poller waits for, so that no thread
// has to. What cannot be polled is read as it is.
func Polled(fd int, name string) *os.File {
	_ = syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// Document reads one JSON document of at most limit bytes and nothing behind
// it, whose fields are all known.
func Document(r io.Reader, limit int64, to any) error {
	dec := json.NewDecoder(io.LimitReader(r, limit))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read settings: something follows the document")
	}
	return nil
}
