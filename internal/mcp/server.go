package mcp

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
)

// Config is what a Server needs.
type Config struct {
	Service task.Service
	Version string           // of bailey
	Now     func() time.Time // the clock
	Beat    time.Duration    // how long a waiting call may be silent; default 10 s
}

const (
	defaultBeat = 10 * time.Second
	// requestLimit bounds a message, in bytes: a task of the longest kind, all
	// of it escaped.
	requestLimit = 4 << 20
	// stopWithin bounds what has to be done for a caller that is gone.
	stopWithin = 30 * time.Second
)

// Server has the tools of delegation. It may have any number of clients.
type Server struct {
	cfg Config
	sdk *sdk.Server
}

// New makes a Server over a task.Service.
func New(c Config) (*Server, error) {
	if c.Beat <= 0 {
		c.Beat = defaultBeat
	}
	s := &Server{cfg: c, sdk: sdk.NewServer(
		&sdk.Implementation{Name: "bailey", Title: "bailey: delegate work to sandboxed agents", Version: c.Version},
		&sdk.ServerOptions{
			Instructions: instructions,
			// Nothing is logged to clients, and no list of tools changes.
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		},
	)}
	return s, s.addTools()
}

// ServeIO serves one client that writes to in and reads from out, a message a
// line, until in ends or ctx does; answers that are next to ready then are still
// given. A line that is no message is answered with an error, and what follows it
// is taken. Calls of a client that goes away without cancelling them end, and the
// tasks that they waited for go on.
func (s *Server) ServeIO(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	in, out = converse(ctx, in, out)
	err := s.sdk.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: requestLimit})
	if err != nil && ctx.Err() == nil && !ended(err) {
		return bailey.WrapError(bailey.Unavailable, "speak with the MCP client", err, "it has to write JSON-RPC messages, one a line")
	}
	return nil
}

// ended reports whether an error is what a client's end looks like.
func ended(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrClosedPipe, io.ErrUnexpectedEOF, os.ErrClosed, syscall.EPIPE}, func(end error) bool {
		return errors.Is(err, end)
	})
}

// cancelled reports whether the caller took the call back, which is another
// thing than that the caller is gone: in that case the cause is what its
// connection ended with.
func cancelled(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled)
}
