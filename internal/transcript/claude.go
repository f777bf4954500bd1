package transcript

import (
	"encoding/json"
	"strconv"
)

// claude reads `claude -p --output-format stream-json --verbose`. Written by
// what version 2.1.332 prints.
type claude struct {
	message string // id of the answer whose blocks come, one a line
	tasks   []Item // of the tools that keep a plan item by item
}

type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Parent  string `json:"parent_tool_use_id"` // of an agent that the agent started
	Message struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"` // a text or blocks
	} `json:"message"`
	// of the last line
	Result  string   `json:"result"`
	IsError bool     `json:"is_error"`
	Turns   int      `json:"num_turns"`
	Errors  []string `json:"errors"`
}

type claudeBlock struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Of    string          `json:"tool_use_id"`
}

func (c *claude) line(r *Reader, line []byte) bool {
	var l claudeLine
	if !isObject(line) || !decode(line, &l) {
		return false
	}
	switch l.Type {
	case "assistant":
		c.assistant(r, l)
	case "user":
		for _, b := range claudeBlocks(l.Message.Content) {
			if b.Type == "tool_result" {
				r.answered(b.Of)
			}
		}
	case "result":
		c.result(r, l)
	case "system", "stream_event", "rate_limit_event", "tool_progress", "tool_use_summary", "auth_status":
	default:
		return false
	}
	return true
}

func claudeBlocks(content json.RawMessage) []claudeBlock {
	var blocks []claudeBlock
	if len(content) > 0 && content[0] == '[' && decode(content, &blocks) {
		return blocks
	}
	return nil
}

func (c *claude) assistant(r *Reader, l claudeLine) {
	if l.Parent == "" {
		if l.Message.ID != c.message {
			r.heard = false
		}
		c.message = l.Message.ID
		r.model()
	}
	for _, b := range claudeBlocks(l.Message.Content) {
		switch {
		case b.Type == "text" && l.Parent == "":
			r.text(b.Text)
		case b.Type == "tool_use":
			if !c.planned(r, b) {
				r.begin(b.ID, b.Name, about(b.Input))
			}
		}
	}
}

// planned reads the tools that keep a plan: TodoWrite says it whole, TaskCreate
// and TaskUpdate an item.
func (c *claude) planned(r *Reader, b claudeBlock) bool {
	var in struct {
		Subject string `json:"subject"`
		ID      string `json:"taskId"`
		Status  string `json:"status"`
	}
	switch b.Name {
	case "TodoWrite":
		return r.planOf(b.Input)
	case "TaskCreate":
		if !decode(b.Input, &in) || oneLine(in.Subject) == "" || len(c.tasks) >= MaxPlan {
			return false
		}
		c.tasks = append(c.tasks, Item{oneLine(in.Subject), Pending})
	case "TaskUpdate":
		if !decode(b.Input, &in) {
			return false
		}
		n, err := strconv.Atoi(in.ID) // they are numbered as they were made
		if err != nil || n < 1 || n > len(c.tasks) {
			return false
		}
		if in.Status != "" {
			c.tasks[n-1].Step = step(in.Status)
		}
		if s := oneLine(in.Subject); s != "" {
			c.tasks[n-1].Text = s
		}
	default:
		return false
	}
	r.plan(c.tasks)
	return true
}

func (c *claude) result(r *Reader, l claudeLine) {
	// It counts the turns of its limit itself.
	const believable = 1 << 20
	if l.Turns > r.sum.Turns && l.Turns < believable {
		r.sum.Turns = l.Turns
	}
	if l.Result != "" {
		r.report(l.Result)
	}
	reason := l.Subtype
	if l.IsError {
		what := l.Result
		for _, e := range l.Errors {
			if what == "" {
				what = e
			}
		}
		if what == "" {
			what = l.Subtype
		}
		r.fault(what)
		if reason == Success { // an API that refused
			reason = Failed
		}
	}
	r.end(reason)
}

func (*claude) settle(*Reader) {}
