package proxy

import (
	"encoding/json"
	"strconv"

	"github.com/bailey-dev/bailey"
)

// appendLine appends an event as encoding/json has it, and a line feed. There
// is one for each request, and reflection costs more than the rest of it. What
// the role has no events with is left to that package.
func appendLine(b []byte, ev *bailey.Event) ([]byte, error) {
	if ev.Command != nil || ev.Model != "" || ev.Removed != nil || ev.Use != nil || ev.Limit != "" || ev.ExitCode != nil || ev.Signal != "" || ev.By != "" {
		return appendAny(b, ev)
	}
	start := len(b)
	b = append(b, `{"time":"`...)
	b, err := ev.Time.AppendText(b)
	if err != nil {
		return appendAny(b[:start], ev)
	}
	b = append(b, `","type":`...)
	b = appendString(b, string(ev.Type))
	b = append(b, `,"sandbox":`...)
	b = appendString(b, string(ev.Sandbox))
	b = appendWord(b, `,"name":`, ev.Name)
	b = appendWord(b, `,"protocol":`, ev.Protocol)
	b = appendWord(b, `,"host":`, ev.Host)
	b = appendNumber(b, `,"port":`, int64(ev.Port))
	b = appendWord(b, `,"address":`, ev.Address)
	b = appendWord(b, `,"method":`, ev.Method)
	b = appendWord(b, `,"verdict":`, ev.Verdict)
	b = appendWord(b, `,"rule":`, ev.Rule)
	b = appendWord(b, `,"reason":`, ev.Reason)
	b = appendNumber(b, `,"bytes_in":`, ev.BytesIn)
	b = appendNumber(b, `,"bytes_out":`, ev.BytesOut)
	b = appendNumber(b, `,"duration_ms":`, ev.DurationMS)
	b = appendWord(b, `,"program":`, ev.Program)
	if ev.Connection != 0 {
		b = strconv.AppendUint(append(b, `,"connection":`...), ev.Connection, 10)
	}
	b = appendWord(b, `,"secret":`, ev.Secret)
	b = appendNumber(b, `,"status":`, int64(ev.Status))
	b = appendWord(b, `,"path":`, ev.Path)
	b = appendWord(b, `,"message":`, ev.Message)
	return append(b, "}\n"...), nil
}

// appendAny is appendLine for any event.
func appendAny(b []byte, ev *bailey.Event) ([]byte, error) {
	line, err := json.Marshal(ev)
	if err != nil {
		return nil, err
	}
	return append(append(b, line...), '\n'), nil
}

// appendWord appends a field that is left out where it is empty.
func appendWord(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, name...), s)
}

// appendNumber appends a field that is left out where it is zero.
func appendNumber(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

// appendString appends a string of JSON. What needs an escape, also for HTML,
// or is not ASCII gets it from encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...) // unreachable: a string can be marshalled
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
