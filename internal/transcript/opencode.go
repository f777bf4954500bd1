package transcript

import "encoding/json"

// opencode reads `opencode run --format json`. Written by what version 1.18.33
// prints. It has no line for its end: a last step that asks for nothing is one.
type opencode struct {
	reason string // of the last step; empty while one is under way
	failed bool
}

type opencodeLine struct {
	Type string `json:"type"`
	Part struct {
		Text   string `json:"text"`
		Tool   string `json:"tool"`
		Reason string `json:"reason"`
		State  struct {
			Input json.RawMessage `json:"input"`
			Title string          `json:"title"`
		} `json:"state"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
}

func (o *opencode) line(r *Reader, line []byte) bool {
	var l opencodeLine
	if !isObject(line) || !decode(line, &l) {
		return false
	}
	switch l.Type {
	case "step_start":
		o.reason, o.failed = "", false
		r.turn()
	case "step_finish":
		o.reason = l.Part.Reason
	case "text":
		r.text(l.Part.Text)
	case "tool_use":
		if l.Part.Tool != "todowrite" || !r.planOf(l.Part.State.Input) {
			r.begin("", l.Part.Tool, firstOf(about(l.Part.State.Input), oneLine(l.Part.State.Title)))
		}
	case "error":
		o.failed = true
		r.fault(firstOf(l.Error.Data.Message, l.Error.Name))
	case "reasoning":
	default:
		return false
	}
	return true
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

func (o *opencode) settle(r *Reader) {
	switch {
	case o.failed:
		r.end(Failed)
	case o.reason == "stop":
		r.end(Success)
	}
}
