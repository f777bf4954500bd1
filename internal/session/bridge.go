package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bailey-dev/bailey/internal/wire"
)

// helloWait is how long a client may take to say what it wants.
const helloWait = 5 * time.Second

// errUsed is returned when a connection of Dial is opened a second time.
var errUsed = errors.New("connection is in use")

// Serve lets the process at the other end of conn run one command in the
// sandbox: it reads the command's header, lets adjust complete or refuse it,
// opens a stream, and passes frames both ways until either side is done. It
// closes conn. Who may connect is the caller's to check.
//
// adjust gets a command that is never the main one; its error is told to the
// client.
func Serve(ctx context.Context, conn io.ReadWriteCloser, opener Opener, adjust func(*wire.Exec) error) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	silent := time.AfterFunc(helloWait, func() { _ = conn.Close() })
	h, err := wire.ReadHeader(conn)
	silent.Stop()
	if err != nil {
		return fmt.Errorf("serve command: %w", err)
	}
	stream, err := open(opener, &h, adjust)
	if err != nil {
		_ = wire.NewWriter(conn).Send(wire.Failed, wire.FailPayload(wire.FailOther, err.Error()))
		return fmt.Errorf("serve command: %w", err)
	}
	go func() {
		_, _ = io.Copy(stream, conn) // the client's end: its command is abandoned
		_ = stream.Close()
		_ = conn.Close()
	}()
	_, err = io.Copy(conn, stream)
	if cerr := stream.Close(); err == nil {
		err = cerr
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve command: %w", err)
	}
	return nil
}

func open(opener Opener, h *wire.Header, adjust func(*wire.Exec) error) (io.ReadWriteCloser, error) {
	if h.Op != wire.OpExec {
		return nil, fmt.Errorf("operation %d is not offered here", h.Op)
	}
	h.Exec.Main = false
	if adjust != nil {
		if err := adjust(&h.Exec); err != nil {
			return nil, err
		}
	}
	stream, err := opener.Open()
	if err != nil {
		return nil, err
	}
	if err := wire.WriteHeader(stream, h); err != nil {
		_ = stream.Close() // nothing was asked yet
		return nil, err
	}
	return stream, nil
}

// Dial makes an Opener of a connection whose other end is in Serve. It opens
// one stream, which is conn itself.
func Dial(conn io.ReadWriteCloser) Opener {
	once := make(chan io.ReadWriteCloser, 1)
	once <- conn
	return dialled{once: once}
}

type dialled struct {
	once chan io.ReadWriteCloser
}

// Open returns the connection, the first time.
func (d dialled) Open() (io.ReadWriteCloser, error) {
	select {
	case conn := <-d.once:
		return conn, nil
	default:
		return nil, errUsed
	}
}
