package proc

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Identity names one process for as long as the machine is up. The zero
// Identity names none.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // as in Stat
}

// Identify returns the identity of the process that has the pid now.
func Identify(pid int) (Identity, error) {
	s, err := ReadStat(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: s.Start}, nil
}

// Alive reports whether the process still runs. A zombie does not.
func (id Identity) Alive() bool {
	s, err := ReadStat(id.PID)
	return id.PID > 0 && err == nil && s.Start == id.Start && s.State != 'Z' && s.State != 'X'
}

// Signal sends sig to this process and to no other, however often its pid has
// been given away: the pidfd holds the process while its start time is
// compared. ErrGone means that there was nothing to signal.
func (id Identity) Signal(sig syscall.Signal) error {
	if id.PID <= 0 {
		return ErrGone
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return gone(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if s, err := ReadStat(id.PID); err != nil || s.Start != id.Start {
		return errors.Join(ErrGone, err)
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		if err := gone(err); errors.Is(err, ErrGone) {
			return err
		}
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}
