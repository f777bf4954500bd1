package provider_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/provider"
)

// answer is what a client saw of one answer.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// fetch sends a request with its key and takes all that comes back.
func fetch(ctx context.Context, t *testing.T, url, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

func TestServer_Faults(t *testing.T) {
	t.Parallel()
	for name, w := range wires() {
		for fault, tc := range map[string]struct {
			fault provider.Fault
			check func(a answer) bool
		}{
			"refuse": {
				provider.Fault{Kind: provider.Refuse, Status: 429, Header: map[string]string{"Retry-After": "7"}},
				func(a answer) bool {
					return a.status == 429 && a.header.Get("Retry-After") == "7" && strings.Contains(a.body, "scripted refusal")
				},
			},
			"redirect": {
				provider.Fault{Kind: provider.Refuse, Status: 307, Header: map[string]string{"Location": "http://evil.test/"}, Body: "gone"},
				func(a answer) bool {
					return a.status == 307 && a.header.Get("Location") == "http://evil.test/" && a.body == "gone"
				},
			},
			"cut before": {provider.Fault{Kind: provider.Cut}, func(a answer) bool { return a.err != nil && a.status == 0 }},
			"cut within": {
				provider.Fault{Kind: provider.Cut, After: 1},
				func(a answer) bool { return a.err != nil && a.status == 200 && strings.Contains(a.body, "data: ") },
			},
			"break": {
				provider.Fault{Kind: provider.Break, After: 1},
				func(a answer) bool {
					return a.err == nil && strings.Contains(a.body, "scripted failure")
				},
			},
			"echo": {
				provider.Fault{Kind: provider.Echo},
				func(a answer) bool {
					return strings.Contains(a.body, "Authorization: Bearer "+key) && a.header.Get("Echo-Authorization") == "Bearer "+key
				},
			},
			"slow": {
				provider.Fault{Kind: provider.Slow, Pace: time.Microsecond},
				func(a answer) bool { return a.err == nil && strings.Contains(a.body, "the end") },
			},
		} {
			t.Run(name+" "+fault, func(t *testing.T) {
				t.Parallel()
				turn := provider.Say("the end")
				turn.Fault = tc.fault
				turn.Fault.Times = 1
				_, url := serve(t, turn)
				body := w.request(true, []string{"bash"}, nil)
				if got := fetch(t.Context(), t, url+w.at(true), body); !tc.check(got) {
					t.Errorf("with the fault: %+v", got)
				}
				if got := fetch(t.Context(), t, url+w.at(true), body); got.err != nil || got.status != 200 || !strings.Contains(got.body, "the end") || strings.Contains(got.body, key) {
					t.Errorf("after it: %+v", got)
				}
			})
		}
	}
}

func TestServer_HangsUntilTheClientIsGone(t *testing.T) {
	t.Parallel()
	for name, w := range wires() {
		for _, after := range []int{0, 1} {
			t.Run(fmt.Sprint(name, " after ", after), func(t *testing.T) {
				t.Parallel()
				turn := provider.Say("the end")
				turn.Fault = provider.Fault{Kind: provider.Hang, After: after}
				s, url := serve(t, turn)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { // it hangs a while after the request has come
					for len(s.Requests()) == 0 && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(50 * time.Millisecond)
					cancel()
				}()
				if got := fetch(ctx, t, url+w.at(true), w.request(true, []string{"bash"}, nil)); got.err == nil {
					t.Errorf("it ended: %+v", got)
				}
				if n := len(s.Requests()); n != 1 {
					t.Errorf("%d requests on record", n)
				}
			})
		}
	}
}

func TestServer_Usage(t *testing.T) {
	t.Parallel()
	odd := provider.Usage{Input: 1000, Output: -5, CacheRead: 9007199254740993, CacheWrite: 70, Reasoning: 3}
	want := map[string][]string{
		"anthropic": {`"input_tokens":1000`, `"output_tokens":-5`, `"cache_read_input_tokens":9007199254740993`, `"cache_creation_input_tokens":70`},
		"responses": {`"output_tokens":-5`, `"cached_tokens":9007199254740993`, `"reasoning_tokens":3`},
		"chat":      {`"completion_tokens":-5`, `"cached_tokens":9007199254740993`, `"reasoning_tokens":3`},
		"gemini":    {`"candidatesTokenCount":-8`, `"cachedContentTokenCount":9007199254740993`, `"thoughtsTokenCount":3`},
	}
	for name, w := range wires() {
		for _, stream := range []bool{true, false} {
			ask := func(u provider.Usage) string {
				turn := provider.Say("the end")
				turn.Usage = &u
				_, url := serve(t, turn)
				return fetch(t.Context(), t, url+w.at(stream), w.request(stream, []string{"bash"}, nil)).body
			}
			got := ask(odd)
			for _, text := range want[name] {
				if !strings.Contains(got, text) {
					t.Errorf("%s: no %s in %s", name, text, got)
				}
			}
			if got := ask(provider.Usage{Missing: true}); strings.Contains(strings.ToLower(got), "_tokens") || strings.Contains(got, "TokenCount") {
				t.Errorf("%s says something: %s", name, got)
			}
		}
		turn := provider.Say("the end")
		turn.Usage = &provider.Usage{Input: 1, Output: 2, First: &provider.Usage{Input: 1, Output: 777}}
		_, url := serve(t, turn)
		if got := fetch(t.Context(), t, url+w.at(true), w.request(true, []string{"bash"}, nil)).body; !strings.Contains(got, "777") {
			t.Errorf("%s says nothing before its last word: %s", name, got)
		}
	}
}

// TestServer_GoesOnWhenATalkIsResumed: words that stand in a request are past.
func TestServer_GoesOnWhenATalkIsResumed(t *testing.T) {
	t.Parallel()
	s, url := serve(t, provider.Say("that was \"one\""), provider.Say("and two"))
	const path = "/v1/messages"
	if _, got := post(t, url+path, key, `{"model":"m","tools":[{"name":"bash"}],"messages":[]}`); !strings.Contains(got, `that was \"one\"`) || s.Finished() {
		t.Errorf("first: %s", got)
	}
	if _, got := post(t, url+path, key, `{"model":"m","tools":[{"name":"bash"}],"messages":[{"role":"assistant","content":"that was \"one\""}]}`); !strings.Contains(got, "and two") || !s.Finished() {
		t.Errorf("resumed: %s", got)
	}
	if reqs := s.Requests(); reqs[0].Model != "m" || reqs[0].Side {
		t.Errorf("on record: %+v", reqs[0])
	}
}
