package delegate

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

const (
	defaultPoll = 100 * time.Millisecond
	chunk       = 64 << 10
	// mostRead of a stream is looked at: the launcher bounds it, and what it
	// says is not taken on trust alone.
	mostRead = 1 << 30
)

// tail follows a file that grows. It reads by its own offset: whoever else has
// the file open has another.
type tail struct {
	f    *os.File
	to   io.Writer
	at   int64
	buf  []byte
	gone error
}

func newTail(f *os.File, to io.Writer) *tail {
	if f == nil {
		return nil
	}
	return &tail{f: f, to: to, buf: make([]byte, chunk)}
}

// read takes what has come since, and reports whether there was something.
func (t *tail) read() bool {
	if t == nil {
		return false
	}
	any := false
	for t.gone == nil && t.at < mostRead {
		n, err := t.f.ReadAt(t.buf, t.at)
		if n > 0 {
			any = true
			t.at += int64(n)
			_, t.gone = t.to.Write(t.buf[:n])
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.gone = err
			}
			return any
		}
	}
	return any
}

// follow reads streams until the sandbox has ended, and returns how it did.
// each is called after something was read; what it returns true for stops the
// sandbox, as does the closing of stop.
func (s *Service) follow(ctx context.Context, id task.ID, tails []*tail, stop <-chan struct{}, each func() (enough bool)) (launcher.Status, error) {
	type outcome struct {
		status launcher.Status
		err    error
	}
	ended := make(chan outcome, 1)
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		st, err := s.cfg.Engine.Status(wait, id, true)
		ended <- outcome{st, err}
	}()
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	stopping := false
	readAll := func() {
		any := false
		for _, t := range tails {
			any = t.read() || any
		}
		if any && each() && !stopping {
			stopping = true
			go s.stop(wait, id)
		}
	}
	for {
		select {
		case o := <-ended:
			readAll()
			return o.status, o.err
		case <-tick.C:
			readAll()
		case <-stop:
			stop = nil
			if !stopping {
				stopping = true
				go s.stop(wait, id)
			}
		}
	}
}

// stop asks for the end of a sandbox. That it cannot be stopped is for the
// log: its deadline ends it.
func (s *Service) stop(ctx context.Context, id task.ID) {
	if err := s.cfg.Engine.Stop(ctx, id); err != nil && ctx.Err() == nil {
		s.cfg.Log("stop " + string(id) + ": " + err.Error())
	}
}
