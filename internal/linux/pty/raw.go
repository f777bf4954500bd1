package pty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Modes are the settings of a terminal as they were found (termios(3)).
type Modes struct {
	termios unix.Termios
}

// ReadModes reads the settings of the terminal f.
func ReadModes(f *os.File) (*Modes, error) {
	var m Modes
	err := control(f, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			m.termios = *t
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read terminal settings: %w", err)
	}
	return &m, nil
}

// Apply gives the terminal f these settings. Input that was typed and not
// read stays.
func (m *Modes) Apply(f *os.File) error {
	err := control(f, func(fd int) error {
		t := m.termios
		return unix.IoctlSetTermios(fd, unix.TCSETS, &t)
	})
	if err != nil {
		return fmt.Errorf("set terminal settings: %w", err)
	}
	return nil
}

// Raw returns these settings with every processing of input and output
// turned off, as cfmakeraw(3) does: each byte passes as it is.
func (m *Modes) Raw() *Modes {
	t := m.termios
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN] = 1
	t.Cc[unix.VTIME] = 0
	return &Modes{termios: t}
}

// Equal reports whether two settings are the same.
func (m *Modes) Equal(other *Modes) bool { return m.termios == other.termios }
