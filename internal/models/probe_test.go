package models_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
)

const key = "canary-key-of-a-provider"

// at makes a file with one model of a provider at an address.
func at(t *testing.T, address, kind, more string) *models.Model {
	t.Helper()
	c := parse(t, fmt.Sprintf("providers: {p: {kind: %s, base_url: '%s', key: {secret: k}}}\nmodels:\n  m: {provider: p, name: real-1%s}\n", kind, address, more))
	return &c.Models[0]
}

// TestTest_AsksEachDialect holds what is sent to the scripted provider, which
// wants its key where the kind has it.
func TestTest_AsksEachDialect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, dialect, bound string }{
		{"anthropic", "anthropic", "max_tokens"},
		{"openai", "openai-responses", "max_output_tokens"},
		{"openai", "openai-chat", "max_completion_tokens"},
		{"vllm", "openai-chat", "max_tokens"},
		{"ollama", "anthropic", "max_tokens"},
		{"gemini", "gemini", "generationConfig"},
	} {
		t.Run(c.kind+" "+c.dialect, func(t *testing.T) {
			t.Parallel()
			server := provider.New(key, provider.Say("ok"))
			var body map[string]any
			var header http.Header
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				_ = json.Unmarshal(b, &body)
				header = r.Header.Clone()
				r.Body = io.NopCloser(strings.NewReader(string(b)))
				server.ServeHTTP(w, r)
			}))
			defer web.Close()
			m := at(t, web.URL, c.kind, ", dialect: "+c.dialect+", extra: {seed: 7}")
			a, paid, err := m.Test(t.Context(), seal.NewSecret([]byte(key)), models.Via{}, time.Now)
			if err != nil || !paid || !a.Known || a.Usage.Output == 0 || len(server.Problems()) > 0 {
				t.Fatalf("%+v, %v, %v, %v", a, paid, err, server.Problems())
			}
			if body[c.bound] == nil || body["seed"] != 7.0 || !strings.Contains(fmt.Sprint(body[c.bound]), "16") {
				t.Errorf("it is asked without a bound, or without what is to be added: %v", body)
			}
			if got := header.Get(m.Provider.Auth().Header); got != m.Provider.Auth().Prefix+key {
				t.Errorf("the key does not stand in its field: %v", header)
			}
		})
	}
}

