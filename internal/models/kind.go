package models

import (
	"net/http"
	"slices"

	"github.com/bailey-dev/bailey/internal/gateway"
)

// Kind is what sort of server a provider is: it sets the dialects that it
// speaks, their paths, and the field that the key stands in.
type Kind string

// The kinds.
const (
	Anthropic        Kind = "anthropic"
	OpenAI           Kind = "openai"
	Gemini           Kind = "gemini"
	Ollama           Kind = "ollama"
	VLLM             Kind = "vllm"
	LlamaCpp         Kind = "llamacpp"
	OpenAICompatible Kind = "openai-compatible"
)

// traits are what a kind has.
type traits struct {
	kind     Kind
	base     string            // where the service is; empty: it is nowhere in particular
	dialects []gateway.Dialect // the first is meant where a model names none
	auth     Auth
}

func kinds() []traits {
	local := []gateway.Dialect{gateway.OpenAIChat, gateway.OpenAIResponses, gateway.Anthropic}
	return []traits{
		{Anthropic, "https://api.anthropic.com", []gateway.Dialect{gateway.Anthropic}, Auth{Header: "X-Api-Key"}},
		{OpenAI, "https://api.openai.com/v1", []gateway.Dialect{gateway.OpenAIResponses, gateway.OpenAIChat}, bearer()},
		{Gemini, "https://generativelanguage.googleapis.com", []gateway.Dialect{gateway.Gemini}, Auth{Header: "X-Goog-Api-Key"}},
		{Ollama, "http://127.0.0.1:11434", local, bearer()},
		{VLLM, "http://127.0.0.1:8000", local, bearer()},
		{LlamaCpp, "http://127.0.0.1:8080", local, bearer()},
		{OpenAICompatible, "", []gateway.Dialect{gateway.OpenAIChat, gateway.OpenAIResponses}, bearer()},
	}
}

func traitsOf(k Kind) traits {
	all := kinds()
	if i := slices.IndexFunc(all, func(t traits) bool { return t.kind == k }); i >= 0 {
		return all[i]
	}
	return traits{}
}

// Kinds lists the kinds of providers.
func Kinds() []Kind {
	var out []Kind
	for _, t := range kinds() {
		out = append(out, t.kind)
	}
	return out
}

// Dialects lists the dialects that a kind speaks, the usual one first.
func (k Kind) Dialects() []gateway.Dialect { return traitsOf(k).dialects }

// Auth is how a key stands in a request.
type Auth struct {
	Header string // in the canonical form
	Prefix string // before the key, such as "Bearer "
}

func bearer() Auth { return Auth{Header: "Authorization", Prefix: "Bearer "} }

// Put sets a key in the fields of a request, and no other credential stays.
func (a Auth) Put(h http.Header, key []byte) {
	for _, t := range kinds() {
		h.Del(t.auth.Header)
	}
	if a.Header != "" && len(key) > 0 {
		h.Set(a.Header, a.Prefix+string(key))
	}
}
