package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// stream is one answer on its way. A fault strikes in it.
type stream struct {
	w      http.ResponseWriter
	r      *http.Request
	n      int // of the request, on record
	fault  Fault
	events int  // sent so far
	ending bool // its last event is on its way
	err    error
}

// errStruck ends an answer that a fault has struck.
var errStruck = errors.New("a fault of the script struck")

// refuse plays the faults that come before an answer, and reports whether
// there is no answer then.
func (s *stream) refuse() bool {
	switch s.fault.Kind {
	case Refuse:
		for name, value := range s.fault.Header {
			s.w.Header().Set(name, value)
		}
		if s.fault.Body != "" {
			s.w.WriteHeader(s.fault.Status)
			_, _ = s.w.Write([]byte(s.fault.Body))
			return true
		}
		fail(s, s.fault.Status, "scripted_error", cmp.Or(s.fault.Message, "scripted refusal"))
		return true
	case Hang, Cut:
		if s.fault.After == 0 {
			s.strike()
			return true
		}
	case Break, Echo, Slow:
	}
	return false
}

// strike hangs or cuts. The handler of an answer that is cut does not return.
func (s *stream) strike() {
	s.err = errStruck
	switch s.fault.Kind {
	case Hang:
		<-s.r.Context().Done()
	case Cut:
		panic(http.ErrAbortHandler) // net/http's way to drop the connection
	case Break:
		s.write(s.broken())
	case Refuse, Echo, Slow:
	}
}

// broken is the event by which a provider says in a stream that it failed.
func (s *stream) broken() []byte {
	body := errorBody(s.r.URL.Path, http.StatusServiceUnavailable, "overloaded_error", "scripted failure")
	name := ""
	switch {
	case strings.HasSuffix(s.r.URL.Path, "/messages"):
		name = "event: error\n"
	case strings.HasSuffix(s.r.URL.Path, "/responses"):
		name = "event: error\n"
		body["code"], body["message"] = "server_error", "scripted failure"
	}
	j, err := json.Marshal(body)
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "%sdata: %s\n\n", name, j)
}

// echo is what of the request an answer repeats: all header fields, in its
// text and in its own header.
func (s *stream) echo() string {
	if s.fault.Kind != Echo {
		return ""
	}
	var lines []string
	for name, values := range s.r.Header {
		for _, v := range values {
			lines = append(lines, name+": "+v)
			s.w.Header().Add("Echo-"+name, v)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// event sends one event and flushes it, as the real providers do.
func (s *stream) event(name string, data any) {
	if s.err != nil {
		return
	}
	if s.w.Header().Get("Content-Type") == "" {
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
	}
	if s.fault.After == s.events && slices.Contains([]FaultKind{Hang, Cut, Break}, s.fault.Kind) {
		s.strike()
		return
	}
	s.events++
	var b bytes.Buffer
	if name != "" {
		fmt.Fprintf(&b, "event: %s\n", name)
	}
	switch v := data.(type) {
	case string:
		fmt.Fprintf(&b, "data: %s\n\n", v)
	default:
		j, err := json.Marshal(v)
		if err != nil {
			s.err = fmt.Errorf("encode event %s: %w", name, err)
			return
		}
		fmt.Fprintf(&b, "data: %s\n\n", j)
	}
	s.write(b.Bytes())
}

// end sends the event that ends an answer. A client that has read it may be
// gone before its flush returns.
func (s *stream) end(name string, data any) {
	s.ending = true
	s.event(name, data)
}

// failed keeps an error in sending. What fails at the end of an answer is no
// error: the client may have read all of it and be gone.
func (s *stream) failed(what string, err error) {
	if s.ending {
		return
	}
	s.err = errors.Join(s.err, fmt.Errorf("%s answer: %w", what, err))
}

// write sends bytes at once, or one by one where the fault is slowness.
func (s *stream) write(b []byte) {
	piece, pause := max(1, len(b)), time.Duration(0)
	if s.fault.Kind == Slow {
		piece, pause = 1, s.fault.Pace
	}
	for part := range slices.Chunk(b, piece) {
		if _, err := s.w.Write(part); err != nil {
			s.failed("write", err)
			return
		}
		if err := http.NewResponseController(s.w).Flush(); err != nil {
			s.failed("flush", err)
			return
		}
		if pause == 0 {
			continue
		}
		select {
		case <-time.After(pause):
		case <-s.r.Context().Done():
			s.err = s.r.Context().Err()
			return
		}
	}
}

// reply sends a whole answer. A fault that is set to strike in a stream cuts
// it, or holds it back, in its middle.
func reply(s *stream, v any) {
	s.w.Header().Set("Content-Type", "application/json")
	j, err := json.Marshal(v)
	if err != nil {
		s.err = fmt.Errorf("encode answer: %w", err)
		return
	}
	switch s.fault.Kind {
	case Hang, Cut, Break:
		s.write(j[:len(j)/2])
		s.strike()
	default:
		s.write(append(j, '\n'))
	}
}

// fail answers with an error as clients of the path's dialect read it.
func fail(s *stream, status int, kind, message string) {
	s.w.Header().Set("Content-Type", "application/json")
	s.w.WriteHeader(status)
	_ = json.NewEncoder(s.w).Encode(errorBody(s.r.URL.Path, status, kind, message))
}

// errorBody is an error in Gemini's form, or in one that the clients of both
// other families read.
func errorBody(path string, status int, kind, message string) map[string]any {
	if isGemini(path) {
		return map[string]any{"error": map[string]any{"code": status, "message": message, "status": strings.ToUpper(kind)}}
	}
	return map[string]any{
		"type":  "error",
		"error": map[string]any{"type": kind, "message": message, "code": kind, "param": nil},
	}
}
