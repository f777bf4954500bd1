package transcript

import (
	"encoding/json"
	"strings"
)

// pi reads `pi -p --mode json`. Written by what version 1.6.0 prints.
type pi struct {
	stop string // why the model's last message ended
}

type piLine struct {
	Type    string          `json:"type"`
	Tool    string          `json:"toolName"`
	Args    json.RawMessage `json:"args"`
	Aborted bool            `json:"aborted"`
	Error   string          `json:"errorMessage"`
	Message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Stop    string          `json:"stopReason"`
		Error   string          `json:"errorMessage"`
	} `json:"message"`
}

func (p *pi) line(r *Reader, line []byte) bool {
	var l piLine
	if !isObject(line) || !decode(line, &l) {
		return false
	}
	switch l.Type {
	case "turn_start":
		r.turn()
	case "message_end":
		if l.Message.Role == "assistant" {
			p.message(r, l)
		}
	case "tool_execution_start":
		r.begin("", l.Tool, about(l.Args))
	case "agent_settled":
		p.end(r, l.Aborted)
	case "auto_retry_start":
		r.fault(l.Error)
	case "session", "agent_start", "agent_end", "turn_end", "message_start", "message_update",
		"tool_execution_update", "tool_execution_end", "queue_update", "auto_retry_end", "compaction_start", "compaction_end":
	default:
		return false
	}
	return true
}

func (p *pi) message(r *Reader, l piLine) {
	p.stop = l.Message.Stop
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if len(l.Message.Content) > 0 && decode(l.Message.Content, &blocks) {
		var words []string
		for _, b := range blocks {
			if b.Type == "text" && b.Text != "" {
				words = append(words, b.Text)
			}
		}
		r.text(strings.Join(words, "\n"))
	}
	if p.stop == "error" || l.Message.Error != "" {
		r.fault(l.Message.Error)
	}
}

func (p *pi) end(r *Reader, aborted bool) {
	switch {
	case aborted || p.stop == "aborted":
		r.end(Aborted)
	case p.stop == "stop":
		r.end(Success)
	default:
		r.end(Failed)
	}
}

func (*pi) settle(*Reader) {}
