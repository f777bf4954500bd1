package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lastBatches is the first version of the protocol that knows no batches any
// more: the SDK ends the connection of a client that sends one all the same.
const lastBatches = "2025-06-18"

// sieve is what a client writes, a message a line. What is no message is answered
// with an error and not handed on: the SDK would end the connection for it. The
// end is told when the client's questions are answered.
type sieve struct {
	io.ReadCloser
	ctx   context.Context //nolint:containedctx // of the client
	from  *bufio.Reader   // over the ReadCloser
	talks *dialogue
	to    *answering

	singles atomic.Bool // the client speaks a version without batches
	rest    []byte      // of a message that is handed on
	err     error       // after it
}

// Read hands on messages.
func (s *sieve) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if errors.Is(s.err, io.EOF) {
			s.talks.settle(s.ctx, lastAnswers)
		}
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next takes the next line, and has it handed on if it is a message.
func (s *sieve) next() {
	line, whole := s.line()
	text := bytes.TrimSpace(line)
	switch {
	case !whole:
		s.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Errorf("it has more than %d bytes", requestLimit))
		return
	case len(text) == 0:
		return
	case !json.Valid(text):
		s.refuse(nil, jsonrpc.CodeParseError, errors.New("it is no JSON; a message is one JSON object on one line"))
		return
	}
	if err := s.check(text); err != nil {
		s.refuse(text, jsonrpc.CodeInvalidRequest, err)
		return
	}
	if kind(text) > 0 {
		s.talks.add(1)
	}
	s.rest = append(text, '\n')
}

// line reads a line, of which no more is kept than a message may have: whole is
// false for a longer one.
func (s *sieve) line() (line []byte, whole bool) {
	whole = true
	for {
		piece, err := s.from.ReadSlice('\n')
		if whole = whole && len(line)+len(piece) < requestLimit; whole {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			s.err = err
			return line, whole
		}
	}
}

// check reports why a JSON text is no message, or batch of messages.
func (s *sieve) check(text []byte) error {
	if text[0] != '[' {
		_, err := jsonrpc.DecodeMessage(text)
		return err
	}
	if s.singles.Load() {
		return errors.New("it is a batch, which this version of the protocol does not have; send one message a line")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil || len(list) == 0 {
		return errors.New("it is an empty batch")
	}
	ids := map[string]bool{}
	for _, one := range list {
		m, err := jsonrpc.DecodeMessage(one)
		if err != nil {
			return err
		}
		if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() { // notifications have no id
			id := fmt.Sprintf("%T %v", r.ID.Raw(), r.ID.Raw())
			if ids[id] {
				return errors.New("two messages of the batch have one id")
			}
			ids[id] = true
		}
	}
	return nil
}

// agreed notes which version of the protocol the answer to a client's first
// request names, before the client can act by it.
func (s *sieve) agreed(answer []byte) {
	var m struct {
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	if !s.singles.Load() && json.Unmarshal(answer, &m) == nil && m.Result.Version >= lastBatches {
		s.singles.Store(true)
	}
}

// refuse answers what is no message (JSON-RPC 2.0, 5.1), with its id where it
// has one that can be told.
func (s *sieve) refuse(text []byte, code int, why error) {
	var asked struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(text, &asked) // a batch has none
	if id := bytes.TrimSpace(asked.ID); len(id) == 0 || id[0] != '"' && (id[0] < '0' || id[0] > '9') {
		asked.ID = json.RawMessage("null")
	}
	type fault struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	reply, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   fault           `json:"error"`
	}{"2.0", asked.ID, fault{code, "what was sent is no message: " + why.Error()}})
	if kind(reply) < 0 {
		s.talks.add(1) // it counts as the answer to one
	}
	if err == nil {
		_, _ = s.to.Write(append(reply, '\n')) // a client that does not read is not told
	}
}
