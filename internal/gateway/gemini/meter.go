package gemini

import (
	"encoding/json"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/tally"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// meter reads an answer. Every chunk states the usage up to it; the last one is
// the call's.
type meter struct {
	tally.Tally

	got    pricing.Usage
	known  bool
	served string
	seen   int64
	final  bool // the usage is of the whole call
	stale  bool // text came after the usage
	ended  bool
	failed bool
}

// Meter returns what reads the answer to a call.
func (d *Dialect) Meter(*gateway.Call) gateway.Meter { return &meter{} }

// answer is what is read of a chunk, or of a whole answer.
type answer struct {
	Candidates []candidate     `json:"candidates"`
	Feedback   *feedback       `json:"promptFeedback"`
	Usage      json.RawMessage `json:"usageMetadata"`
	Version    string          `json:"modelVersion"`
	Error      json.RawMessage `json:"error"`
}

type candidate struct {
	Content   json.RawMessage `json:"content"`
	Finish    string          `json:"finishReason"`
	Grounding *grounding      `json:"groundingMetadata"`
	URLs      json.RawMessage `json:"urlContextMetadata"`
}

// grounding tells of searches at the provider's.
type grounding struct {
	Queries []json.RawMessage `json:"webSearchQueries"`
}

type feedback struct {
	Blocked string `json:"blockReason"`
}

// usage is what is read of usageMetadata.
type usage struct {
	Prompt    json.RawMessage `json:"promptTokenCount"` // with what was cached
	Cached    json.RawMessage `json:"cachedContentTokenCount"`
	Answer    json.RawMessage `json:"candidatesTokenCount"`
	Thoughts  json.RawMessage `json:"thoughtsTokenCount"` // not in Answer
	ToolInput json.RawMessage `json:"toolUsePromptTokenCount"`
	Total     json.RawMessage `json:"totalTokenCount"`
}

// Event takes one chunk. All of them are the client's.
func (m *meter) Event(_ string, data []byte) bool {
	m.read(data)
	return true
}

// Whole takes an answer that is no stream.
func (m *meter) Whole(body []byte) []byte {
	m.read(body)
	m.final, m.ended = true, true
	return body
}

func (m *meter) read(data []byte) {
	var a answer
	if err := json.Unmarshal(data, &a); err != nil && len(a.Candidates) == 0 && a.Usage == nil {
		m.Note("a part of the answer could not be read")
		return
	}
	if a.Version != "" {
		m.served = a.Version
	}
	for i := range a.Candidates {
		m.candidate(&a.Candidates[i])
	}
	if a.Feedback != nil && a.Feedback.Blocked != "" {
		m.final, m.ended = true, true
	}
	if tally.Present(a.Error) {
		m.ended, m.failed = true, true
	}
	if tally.Present(a.Usage) {
		m.usage(a.Usage)
		m.stale = false
	} else if len(a.Candidates) > 0 {
		m.stale = true
	}
}

func (m *meter) candidate(c *candidate) {
	m.seen += tally.Text(c.Content)
	if c.Finish != "" {
		m.final, m.ended = true, true
	}
	if c.Grounding != nil {
		m.tool("google_search", max(1, int64(len(c.Grounding.Queries))))
	}
	if tally.Present(c.URLs) {
		m.tool("url_context", 1)
	}
}

func (m *meter) usage(raw json.RawMessage) {
	var u usage
	if err := json.Unmarshal(raw, &u); err != nil {
		m.Note("usageMetadata is not as it should be")
	}
	prompt, cached := m.Count("promptTokenCount", u.Prompt), m.Count("cachedContentTokenCount", u.Cached)
	thoughts := m.Count("thoughtsTokenCount", u.Thoughts)
	output := m.Count("candidatesTokenCount", u.Answer) + thoughts
	tool := m.Count("toolUsePromptTokenCount", u.ToolInput)
	if tool > 0 {
		m.Note("input of tools at the provider's was counted")
	}
	if cached > prompt {
		m.Note("cachedContentTokenCount is more than promptTokenCount")
		prompt = cached
	}
	if more := m.Count("totalTokenCount", u.Total) - prompt - tool - output; more > 0 && m.Has("promptTokenCount") {
		m.Note("totalTokenCount is more than its parts")
		output += more
	}
	m.got.Input, m.got.CacheRead = prompt-cached+tool, cached
	m.got.Output, m.got.Reasoning = output, thoughts
	m.known = m.Has("promptTokenCount")
}

// tool counts a tool that ran at the provider's, which none should have.
func (m *meter) tool(name string, n int64) {
	if n <= m.got.Tools[name] {
		return
	}
	if m.got.Tools == nil {
		m.got.Tools = map[string]int64{}
	}
	m.got.Tools[name] = n
	m.Note("%s ran at the provider's", name)
}

// Result is what is known so far. An answer without text has no count of
// candidates, which then is none.
func (m *meter) Result() gateway.Result {
	return gateway.Result{
		Usage:  m.got,
		Known:  m.known && m.final && !m.stale && m.Sound(),
		Ended:  m.ended,
		Failed: m.failed,
		Output: tally.Tokens(m.seen),
		Served: m.served,
		Odd:    m.Odd(),
	}
}
