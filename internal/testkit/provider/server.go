package provider

import (
	"crypto/subtle"
	"fmt"
	"io"
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
	Model  string // that a model call asked for; empty for anything else
	Side   bool   // not part of the scripted talk: a probe, a title, a listing
	Status int    // 0 while it is being answered
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
	faults   []int // how often each turn's fault has struck
	finished bool
	problems []string
}

// New makes a server that accepts one key and follows one script. Any other
// key, or none, is answered as the real providers do: 401.
func New(key string, script ...Turn) *Server {
	return &Server{key: key, script: script, results: map[string]Result{}, faults: make([]int, len(script))}
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

// ServeHTTP answers one request and records it. It is on record when its body
// has been read, whatever becomes of the answer.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &statusWriter{ResponseWriter: rw, status: http.StatusOK}
	rec := Request{
		Time: time.Now(), Method: r.Method, Host: r.Host, Path: r.URL.RequestURI(),
		Header: r.Header.Clone(), Side: true,
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	rec.Body = body
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, rec)
	s.mu.Unlock()
	defer func() { s.change(n, func(rec *Request) { rec.Status = w.status }) }()
	if err != nil {
		http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
		return
	}
	s.dispatch(&stream{w: w, r: r, n: n}, body)
}

// change alters what is on record of a request.
func (s *Server) change(n int, f func(*Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.requests[n])
}

// dispatch answers by method and path.
func (s *Server) dispatch(w *stream, body []byte) {
	r := w.r
	if r.Method == http.MethodHead { // connectivity probes carry no key
		return
	}
	if r.Header.Get("Upgrade") != "" {
		// Agents that try a WebSocket first fall back to HTTP on this.
		w.w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	if !s.authorized(r) {
		fail(w, http.StatusUnauthorized, "authentication_error", "invalid key")
		return
	}
	if s.dispatchGemini(w, body) {
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/messages":
		s.talk(w, anthropic{}, body)
	case "POST /v1/messages/count_tokens":
		reply(w, map[string]any{"input_tokens": Count(body)})
	case "POST /v1/responses":
		s.talk(w, responses{}, body)
	case "POST /v1/chat/completions":
		s.talk(w, chat{}, body)
	case "GET /v1/models":
		reply(w, models())
	default:
		fail(w, http.StatusNotFound, "not_found_error", "no such endpoint: "+r.URL.Path)
	}
}

// Count is what the server says of a request whose tokens are to be counted:
// a token for every four bytes of its body, and one.
func Count(body []byte) int { return 1 + len(body)/4 }

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
	if got == "" {
		got = r.Header.Get("X-Goog-Api-Key")
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && got == "" {
		got = bearer
	}
	return s.key != "" && subtle.ConstantTimeCompare([]byte(got), []byte(s.key)) == 1
}
