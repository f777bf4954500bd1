package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// gemini is the generateContent dialect
// (POST /v1beta/models/MODEL:streamGenerateContent?alt=sse).
type gemini struct {
	model  string
	stream bool
}

func isGemini(path string) bool { return strings.HasPrefix(path, "/v1beta/") }

// dispatchGemini answers a request below /v1beta, and reports whether it was
// one.
func (s *Server) dispatchGemini(w *stream, body []byte) bool {
	r := w.r
	if !isGemini(r.URL.Path) {
		return false
	}
	model, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	switch {
	case r.Method == http.MethodPost && verb == "generateContent":
		s.talk(w, gemini{model: model}, body)
	case r.Method == http.MethodPost && verb == "streamGenerateContent" && r.URL.Query().Get("alt") == "sse":
		s.talk(w, gemini{model: model, stream: true}, body)
	case r.Method == http.MethodPost && verb == "countTokens":
		reply(w, map[string]any{"totalTokens": Count(body)})
	case r.Method == http.MethodGet && r.URL.Path == "/v1beta/models":
		reply(w, map[string]any{"models": []any{map[string]any{
			"name": "models/scripted-1", "displayName": "Scripted", "supportedGenerationMethods": []string{"generateContent"},
		}}})
	default:
		fail(w, http.StatusNotFound, "not_found", "no such endpoint: "+r.URL.RequestURI())
	}
	return true
}

type geminiPart struct {
	FunctionResponse *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

func (g gemini) parse(body []byte) (ask, error) {
	var req struct {
		Tools []struct {
			FunctionDeclarations []struct {
				Name                 string `json:"name"`
				Parameters           schema `json:"parameters"`
				ParametersJSONSchema schema `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		Contents []struct {
			Parts []geminiPart `json:"parts"`
		} `json:"contents"`
		GenerationConfig struct {
			ResponseMIMEType string `json:"responseMimeType"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return ask{}, fmt.Errorf("read generateContent request: %w", err)
	}
	a := ask{Model: g.model, Stream: g.stream, Results: map[string]Result{}}
	a.Form = req.GenerationConfig.ResponseMIMEType == "application/json"
	for _, t := range req.Tools {
		for _, f := range t.FunctionDeclarations {
			a.Tools = append(a.Tools, tool{Name: f.Name, Params: append(f.Parameters.names(), f.ParametersJSONSchema.names()...)})
		}
	}
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			if r := p.FunctionResponse; r != nil {
				a.Results[r.ID] = geminiResult(r.Response)
			}
		}
	}
	return a, nil
}

// geminiResult reads a function's response: an object whose "output" or
// "error" is what counts, if it has one.
func geminiResult(raw json.RawMessage) Result {
	var named struct {
		Output *string `json:"output"`
		Error  *string `json:"error"`
	}
	if json.Unmarshal(raw, &named) == nil {
		switch {
		case named.Error != nil:
			return Result{Output: *named.Error, IsError: true}
		case named.Output != nil:
			return Result{Output: *named.Output}
		}
	}
	return Result{Output: string(raw)}
}

func (u Usage) gemini() map[string]any {
	if u.Missing {
		return nil
	}
	prompt := u.Input + u.CacheRead + u.CacheWrite
	m := map[string]any{
		"promptTokenCount": prompt, "candidatesTokenCount": u.Output - u.Reasoning, "totalTokenCount": prompt + u.Output,
	}
	if u.CacheRead != 0 {
		m["cachedContentTokenCount"] = u.CacheRead
	}
	if u.Reasoning != 0 {
		m["thoughtsTokenCount"] = u.Reasoning
	}
	return m
}

func (g gemini) send(w *stream, a ask, t spoken) error {
	var parts []any
	if t.text != "" {
		parts = append(parts, map[string]any{"text": t.text})
	}
	for _, c := range t.calls {
		parts = append(parts, map[string]any{
			"functionCall": map[string]any{"id": c.ID, "name": c.Name, "args": json.RawMessage(c.Input)},
		})
	}
	chunk := func(parts []any, finish string, u Usage) map[string]any {
		candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		m := map[string]any{"candidates": []any{candidate}, "modelVersion": a.Model, "responseId": "scripted"}
		if counts := u.gemini(); counts != nil {
			m["usageMetadata"] = counts
		}
		return m
	}
	if !a.Stream {
		reply(w, chunk(parts, "STOP", t.usage))
		return w.err
	}
	for _, p := range parts {
		w.event("", chunk([]any{p}, "", t.usage.first()))
	}
	w.end("", chunk([]any{map[string]any{"text": ""}}, "STOP", t.usage))
	return w.err
}
