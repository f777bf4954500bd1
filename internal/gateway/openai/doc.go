// Package openai speaks OpenAI's two dialects, Responses and Chat Completions,
// which most other providers and the local servers (Ollama, vLLM, llama.cpp)
// speak too.
//
// A request is rebuilt from what responses.yaml and chat.yaml list. Tools that
// run at the provider's are taken out wherever they stand; what refers to state
// or files kept there is taken out or refused, and nothing is stored. It is
// pure: only the gateway's server dials.
package openai
