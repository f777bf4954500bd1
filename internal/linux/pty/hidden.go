package pty

import (
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// The errors of Line.
var (
	ErrInterrupted  = errors.New("interrupted")
	ErrSeveralLines = errors.New("several lines at once")
)

// Line reads a line that is not shown while it is typed, at most limit bytes
// and one; it ends without when it is given up. Ctrl-C is ErrInterrupted. A
// paste of several lines is ErrSeveralLines, and none of it is left for the
// shell. It stands between BeginLine and End.
func (k *Keys) Line(limit int, giveUp func() bool) (line []byte, err error) {
	err = control(k.tty, func(fd int) error {
		done := false
		for !done && err == nil {
			line, done, err = readMore(fd, line, limit)
			if giveUp() {
				return ErrInterrupted
			}
		}
		return err
	})
	if err != nil {
		clear(line)
		return nil, err
	}
	return line, nil
}

// readMore waits a moment for something to put behind a line, and reports
// whether it is complete.
func readMore(fd int, line []byte, limit int) ([]byte, bool, error) {
	came, err := readKeys(fd)
	if err != nil {
		return line, false, err
	}
	defer clear(came)
	line, done, err := edit(line, came, limit)
	if done && more(fd) {
		return line, false, ErrSeveralLines
	}
	return line, done, err
}

// more reports whether something was typed or pasted that was not read yet.
func more(fd int) bool {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err == nil && n > 0
}

// The characters that edit a line (termios(3)).
const (
	charEnd       = 0x04
	charBackspace = 0x08
	charKill      = 0x15
	charDelete    = 0x7f
)

// edit puts what was typed behind a line, and reports whether it is complete.
func edit(line, came []byte, limit int) ([]byte, bool, error) {
	for i, c := range came {
		switch c {
		case '\r', '\n':
			if i+1 < len(came) {
				return line, false, ErrSeveralLines
			}
			return line, true, nil
		case charInterrupt:
			return line, false, ErrInterrupted
		case charEnd:
			if len(line) == 0 {
				return line, false, io.EOF
			}
			return line, true, nil
		case charBackspace, charDelete:
			_, n := utf8.DecodeLastRune(line)
			line = line[:len(line)-n]
		case charKill:
			clear(line)
			line = line[:0]
		default:
			if len(line) <= limit {
				line = append(slices.Grow(line, limit+1-len(line)), c)
			}
		}
	}
	return line, false, nil
}
