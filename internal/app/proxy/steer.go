package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bailey-dev/bailey/internal/egress"
	"github.com/bailey-dev/bailey/internal/gate"
)

// steering does what the starter says while the proxy serves.
type steering struct {
	way   *egress.Proxy
	lends *lender
	out   io.Writer
	last  uint64 // generation
}

// follow reads messages until their end. It is not the end of the proxy: that
// stays as it is then, and the peer's end is what counts.
func (s *steering) follow(ctx context.Context, in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, gate.MaxMessage)
	for lines.Scan() {
		s.reply(s.take(ctx, lines.Bytes()))
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		s.reply(gate.Reply{Generation: s.last, Error: fmt.Sprintf("a message is longer than %d bytes; nothing that follows is read", gate.MaxMessage)})
	}
}

// take does one message, or says why not.
func (s *steering) take(ctx context.Context, line []byte) gate.Reply {
	m, err := readMessage(line)
	if err == nil && m.Generation <= s.last {
		err = fmt.Errorf("generation %d is not after %d", m.Generation, s.last)
	}
	if err != nil {
		return gate.Reply{Generation: m.Generation, Error: err.Error()}
	}
	s.last = m.Generation
	out := gate.Reply{Generation: m.Generation}
	switch {
	case m.Policy != nil:
		out.Cut = s.way.Adopt(ctx, *m.Policy)
	case m.Secrets != nil && s.lends == nil:
		out.Error = "the sandbox began without secrets"
	case m.Secrets != nil:
		changed, err := s.lends.adopt(*m.Secrets)
		if err != nil {
			out.Error = err.Error()
			break
		}
		out.Cut = s.way.Recall(changed)
	case !s.way.Answer(m.Answer.Host, m.Answer.Port, m.Answer.Allow):
		out.Error = "nothing waits for that answer any more"
	}
	return out
}

// readMessage reads a line as strictly as the settings.
func readMessage(line []byte) (gate.Message, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var m gate.Message
	if err := dec.Decode(&m); err != nil {
		return gate.Message{}, fmt.Errorf("read message: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("read message: something follows it")
	}
	if said := count(m.Policy != nil, m.Answer != nil, m.Secrets != nil); said != 1 {
		return m, fmt.Errorf("read message: it says %d things and not one", said)
	}
	if m.Policy == nil {
		return m, nil
	}
	if err := m.Policy.Validate(); err != nil {
		return m, fmt.Errorf("read message: %w", err)
	}
	return m, nil
}

func count(all ...bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

func (s *steering) reply(r gate.Reply) {
	b, err := json.Marshal(r)
	if err == nil {
		_, err = s.out.Write(append(b, '\n'))
	}
	_ = err // the starter is gone: so are we, in a moment
}
