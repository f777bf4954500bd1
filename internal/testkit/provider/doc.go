// Package provider is a scripted model server for tests: it speaks Anthropic
// Messages, OpenAI Responses, OpenAI Chat Completions and Gemini's
// generateContent well enough for real coding agents to work against it, tells
// them turn by turn which tools to call, and records every request and every
// tool's result.
//
// A [Server] is an http.Handler: a test serves it over HTTP or TLS, under any
// name. It never thinks, never calls out, and may be imported by tests only.
//
// The script is not consumed by counting requests. Which turn comes next is
// read from the results and the words that the request carries, so a retry, a
// side request (a title, a probe, a summary) or a second agent on the same
// server changes nothing. A [Turn] may also say what it used, however odd, set
// fields of the answer's header, and go wrong in one way ([Fault]).
package provider
