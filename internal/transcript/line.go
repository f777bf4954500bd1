package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// decode reads a JSON object as far as it has the form of v: a field of
// another type is left as it was.
func decode(data []byte, v any) bool {
	err := json.Unmarshal(data, v)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return true
	}
	return err == nil
}

// oneLine is the beginning of a text as one printable line.
func oneLine(s string) string { return short(s, lineRunes) }

// short makes one printable line of a text, at most so many runes long: white
// space becomes single spaces, and what has no look of its own (controls,
// marks that turn the direction, characters without width) is left out.
func short(s string, most int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case !strconv.IsPrint(r):
			continue
		}
		width := 1
		if space {
			width = 2
		}
		if n+width > most-1 {
			b.WriteRune('…')
			break
		}
		if space {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		n, space = n+width, false
	}
	return b.String()
}

// validated makes a text valid UTF-8 without NUL, at most so many bytes long.
func validated(s string, most int) (text string, cut bool) {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) <= most {
		return s, false
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], true
}

// word is a text that is one word of small letters, digits and _, or empty.
func word(s string) string {
	if len(s) > wordRunes {
		return ""
	}
	for _, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return ""
		}
	}
	return s
}

// telling are the names that arguments of tools have, those first that say the
// most about a call.
func telling() []string {
	return []string{
		"command", "cmd", "file_path", "filePath", "absolute_path", "path", "dir_path", "pattern", "query", "url",
		"skill", "subject", "description", "prompt", "name",
	}
}

// about is one printable line of what a call with these arguments is about.
func about(args json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		var text string
		if json.Unmarshal(args, &text) == nil { // a tool that takes free text
			return oneLine(text)
		}
		return ""
	}
	for _, name := range telling() {
		if s := about1(fields[name]); s != "" {
			return s
		}
	}
	return ""
}

// about1 reads an argument that is a text, or the words of a command.
func about1(value json.RawMessage) string {
	if len(value) == 0 {
		return ""
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return oneLine(text)
	}
	var words []string
	if json.Unmarshal(value, &words) == nil {
		return oneLine(strings.Join(words, " "))
	}
	return ""
}

// shellLine is a command without the shell that it was given to.
func shellLine(command string) string {
	for _, shell := range []string{"/bin/bash -lc ", "/usr/bin/bash -lc ", "bash -lc ", "/bin/sh -c ", "sh -c "} {
		rest, ok := strings.CutPrefix(command, shell)
		if !ok {
			continue
		}
		if n := len(rest); n >= 2 && rest[0] == rest[n-1] && (rest[0] == '"' || rest[0] == '\'') {
			rest = rest[1 : n-1]
		}
		return oneLine(rest)
	}
	return oneLine(command)
}

// todo is an item of a plan as the agents write it.
type todo struct {
	Content     string `json:"content"`
	Description string `json:"description"`
	Text        string `json:"text"`
	Step        string `json:"step"`
	Status      string `json:"status"`
	Completed   bool   `json:"completed"`
}

func items(todos []todo) []Item {
	out := make([]Item, 0, min(len(todos), MaxPlan))
	for _, t := range todos[:min(len(todos), MaxPlan)] {
		i := Item{Step: step(t.Status)}
		if t.Completed {
			i.Step = Done
		}
		for _, text := range []string{t.Content, t.Description, t.Text, t.Step} {
			if i.Text == "" {
				i.Text = oneLine(text)
			}
		}
		if i.Text != "" {
			out = append(out, i)
		}
	}
	return out
}

func step(status string) Step {
	switch status {
	case "in_progress", "active":
		return Active
	case "completed", "done":
		return Done
	case "cancelled", "canceled", "deleted", "blocked":
		return Dropped
	}
	return Pending
}

// planOf tells of the plan in the arguments of a call whose tool is known to
// keep one, and reports whether there was one.
func (r *Reader) planOf(args json.RawMessage) bool {
	var in struct {
		Todos []todo `json:"todos"`
		Plan  []todo `json:"plan"`
	}
	if !decode(args, &in) {
		return false
	}
	list := items(append(in.Todos, in.Plan...))
	if len(list) == 0 {
		return false
	}
	r.plan(list)
	return true
}

// isObject reports whether a line begins as an object does; agents print other
// things too, such as warnings.
func isObject(line []byte) bool { return bytes.HasPrefix(line, []byte("{")) }
