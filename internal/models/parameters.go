package models

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// kept are the parameters that the gateway itself answers for: which model it
// is, what is asked, how much is answered and how often.
func kept() []string {
	return []string{
		"model", "messages", "input", "contents", "stream", "stream_options",
		"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "n", "candidateCount",
	}
}

// bounds are those of kept that a model may want under another name.
func bounds() []string { return []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} }

func checkParameter(name string) error {
	if name == "" || len(name) > longestName || !plain(name) {
		return bailey.NewError(bailey.Invalid, "that is no name of a parameter", "write it as the provider's documentation has it")
	}
	return nil
}

func checkFree(name, verb string) error {
	if err := checkParameter(name); err != nil {
		return err
	}
	if slices.Contains(kept(), name) {
		fix := "leave it out"
		if strings.HasPrefix(name, "max") {
			fix += "; max_output bounds what is answered"
		}
		return bailey.NewError(bailey.Invalid, name+" is the gateway's own, and cannot be "+verb, fix)
	}
	return nil
}

// parameters reads drop, rename and extra.
func (p *parser) parameters(m *Model, n *yamlfile.Node) {
	for _, v := range yamlfile.Items(yamlfile.Get(n, "drop")) {
		p.Wrong(v, checkFree(v.Value, "dropped"))
		if slices.Contains(m.Drop, v.Value) {
			p.At(v, "drop names %q twice; leave one", bounded(v.Value))
		}
		m.Drop = append(m.Drop, v.Value)
	}
	p.rename(m, yamlfile.Get(n, "rename"))
	p.extra(m, yamlfile.Get(n, "extra"))
}

func (p *parser) rename(m *Model, n *yamlfile.Node) {
	if n == nil {
		return
	}
	m.Rename = map[string]string{}
	var taken []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, to := n.Content[i], n.Content[i+1]
		if !slices.Contains(bounds(), name.Value) {
			p.Wrong(name, checkFree(name.Value, "renamed"))
		}
		if !slices.Contains(bounds(), name.Value) || !slices.Contains(bounds(), to.Value) {
			p.Wrong(to, checkFree(to.Value, "what another is renamed to"))
		}
		switch {
		case slices.Contains(m.Drop, name.Value):
			p.At(name, "%q is dropped; leave one of the two out", bounded(name.Value))
		case slices.Contains(taken, to.Value):
			p.At(to, "two parameters are renamed to %q", bounded(to.Value))
		}
		taken = append(taken, to.Value)
		m.Rename[name.Value] = to.Value
	}
}

func (p *parser) extra(m *Model, n *yamlfile.Node) {
	if n == nil {
		return
	}
	m.Extra = map[string]json.RawMessage{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		p.Wrong(name, checkFree(name.Value, "added"))
		for _, to := range m.Rename {
			if to == name.Value {
				p.At(name, "%q is what another is renamed to, and stands there already", bounded(name.Value))
			}
		}
		text, err := yamlfile.AsJSON(value)
		p.Wrong(value, err)
		if err == nil && name.Value == "generationConfig" {
			p.inner(value)
		}
		m.Extra[name.Value] = text
	}
}

// inner holds what Gemini has one level lower to the same.
func (p *parser) inner(n *yamlfile.Node) {
	for _, name := range kept() {
		if v := yamlfile.Get(n, name); v != nil && strings.ContainsAny(name, "OC") {
			p.Wrong(v, checkFree(name, "added"))
		}
	}
}
