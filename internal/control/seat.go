package control

import (
	"context"
	"errors"
	"net"

	"github.com/bailey-dev/bailey"
)

// Operations of those who want to see what a sandbox does.
const (
	Attach Op = "attach" // after an answer with the Info the connection carries a session of the main command
	Stats  Op = "stats"  // answered with one Sample
)

// Seats is the part of a Handler for those who want to see what the sandbox
// does.
type Seats interface {
	// Seat reports whether one may attach, or why not.
	Seat() error
	Attach(conn net.Conn) // returns when the connection is done with
	Sample() Sample
}

func (s *Server) seat(c net.Conn, h Handler) {
	if err := h.Seat(); err != nil {
		_ = reply(c, refusal(err))
		return
	}
	if reply(c, about(h)) == nil {
		h.Attach(c)
	}
}

// refusal is an answer that says why not.
func refusal(err error) answer {
	a := answer{Error: err.Error()}
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		a.Hint = e.Hint
	}
	return a
}

// AskAttach connects to the main command of the named sandbox.
func AskAttach(ctx context.Context, dir, name string) (Info, net.Conn, error) {
	info, c, err := Ask(ctx, dir, name, Attach)
	if refused, ok := errors.AsType[*bailey.Error](err); ok {
		err = refused
	}
	return info, c, err
}

// AskStats asks the named sandbox what it uses.
func AskStats(ctx context.Context, dir, name string) (Sample, error) {
	a, _, err := put(ctx, dir, name, request{Op: Stats})
	if err == nil && a.Sample == nil {
		err = errors.New("no answer")
	}
	if err != nil {
		return Sample{}, err
	}
	return *a.Sample, nil
}
