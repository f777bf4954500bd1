package transcript

import (
	"encoding/json"
	"strings"
)

// codex reads `codex exec --json`. Written by what version 0.171.0 prints. It
// does not say when the model is asked, so turns are counted by what it does:
// calls that run at the same time are of one turn.
type codex struct {
	begun map[string]struct{} // items that have been told of
}

type codexLine struct {
	Type    string    `json:"type"`
	Item    codexItem `json:"item"`
	Message string    `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}

type codexItem struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Message string          `json:"message"`
	Command string          `json:"command"`
	Query   string          `json:"query"`
	Server  string          `json:"server"`
	Tool    string          `json:"tool"`
	Prompt  string          `json:"prompt"`
	Args    json.RawMessage `json:"arguments"`
	Items   []todo          `json:"items"`
	Changes []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	} `json:"changes"`
}

func (c *codex) line(r *Reader, line []byte) bool {
	var l codexLine
	if !isObject(line) || !decode(line, &l) {
		return false
	}
	switch l.Type {
	case "item.started", "item.updated", "item.completed":
		return c.item(r, l.Item, l.Type == "item.completed")
	case "turn.completed":
		r.end(Success)
	case "turn.failed":
		r.fault(l.Error.Message)
		r.end(Failed)
	case "error":
		r.fault(l.Message)
	case "thread.started", "turn.started":
	default:
		return false
	}
	return true
}

func (c *codex) item(r *Reader, i codexItem, completed bool) bool {
	switch i.Type {
	case "agent_message":
		if completed {
			r.model()
			r.text(i.Text)
		}
	case "reasoning":
		r.model()
	case "todo_list":
		r.model()
		if list := items(i.Items); len(list) > 0 {
			r.plan(list)
		}
		if completed {
			r.answered(i.ID)
		}
	case "error":
		r.fault(i.Message)
	case "command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call":
		c.call(r, i, completed)
	default:
		return false
	}
	return true
}

func (c *codex) call(r *Reader, i codexItem, completed bool) {
	if c.begun == nil {
		c.begun = map[string]struct{}{}
	}
	if _, told := c.begun[i.ID]; !told {
		r.model()
		tool, line := i.about()
		r.begin(i.ID, tool, line)
		if len(c.begun) < mostOpen {
			c.begun[i.ID] = struct{}{}
		}
	}
	if completed {
		delete(c.begun, i.ID)
		r.answered(i.ID)
	}
}

// about names an item's tool and what it is about.
func (i codexItem) about() (tool, line string) {
	switch i.Type {
	case "command_execution":
		return "shell", shellLine(i.Command)
	case "file_change":
		var paths []string
		for _, c := range i.Changes[:min(len(i.Changes), MaxPlan)] {
			paths = append(paths, c.Path)
		}
		return "edit", oneLine(strings.Join(paths, " "))
	case "web_search":
		return i.Type, oneLine(i.Query)
	case "mcp_tool_call":
		return i.Server + "." + i.Tool, about(i.Args)
	}
	return i.Tool, oneLine(i.Prompt)
}

func (*codex) settle(*Reader) {}
