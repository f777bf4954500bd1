package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// provider answers every request at once, and always the same.
type provider struct {
	at   string // HOST:PORT
	http *http.Server

	mu   sync.Mutex
	hold chan struct{} // streams stop after their first event until it is closed; nil: they do not
}

func newProvider(ctx context.Context) (*provider, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{at: ln.Addr().String()}
	p.http = &http.Server{Handler: p, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = p.http.Serve(ln) }()
	return p, nil
}

func (p *provider) close() { _ = p.http.Close() }

// holding has streams stop after their first event until the returned function
// is called.
func (p *provider) holding() (release func()) {
	hold := make(chan struct{})
	p.mu.Lock()
	p.hold = hold
	p.mu.Unlock()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.hold = nil
		p.mu.Unlock()
		close(hold)
	})
}

// The answers, as Anthropic's Messages API gives them.
const wholeAnswer = `{"id":"msg_0123456789","type":"message","role":"assistant","model":"` + answered + `",` +
	`"content":[{"type":"text","text":"The file is as you want it: the error of each call is looked at, and told with the name of what was run."}],` +
	`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":200,"output_tokens":30}}`

const firstEvent = "event: message_start\ndata: " +
	`{"type":"message_start","message":{"id":"msg_0123456789","type":"message","role":"assistant","model":"` + answered + `","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":200,"output_tokens":1}}}` + "\n\n"

// otherEvents are a block of text in pieces, and the end.
func otherEvents() string {
	const pieces = 10
	var b strings.Builder
	event := func(name, data string) { _, _ = fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, data) }
	event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	for range pieces {
		event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"the error of each call "}}`)
	}
	event("content_block_stop", `{"type":"content_block_stop","index":0}`)
	event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":30}}`)
	event("message_stop", `{"type":"message_stop"}`)
	return b.String()
}

// ServeHTTP answers.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(wholeAnswer)))
		_, _ = io.WriteString(w, wholeAnswer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, firstEvent)
	_ = http.NewResponseController(w).Flush()
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	_, _ = io.WriteString(w, otherEvents())
}
