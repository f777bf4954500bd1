package sandboxd

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/wire"
)

// takeCalls has the sandbox's kernel pass model calls on over the wire to the
// gateway, or does so itself where that is the host's. It is asked for once,
// before the first command.
func takeCalls() error {
	err := unix.Prctl(wire.PassCalls, wire.ModelFD, 0, 0, 0)
	if err == nil {
		return unix.Close(wire.ModelFD)
	}
	if !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("listen for calls: %w", err)
	}
	if err := unix.SetNonblock(wire.ModelFD, true); err != nil {
		return fmt.Errorf("prepare the wire for calls: %w", err)
	}
	caller, err := wire.NewCaller(os.NewFile(wire.ModelFD, "model"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", wire.ModelAddr) //nolint:noctx // it takes no time
	if err != nil {
		return err
	}
	go caller.Forward(listener)
	return nil
}
