package openai

import (
	"bytes"
	"encoding/json"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/tally"
)

// chatMeter reads an answer of Chat Completions. Its usage stands in a chunk of
// its own after the last one, for those who ask for it, as the gateway does;
// some servers put it into the last chunk, and some (vLLM's
// continuous_usage_stats) into each.
type chatMeter struct {
	counter

	hide   bool // the client had not asked for the chunk of usage
	served string
	seen   int64
	final  bool // the usage is of the whole call
	stale  bool // text came after the usage
	done   bool // the last mark came
	ended  bool
	failed bool
}

// Meter returns what reads the answer to a call.
func (c *Chat) Meter(call *gateway.Call) gateway.Meter {
	m := &chatMeter{counter: counter{input: "prompt_tokens", output: "completion_tokens"}}
	if s, ok := call.State().(*chatState); ok {
		m.hide = s.hideUsage
	}
	return m
}

// chunk is what is read of one, or of a whole completion.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Delta   json.RawMessage `json:"delta"`
	Message json.RawMessage `json:"message"`
	Finish  *string         `json:"finish_reason"`
}

// Event takes one chunk.
func (m *chatMeter) Event(_ string, data []byte) bool {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		m.done, m.ended = true, true
		return true
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil && c.Model == "" && !tally.Present(c.Usage) {
		m.Note("a chunk could not be read")
		return true
	}
	if c.Model != "" {
		m.served = c.Model
	}
	said, finished := m.take(c.Usage), m.choices(c.Choices)
	switch {
	case said:
		m.final, m.stale = len(c.Choices) == 0 || finished, false
	case len(c.Choices) > 0 && m.known:
		m.stale = true
	}
	if tally.Present(c.Error) {
		m.ended, m.failed = true, true
	}
	return !m.hide || !said || len(c.Choices) > 0
}

// choices reads the parts of an answer, and reports whether all have ended.
func (m *chatMeter) choices(choices []choice) bool {
	finished := len(choices) > 0
	for i := range choices {
		m.seen += tally.Text(choices[i].Delta) + tally.Text(choices[i].Message)
		finished = finished && choices[i].Finish != nil
	}
	return finished
}

// Whole takes an answer that is no stream.
func (m *chatMeter) Whole(body []byte) []byte {
	var c chunk
	if err := json.Unmarshal(body, &c); err != nil {
		m.Note("the answer could not be read")
	}
	m.served = c.Model
	m.take(c.Usage)
	m.choices(c.Choices)
	m.done, m.ended, m.failed = true, true, tally.Present(c.Error)
	return body
}

// Result is what is known so far.
func (m *chatMeter) Result() gateway.Result {
	return gateway.Result{
		Usage:  m.got,
		Known:  m.known && !m.stale && (m.final || m.done) && m.Sound(),
		Ended:  m.ended,
		Failed: m.failed,
		Output: tally.Tokens(m.seen),
		Served: m.served,
		Odd:    m.Odd(),
	}
}
