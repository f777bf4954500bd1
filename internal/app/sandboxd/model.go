package sandboxd

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/wire"
)

// takeCalls listens for model calls and passes each connection on over the
// wire to the gateway. It is asked for once, before the first command.
func takeCalls() error {
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
