package models

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/seal"
)

// Bounds of a test: of its answer's length in tokens and bytes, and of its time.
const (
	TestInput  = 64 // tokens that it is taken to send
	TestOutput = 16
	longestWay = time.Minute
	mostAnswer = 1 << 20
)

// Answer is what a provider said to a test.
type Answer struct {
	Served string        // the model that answered, by its own word; empty: it does not say
	Usage  pricing.Usage // as far as it is said
	Known  bool          // Usage was said, and can be: no call has no input
}

// Test asks a model for a word, through its provider and with its key. Nothing
// is followed elsewhere, and no proxy is used but the one of via: the key goes to
// the address in the file or nowhere. paid reports whether the provider may have
// done the work, as the gateway takes it.
func (m *Model) Test(ctx context.Context, key seal.Secret, via Via, now func() time.Time) (a Answer, paid bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, longestWay)
	defer cancel()
	target, body, err := m.testBody()
	if err != nil {
		return a, false, err
	}
	ctx, connected := gateway.Connected(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Provider.URL(target), bytes.NewReader(body))
	if err != nil {
		return a, false, bailey.WrapError(bailey.Invalid, "ask "+m.Provider.Name, err, "look at its base_url")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if m.Dialect == gateway.Anthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	secret := reveal(key)
	m.Provider.Auth().Put(req.Header, secret)
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: via.Roots},
	}
	via.Way.Into(transport)
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	asked := now()
	resp, err := client.Do(req)
	if err != nil {
		return a, connected(), m.unreachable(without(err, secret))
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return a, true, m.unreachable(without(err, secret))
	}
	if resp.StatusCode != http.StatusOK {
		return a, gateway.Worked(resp.StatusCode, now().Sub(asked)), m.refused(resp.StatusCode, text, secret)
	}
	a, err = readAnswer(m.Dialect, text)
	if err != nil {
		return a, true, bailey.WrapError(bailey.Unavailable, "read what "+m.Provider.Name+" answered", err, "does it speak "+string(m.Dialect)+"? look at dialect and base_url")
	}
	return a, true, nil
}

// reveal takes the key out, for the one field that it is sent in.
func reveal(key seal.Secret) []byte { return key.Reveal() }

// without is an error whose text has no key in it: net/http quotes what it could
// not read, and a provider may say there what it was sent.
func without(err error, key []byte) error {
	text := err.Error()
	quoted := strconv.Quote(string(key))
	for _, k := range []string{string(key), quoted[1 : len(quoted)-1]} {
		if k != "" {
			text = strings.ReplaceAll(text, k, "[secret]")
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text) //nolint:err113 // it is told and not looked at
}

func (m *Model) unreachable(err error) error {
	host, port := m.Provider.HostPort()
	return bailey.WrapError(bailey.Unavailable, fmt.Sprintf("ask the provider %s at %s", m.Provider.Name, net.JoinHostPort(host, port)), err, "is it running, and is its base_url right?")
}

// refused says what a status means. The key is taken out of what the provider
// said of it.
func (m *Model) refused(status int, text, key []byte) error {
	const most = 300
	if len(key) > 0 {
		text = bytes.ReplaceAll(text, key, []byte("[secret]"))
	}
	said := strings.Join(strings.Fields(strings.ToValidUTF8(string(text[:min(len(text), most)]), "")), " ")
	kind, hint := bailey.Unavailable, "try again later"
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		kind, hint = bailey.Forbidden, "look at its key: bailey secret rotate "+m.Provider.Secret
		if m.Provider.Secret == "" {
			hint = "it wants a key: bailey secret set NAME --for gateway keeps it; write key: {secret: NAME} in models.yaml"
		}
	case status >= 300 && status < 400:
		kind, hint = bailey.Invalid, "it sends elsewhere, which is not followed: write that address as base_url"
	case status == http.StatusNotFound:
		kind, hint = bailey.NotFound, "look at the model's name and at base_url"
	case status < http.StatusInternalServerError && status != http.StatusTooManyRequests:
		kind, hint = bailey.Invalid, "look at the model's dialect, drop, rename and extra"
	}
	return bailey.NewError(kind, fmt.Sprintf("the provider %s answers %d: %s", m.Provider.Name, status, said), hint)
}

