package transcript

import (
	"encoding/json"
	"strings"
)

// gemini reads `gemini -o stream-json`. Written by what version 0.61.0 prints.
// It does not say when the model is asked, so turns are counted by what it
// does.
type gemini struct {
	words strings.Builder // of a message, which comes in pieces
}

type geminiLine struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content string          `json:"content"`
	Tool    string          `json:"tool_name"`
	ID      string          `json:"tool_id"`
	Args    json.RawMessage `json:"parameters"`
	Status  string          `json:"status"`
	Message string          `json:"message"`
	Error   struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	} `json:"error"`
}

func (g *gemini) line(r *Reader, line []byte) bool {
	var l geminiLine
	if !isObject(line) || !decode(line, &l) {
		return false
	}
	if l.Type != "message" || l.Role != "assistant" {
		g.settle(r)
	}
	switch l.Type {
	case "message":
		if l.Role == "assistant" {
			r.model()
			if g.words.Len() < MaxReport { // and a line more, which report cuts
				g.words.WriteString(l.Content)
			}
		}
	case "tool_use":
		r.model()
		if l.Tool != "write_todos" || !r.planOf(l.Args) {
			r.begin(l.ID, l.Tool, about(l.Args))
		}
	case "tool_result":
		r.answered(l.ID)
	case "error":
		r.fault(l.Message)
	case "result":
		g.result(r, l)
	case "init":
	default:
		return false
	}
	return true
}

func (g *gemini) result(r *Reader, l geminiLine) {
	switch {
	case l.Status == Success:
		r.end(Success)
	case l.Error.Type == "FatalTurnLimitedError":
		r.fault(l.Error.Message)
		r.end(MaxTurns)
	default:
		r.fault(l.Error.Message)
		r.end(Failed)
	}
}

// settle tells of the message whose pieces have come.
func (g *gemini) settle(r *Reader) {
	if g.words.Len() > 0 {
		r.text(g.words.String())
		g.words.Reset()
	}
}
