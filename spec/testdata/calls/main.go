// Command calls makes requests to the model gateway from inside a sandbox: those
// that its argument, a JSON file, lists. It writes a Result for each, one a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Try is one request, sent as it is written here. "@TOKEN@" in a field is the
// token of this sandbox.
type Try struct {
	Name   string
	Line   string   // such as "POST /v1/messages"
	Fields []string // without Host, Content-Length and Connection
	Body   []byte
	Raw    []byte // sent in the place of all of these, with the token put in; what follows the first answer is read and not told
	Count  int    // how many at once; 0 is 1
	Idle   bool   // Count connections say nothing, or the head in Raw and then each second a byte of it, until the program ends
	HangUp int    // bytes of the answer after which the connection is closed; 0: none
}

// Result is what came back.
type Result struct {
	Name     string
	Status   int
	Header   http.Header
	Body     string
	Error    string
	Statuses map[int]int // of those with a Count
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	var list []Try
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for _, t := range list {
		if err := out.Encode(t.do()); err != nil {
			os.Exit(1)
		}
	}
}

func (t Try) do() Result {
	switch {
	case t.Idle:
		return t.hold()
	case t.Count == 0:
		return t.once()
	}
	r := Result{Name: t.Name, Statuses: map[int]int{}}
	var all sync.WaitGroup
	var mu sync.Mutex
	for range t.Count {
		all.Go(func() {
			one := t.once()
			mu.Lock()
			defer mu.Unlock()
			r.Statuses[one.Status]++
			if one.Error != "" {
				r.Error = one.Error
			}
		})
	}
	all.Wait()
	return r
}

// hold opens connections and leaves them open.
func (t Try) hold() Result {
	r := Result{Name: t.Name, Statuses: map[int]int{}}
	raw := strings.ReplaceAll(string(t.Raw), "@TOKEN@", token())
	for range max(t.Count, 1) {
		c, err := net.Dial("tcp4", "127.0.0.1:4749")
		if err != nil {
			r.Error = err.Error()
			return r
		}
		r.Statuses[0]++
		head, body, _ := strings.Cut(raw, "\r\n\r\n")
		if raw == "" {
			continue
		}
		if _, err := io.WriteString(c, head+"\r\n\r\n"); err != nil {
			r.Error = err.Error()
			return r
		}
		go func() {
			for i := range body {
				if _, err := io.WriteString(c, body[i:i+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
	}
	return r
}

func token() string {
	token := ""
	for _, name := range []string{"ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY"} {
		token += os.Getenv(name)
	}
	return token
}

func (t Try) once() Result {
	r := Result{Name: t.Name}
	fail := func(err error) Result {
		r.Error = err.Error()
		return r
	}
	c, err := net.Dial("tcp4", "127.0.0.1:4749")
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	var b strings.Builder
	fmt.Fprintf(&b, "%s HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n", t.Line)
	for _, f := range t.Fields {
		b.WriteString(strings.ReplaceAll(f, "@TOKEN@", token()) + "\r\n")
	}
	if len(t.Body) > 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(t.Body))
	}
	b.WriteString("\r\n" + string(t.Body))
	text := b.String()
	if len(t.Raw) > 0 {
		text = strings.ReplaceAll(string(t.Raw), "@TOKEN@", token())
	}
	if _, err := io.WriteString(c, text); err != nil {
		return fail(err)
	}
	method, _, _ := strings.Cut(t.Line, " ")
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return fail(err)
	}
	r.Status, r.Header = res.StatusCode, res.Header
	var body []byte
	if t.HangUp > 0 {
		body, err = io.ReadAll(io.LimitReader(res.Body, int64(t.HangUp)))
	} else {
		body, err = io.ReadAll(res.Body)
	}
	r.Body = string(body)
	if len(t.Raw) > 0 && err == nil {
		_, _ = io.Copy(io.Discard, in)
	}
	if err != nil {
		return fail(err)
	}
	return r
}