func TestTest_SaysWhatIsWrongAndNeverTheKey(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		kind   bailey.Kind
		paid   bool
	}{
		"a wrong key":   {func(w http.ResponseWriter) { http.Error(w, "bad key "+key, http.StatusUnauthorized) }, bailey.Forbidden, false},
		"another place": {func(w http.ResponseWriter) { w.Header().Set("Location", other.URL); w.WriteHeader(307) }, bailey.Invalid, false},
		"no such model": {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusNotFound) }, bailey.NotFound, false},
		"a bad request": {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusBadRequest) }, bailey.Invalid, false},
		"busy":          {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusTooManyRequests) }, bailey.Unavailable, false},
		"broken":        {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusInternalServerError) }, bailey.Unavailable, false},
		"no HTTP": {func(w http.ResponseWriter) {
			if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 "+key+"\r\n\r\n")
				_ = c.Close()
			}
		}, bailey.Unavailable, true},
		"no JSON":        {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") }, bailey.Unavailable, true},
		"another answer": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"model":"x","choices":[]}`) }, bailey.Unavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }))
			defer web.Close()
			_, paid, err := at(t, web.URL, "anthropic", "").Test(t.Context(), seal.NewSecret([]byte(key)), models.Via{}, time.Now)
			if bailey.KindOf(err) != c.kind || paid != c.paid || strings.Contains(fmt.Sprint(err), key) {
				t.Errorf("%v, paid %v", err, paid)
			}
		})
	}
	t.Cleanup(func() {
		if elsewhere.Load() > 0 {
			t.Error("a redirect was followed")
		}
	})
}

func TestTest_OfNobody(t *testing.T) {
	t.Parallel()
	_, paid, err := at(t, nobody(t), "anthropic", "").Test(t.Context(), seal.Secret{}, models.Via{}, time.Now)
	if bailey.KindOf(err) != bailey.Unavailable || paid {
		t.Errorf("%v, paid %v", err, paid)
	}
}

// TestTest_OfAStranger: a certificate that does not hold ends the call before it
// is sent.
func TestTest_OfAStranger(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	defer web.Close()
	_, paid, err := at(t, web.URL, "anthropic", "").Test(t.Context(), seal.NewSecret([]byte(key)), models.Via{}, time.Now)
	if bailey.KindOf(err) != bailey.Unavailable || paid {
		t.Errorf("%v, paid %v", err, paid)
	}
}

// TestTest_OfOneThatFailsLate may have been paid for: the clock has an hour
// between two looks.
func TestTest_OfOneThatFailsLate(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer web.Close()
	clock := time.Time{}
	now := func() time.Time { clock = clock.Add(time.Hour); return clock }
	if _, paid, err := at(t, web.URL, "anthropic", "").Test(t.Context(), seal.Secret{}, models.Via{}, now); err == nil || !paid {
		t.Errorf("%v, paid %v", err, paid)
	}
}

// nobody is an address where nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

func TestReach(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	c := parse(t, "providers:\n  up: {kind: vllm, base_url: '"+web.URL+"'}\n  down: {kind: vllm, base_url: '"+nobody(t)+"'}\nmodels: {a: {provider: up}, b: {provider: down}, c: {provider: up}}\n")
	got := c.Reach(t.Context(), 10*time.Second, models.Via{})
	if err, ok := got["up"]; !ok || err != nil || got["down"] == nil || len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestGreet_TellsTLSFromNone in both directions, before any key is sent.
func TestGreet_TellsTLSFromNone(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secured := httptest.NewUnstartedServer(http.NotFoundHandler())
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.StartTLS()
	defer secured.Close()
	turned := func(url, from, to string) string { return to + strings.TrimPrefix(url, from) }
	c := parse(t, "providers:\n  plain: {kind: vllm, base_url: '"+plain.URL+"'}\n  down: {kind: vllm, base_url: '"+nobody(t)+"'}\n"+
		"  strange: {kind: vllm, base_url: '"+secured.URL+"'}\n  wrong: {kind: vllm, base_url: '"+turned(plain.URL, "http:", "https:")+"'}\n  bare: {kind: vllm, base_url: '"+turned(secured.URL, "https:", "http:")+"'}\n"+
		"models: {a: {provider: plain}, b: {provider: down}, c: {provider: strange}, d: {provider: wrong}, e: {provider: bare}}\n")
	got := c.Greet(t.Context(), 10*time.Second, models.Via{})
	for name, want := range map[string]string{
		"plain": "", "down": "refused", "strange": "certificate", "wrong": "it does not speak TLS; is base_url to begin with http://?", "bare": "it speaks TLS; is base_url to begin with https://?",
	} {
		if err := got[name]; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestCheck_KeysAreKeptForTheGateway(t *testing.T) {
	t.Parallel()
	c := parse(t, "providers:\n  good: {kind: openai, key: {secret: good}}\n  gone: {kind: openai, key: {secret: gone}}\n  other: {kind: openai, key: {secret: other}}\n  none: {kind: openai}\n  local: {kind: ollama}\n"+
		"models: {a: {provider: good}, b: {provider: gone}, c: {provider: other}, d: {provider: none}, e: {provider: local}}\n")
	got := c.Check(func(name string) (secret.Definition, error) {
		if name == "gone" {
			return secret.Definition{}, errors.New("no")
		}
		return secret.Definition{Name: name, Gateway: name == "good"}, nil
	})
	if len(got) != 3 || !strings.HasPrefix(got[0], "models.yaml:3:38: provider gone: there is no secret gone; keep it: bailey secret set gone --for gateway") ||
		!strings.Contains(got[1], "other is kept for hosts, and not for the gateway; change it: bailey secret edit other --for gateway") || !strings.HasPrefix(got[2], "models.yaml:5:3: provider none: ") {
		t.Errorf("%q", got)
	}
	if got := c.Check(nil); len(got) != 4 {
		t.Errorf("without a vault: %q", got)
	}
}

func TestModel_AnswersAreReadAsFarAsTheyAreKnown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, text string
		want       models.Answer
	}{
		"cached": {"anthropic", `{"model":"real-1","content":[],"usage":{"input_tokens":1,"cache_read_input_tokens":2,"cache_creation_input_tokens":3,"output_tokens":4}}`, models.Answer{Served: "real-1", Known: true, Usage: pricing.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}}},
		"silent": {"anthropic", `{"content":[]}`, models.Answer{}},
		"odd":    {"anthropic", `{"content":[],"usage":{"input_tokens":-1,"output_tokens":-9}}`, models.Answer{}},
		"gemini": {"gemini", `{"modelVersion":"v","candidates":[],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1,"thoughtsTokenCount":9}}`, models.Answer{Served: "v", Known: true, Usage: pricing.Usage{Input: 3, Output: 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.text) }))
			defer web.Close()
			got, _, err := at(t, web.URL, c.kind, "").Test(t.Context(), seal.Secret{}, models.Via{}, time.Now)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}
