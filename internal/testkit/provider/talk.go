package provider

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
)

// dialect is one provider's wire format.
type dialect interface {
	// parse reads what matters of a request.
	parse(body []byte) (ask, error)
	// send answers with one turn.
	send(w *stream, a ask, t spoken) error
}

// ask is a request for the model's next turn, whatever the dialect.
type ask struct {
	Model   string
	Stream  bool
	Usage   bool // of a chat's stream: its usage is asked for
	Form    bool // the answer must be JSON of a given schema
	Tools   []tool
	Results map[string]Result // by call id
}

// spoken is a turn in the words of the agent's own tools.
type spoken struct {
	text  string
	calls []toolCall
	usage Usage
}

// side is the answer to a request that is not part of the script.
func side(text string) Turn { return Turn{Text: text} }

func (s *Server) talk(w *stream, d dialect, body []byte) {
	a, err := d.parse(body)
	if err != nil {
		s.problem("unreadable request: %v", err)
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	box := toolbox(a.Tools)
	beside := a.Form || !box.canWork()
	s.change(w.n, func(rec *Request) { rec.Model, rec.Side = a.Model, beside })
	switch {
	case a.Form: // Codex asks for a title this way, with all its tools on offer
		s.say(w, d, a, -1, side(`{"title":"A scripted title"}`))
		return
	case beside: // no shell on offer: a title, a summary, a check of the key
		s.say(w, d, a, -1, side("A scripted title"))
		return
	}
	n := s.note(a.Results, body)
	if n >= len(s.script) {
		s.say(w, d, a, -1, side("done"))
		s.finish()
		return
	}
	s.say(w, d, a, n, s.script[n])
	if n == len(s.script)-1 && len(s.script[n].Calls) == 0 {
		s.finish()
	}
}

// say sends a turn of the script, or with n -1 one that is beside it.
func (s *Server) say(w *stream, d dialect, a ask, n int, turn Turn) {
	w.fault = s.strike(n, turn)
	maps.Copy(w.w.Header(), turn.Header)
	if w.refuse() {
		return
	}
	t := spoken{text: w.echo() + turn.Text, usage: turn.usage()}
	for i, c := range turn.Calls {
		tc, err := toolbox(a.Tools).call(callID(n, i), c)
		if err != nil {
			s.problem("turn %d call %d: %v", n, i, err)
			fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
			return
		}
		t.calls = append(t.calls, tc)
	}
	if err := d.send(w, a, t); err != nil && w.fault.Kind == 0 {
		s.problem("send answer: %v", err)
	}
}

// strike returns the fault that a request of a turn meets, or none.
func (s *Server) strike(n int, turn Turn) Fault {
	if n < 0 || turn.Fault.Kind == 0 {
		return Fault{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn.Fault.Times > 0 && s.faults[n] >= turn.Fault.Times {
		return Fault{}
	}
	s.faults[n]++
	return turn.Fault
}

func (s *Server) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
}

// note keeps the results and returns the first turn that the talk has not come
// past: one that lacks a result or, before the last, whose words it does not
// carry.
func (s *Server) note(results map[string]Result, body []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.results, results)
	for t, turn := range s.script {
		if len(turn.Calls) == 0 && (t == len(s.script)-1 || !carries(body, turn.Text)) {
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

// carries reports whether a document holds a text, as JSON writes it.
func carries(body []byte, text string) bool {
	j, err := json.Marshal(text)
	return err == nil && bytes.Contains(body, bytes.Trim(j, `"`))
}
