package provider

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is one request that reached the server.
type Request struct {
	Time   time.Time
	Method string
	Host   string
	Path   string // with the query
	Header http.Header
	Body   []byte
	Side   bool // not part of the scripted talk: a probe, a title, a listing
	Status int
}

// maxBody bounds what the server keeps of one request, in bytes.
const maxBody = 32 << 20

// Server is a model provider that follows a script. Make one with New.
type Server struct {
	key    string
	script []Turn

	mu       sync.Mutex
	requests []Request
	results  map[string]Result
	finished bool
	problems []string
}

// New makes a server that accepts one key and follows one script. Any other
// key, or none, is answered as the real providers do: 401.
func New(key string, script ...Turn) *Server {
	return &Server{key: key, script: script, results: map[string]Result{}}
}

// Requests returns everything that was asked, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Results returns the results that have come back, in the script's order.
func (s *Server) Results() []Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Result
	for t, turn := range s.script {
		for c := range turn.Calls {
			if r, ok := s.results[callID(t, c)]; ok {
				r.Turn, r.Call = t, c
				out = append(out, r)
			}
		}
	}
	return out
}

// Finished reports whether the last turn of the script was sent.
func (s *Server) Finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished
}

// Problems says what the server could not do with a request, such as a call
// of the script for which the agent offered no tool. A sound run has none.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

func (s *Server) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// statusWriter remembers the status that was sent.
type statusWriter struct {
	http.ResponseWriter

	status int
}

func (w *statusWriter) WriteHeader(code int) {
	w.status = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection's writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP answers one request and records it.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &statusWriter{ResponseWriter: rw, status: http.StatusOK}
	rec := Request{
		Time: time.Now(), Method: r.Method, Host: r.Host, Path: r.URL.RequestURI(),
		Header: r.Header.Clone(), Side: true,
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	rec.Body = body
	if err != nil {
		http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
	} else {
		rec.Side = s.dispatch(w, r, body)
	}
	rec.Status = w.status
	s.mu.Lock()
	s.requests = append(s.requests, rec)
	s.mu.Unlock()
}

// dispatch answers by method and path, and reports whether the request was
// beside the script.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if r.Method == http.MethodHead { // connectivity probes carry no key
		return true
	}
	if r.Header.Get("Upgrade") != "" {
		// Agents that try a WebSocket first fall back to HTTP on this.
		w.WriteHeader(http.StatusUpgradeRequired)
		return true
	}
	if !s.authorized(r) {
		fail(w, http.StatusUnauthorized, "authentication_error", "invalid key")
		return true
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/messages":
		return s.talk(w, anthropic{}, body)
	case "POST /v1/messages/count_tokens":
		reply(w, map[string]any{"input_tokens": 1 + len(body)/4})
	case "POST /v1/responses":
		return s.talk(w, responses{}, body)
	case "POST /v1/chat/completions":
		return s.talk(w, chat{}, body)
	case "GET /v1/models":
		reply(w, models())
	default:
		fail(w, http.StatusNotFound, "not_found_error", "no such endpoint: "+r.URL.Path)
	}
	return true
}

func models() map[string]any {
	return map[string]any{
		"object": "list", "has_more": false,
		"data": []any{map[string]any{
			"id": "scripted-1", "type": "model", "object": "model", "display_name": "Scripted", "created_at": "2026-01-01T00:00:00Z",
		}},
	}
}

func (s *Server) authorized(r *http.Request) bool {
	got := r.Header.Get("X-Api-Key")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && got == "" {
		got = bearer
	}
	return s.key != "" && subtle.ConstantTimeCompare([]byte(got), []byte(s.key)) == 1
}

// dialect is one provider's wire format.
type dialect interface {
	// parse reads what matters of a request.
	parse(body []byte) (ask, error)
	// send answers with one turn.
	send(w *stream, a ask, calls []toolCall, text string) error
}

// ask is a request for the model's next turn, whatever the dialect.
type ask struct {
	Model   string
	Stream  bool
	Form    bool // the answer must be JSON of a given schema
	Tools   []tool
	Results map[string]Result // by call id
}

func (s *Server) talk(w http.ResponseWriter, d dialect, body []byte) (side bool) {
	a, err := d.parse(body)
	if err != nil {
		s.problem("unreadable request: %v", err)
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return true
	}
	box := toolbox(a.Tools)
	switch {
	case a.Form: // Codex asks for a title this way, with all its tools on offer
		s.sent(w, d, a, nil, `{"title":"A scripted title"}`)
		return true
	case !box.canWork(): // no shell on offer: a title, a summary, a check of the key
		s.sent(w, d, a, nil, "A scripted title")
		return true
	}
	n := s.note(a.Results)
	if n >= len(s.script) {
		s.sent(w, d, a, nil, "done")
		s.finish()
		return false
	}
	turn := s.script[n]
	calls := make([]toolCall, 0, len(turn.Calls))
	for i, c := range turn.Calls {
		tc, err := box.call(callID(n, i), c)
		if err != nil {
			s.problem("turn %d call %d: %v", n, i, err)
			fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
			return false
		}
		calls = append(calls, tc)
	}
	s.sent(w, d, a, calls, turn.Text)
	if n == len(s.script)-1 && len(calls) == 0 {
		s.finish()
	}
	return false
}

func (s *Server) sent(w http.ResponseWriter, d dialect, a ask, calls []toolCall, text string) {
	if err := d.send(&stream{w: w}, a, calls, text); err != nil {
		s.problem("send answer: %v", err)
	}
}

func (s *Server) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
}

// note keeps the results and returns the first turn that still lacks one.
func (s *Server) note(results map[string]Result) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.results, results)
	for t, turn := range s.script {
		if len(turn.Calls) == 0 {
			return t
		}
		for c := range turn.Calls {
			if _, ok := results[callID(t, c)]; !ok {
				return t
			}
		}
	}
	return len(s.script)
}

// stream writes server-sent events.
type stream struct {
	w   http.ResponseWriter
	err error
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
	if _, err := s.w.Write(b.Bytes()); err != nil {
		s.err = fmt.Errorf("write event %s: %w", name, err)
		return
	}
	if err := http.NewResponseController(s.w).Flush(); err != nil {
		s.err = fmt.Errorf("flush event %s: %w", name, err)
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// fail answers with an error that both families of clients can read.
func fail(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type":  "error",
		"error": map[string]any{"type": kind, "message": message, "code": kind, "param": nil},
	})
}
