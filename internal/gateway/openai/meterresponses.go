package openai

import (
	"encoding/json"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/tally"
)

// responsesMeter reads an answer of Responses. Its usage stands in the last
// event alone.
type responsesMeter struct {
	counter

	served string
	seen   int64 // bytes of text in deltas
	items  int64 // and in the items that were finished, which some servers send alone
	ended  bool
	failed bool
	final  bool // its end said what was used: what an event before it says is not all of it
}

// Meter returns what reads the answer to a call.
func (r *Responses) Meter(*gateway.Call) gateway.Meter {
	return &responsesMeter{counter: counter{input: "input_tokens", output: "output_tokens"}}
}

// responsesEvent is what is read of an event of any type.
type responsesEvent struct {
	Type     string          `json:"type"`
	Delta    json.RawMessage `json:"delta"`
	Item     json.RawMessage `json:"item"`
	Response *response       `json:"response"`
}

// response is what is read of one.
type response struct {
	Model  string          `json:"model"`
	Status string          `json:"status"`
	Usage  json.RawMessage `json:"usage"`
	Error  json.RawMessage `json:"error"`
	Output json.RawMessage `json:"output"`
}

// Event takes one event. All of them are the client's.
func (m *responsesMeter) Event(name string, data []byte) bool {
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil && e.Type == "" {
		m.Note("an event could not be read")
		return true
	}
	if e.Type == "" {
		e.Type = name
	}
	if tally.Present(e.Delta) {
		m.seen += tally.Text(e.Delta)
	}
	if e.Response != nil {
		m.response(e.Response)
	}
	switch e.Type {
	case "response.output_item.done":
		m.items += tally.Text(e.Item)
	case "response.completed", "response.incomplete", "response.failed", "error":
		m.ended = true
		m.failed = e.Type == "response.failed" || e.Type == "error"
		m.final = e.Response != nil && tally.Present(e.Response.Usage)
	}
	return true
}

func (m *responsesMeter) response(r *response) {
	if r.Model != "" {
		m.served = r.Model
	}
	m.take(r.Usage)
	for name, n := range hosted(r.Output) {
		m.tool(name, n)
	}
}

// Whole takes an answer that is no stream.
func (m *responsesMeter) Whole(body []byte) []byte {
	var r response
	if err := json.Unmarshal(body, &r); err != nil {
		m.Note("the answer could not be read")
	}
	m.response(&r)
	m.ended, m.final = true, tally.Present(r.Usage)
	m.failed = r.Status == "failed" || tally.Present(r.Error)
	m.items = tally.Text(r.Output)
	return body
}

// Result is what is known so far.
func (m *responsesMeter) Result() gateway.Result {
	return gateway.Result{
		Usage:  m.got,
		Known:  m.known && m.final && m.Sound(),
		Ended:  m.ended,
		Failed: m.failed,
		Output: tally.Tokens(max(m.seen, m.items)),
		Served: m.served,
		Odd:    m.Odd(),
	}
}

// hosted counts the items of an output that tell of a tool at the provider's,
// by the tool's name.
func hosted(output json.RawMessage) map[string]int64 {
	var items []struct {
		Type string `json:"type"`
	}
	if !tally.Present(output) || json.Unmarshal(output, &items) != nil {
		return nil
	}
	counts := map[string]int64{}
	for _, item := range items {
		switch item.Type {
		case "web_search_call":
			counts["web_search"]++
		case "file_search_call":
			counts["file_search"]++
		case "code_interpreter_call":
			counts["code_interpreter"]++
		case "image_generation_call":
			counts["image_generation"]++
		case "mcp_call":
			counts["mcp"]++
		case "program":
			counts["programmatic_tool_calling"]++
		}
	}
	return counts
}