// testBody is the smallest request of the model's dialect.
func (m *Model) testBody() (target string, body []byte, err error) {
	const question = "Answer with the word ok."
	talk := []any{map[string]any{"role": "user", "content": question}}
	var fields map[string]any
	switch m.Dialect {
	case gateway.Anthropic:
		target = "/v1/messages"
		fields = map[string]any{"model": m.Name, "messages": talk, "max_tokens": TestOutput}
	case gateway.OpenAIResponses:
		target = "/v1/responses"
		fields = map[string]any{"model": m.Name, "input": talk, "max_output_tokens": TestOutput, "store": false}
	case gateway.OpenAIChat:
		target = "/v1/chat/completions"
		bound := "max_tokens"
		if m.Provider.Kind == OpenAI {
			bound = "max_completion_tokens"
		}
		fields = map[string]any{"model": m.Name, "messages": talk, bound: TestOutput}
	case gateway.Gemini:
		target = "/v1beta/models/" + m.Name + ":generateContent"
		fields = map[string]any{
			"contents":         []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": question}}}},
			"generationConfig": map[string]any{"maxOutputTokens": TestOutput},
		}
	default:
		return "", nil, fmt.Errorf("bug: the dialect %q is not known", m.Dialect)
	}
	for _, name := range m.Drop {
		delete(fields, name)
	}
	for from, to := range m.renames() {
		if v, there := fields[from]; there {
			delete(fields, from)
			fields[to] = v
		}
	}
	for name, v := range m.Extra {
		fields[name] = v
	}
	body, err = json.Marshal(fields)
	return target, body, err
}

// spoken is what the answers of all dialects have that is read here.
type spoken struct {
	Model        string `json:"model"`
	ModelVersion string `json:"modelVersion"`
	Usage        *struct {
		Input      int64 `json:"input_tokens"`
		Output     int64 `json:"output_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
	Metadata *struct {
		Prompt     int64 `json:"promptTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
	Content    json.RawMessage `json:"content"`
	Output     json.RawMessage `json:"output"`
	Choices    json.RawMessage `json:"choices"`
	Candidates json.RawMessage `json:"candidates"`
}

// readAnswer reads an answer as far as a person wants to know it.
func readAnswer(d gateway.Dialect, text []byte) (Answer, error) {
	var s spoken
	if err := json.Unmarshal(text, &s); err != nil {
		return Answer{}, errors.New("it is no JSON of the kind")
	}
	parts := map[gateway.Dialect]json.RawMessage{gateway.Anthropic: s.Content, gateway.OpenAIResponses: s.Output, gateway.OpenAIChat: s.Choices, gateway.Gemini: s.Candidates}
	if parts[d] == nil {
		return Answer{}, errors.New("it holds no answer of the dialect")
	}
	a := Answer{Served: s.Model}
	if d == gateway.Gemini {
		a.Served = s.ModelVersion
	}
	switch {
	case s.Usage != nil:
		a.Usage = pricing.Usage{
			Input: max(s.Usage.Input, s.Usage.Prompt, 0), Output: max(s.Usage.Output, s.Usage.Completion, 0),
			CacheRead: max(s.Usage.CacheRead, 0), CacheWrite: max(s.Usage.CacheWrite, 0),
		}
	case s.Metadata != nil:
		a.Usage = pricing.Usage{Input: max(s.Metadata.Prompt, 0), Output: pricing.Add(max(s.Metadata.Candidates, 0), max(s.Metadata.Thoughts, 0))}
	}
	u := a.Usage
	a.Known = u.Input+u.CacheRead+u.CacheWrite > 0
	return a, nil
}
