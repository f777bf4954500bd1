package sandboxd

import (
	"io"
	"net"
	"strconv"
	"time"

	"github.com/bailey-dev/bailey/internal/wire"
)

// dialWait is how long a listener inside may take to accept.
const dialWait = 5 * time.Second

// dial joins a stream to what listens at a port of the loopback, whichever of
// its two addresses that is at: a server that says "localhost" listens at one
// of them only.
func dial(stream io.ReadWriteCloser, port uint16) {
	w := wire.NewWriter(stream)
	var first error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(int(port))), dialWait) //nolint:noctx // it ends by itself
		half, ok := conn.(wire.Half)
		if err == nil && ok {
			if w.Send(wire.Ready, nil) == nil {
				wire.Joined(stream, half)
			}
			_ = conn.Close() // by then it is
			return
		}
		if first == nil {
			first = err
		}
	}
	_ = w.Send(wire.Failed, wire.FailPayload(wire.FailOther, first.Error()))
}
