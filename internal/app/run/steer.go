package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gate"
)

// steer is the way to tell a running proxy something, one thing at a time.
type steer struct {
	mu         sync.Mutex
	conn       net.Conn
	replies    *bufio.Reader
	generation uint64
	broken     error // once it failed nobody knows what a reply belongs to
	patience   time.Duration
	lost       chan struct{} // closed when it is broken: the rules of the proxy are nobody's any more
}

// newSteer returns our end and the proxy's.
func newSteer() (*steer, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open control socket: %w", err), theirs.Close())
	}
	return &steer{
		conn: conn, replies: bufio.NewReaderSize(conn, 64<<10), patience: steerPatience, lost: make(chan struct{}),
	}, theirs, nil
}

// steerPatience is how long a proxy may take to follow: on a machine that is
// busy, or was asleep, as long as that takes.
const steerPatience = 10 * time.Second

// tell hands a message over and waits until it holds. An error that the proxy
// answered with is a *bailey.Error of the kind Invalid: nothing changed.
func (s *steer) tell(m gate.Message) (gate.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return gate.Reply{}, s.broken
	}
	s.generation++
	m.Generation = s.generation
	r, err := s.exchange(m)
	if err != nil {
		s.broken = bailey.WrapError(bailey.Unavailable, "tell the proxy", err, "the sandbox is ended: what it may reach cannot be changed any more")
		close(s.lost)
		return r, s.broken
	}
	if r.Error != "" {
		return r, bailey.NewError(bailey.Invalid, "the proxy refused it: "+r.Error, "")
	}
	return r, nil
}

func (s *steer) exchange(m gate.Message) (gate.Reply, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return gate.Reply{}, err
	}
	if len(b) >= gate.MaxMessage { // the proxy would stop reading
		return gate.Reply{Generation: m.Generation, Error: fmt.Sprintf("the rules are longer than %d bytes", gate.MaxMessage)}, nil
	}
	if err := s.conn.SetDeadline(time.Now().Add(s.patience)); err != nil {
		return gate.Reply{}, err
	}
	if _, err := s.conn.Write(append(b, '\n')); err != nil {
		return gate.Reply{}, err
	}
	line, err := s.replies.ReadSlice('\n')
	if err != nil {
		return gate.Reply{}, err
	}
	var r gate.Reply
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Generation != m.Generation {
		return r, fmt.Errorf("an answer to message %d came for %d", r.Generation, m.Generation)
	}
	return r, nil
}

func (s *steer) close() { _ = s.conn.Close() }
