package settings

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/bailey-dev/bailey"
)

// kind is what a value of a file is.
type kind uint8

const (
	text kind = iota
	number
	flag
	list
	mapping
	entry // text, or a mapping
)

// spec says what a value may be. The parser and the published schema are both
// drawn from it.
type spec struct {
	kind  kind
	help  string
	enum  []string
	item  *spec    // of a list
	keys  []key    // of a mapping, or of an entry's
	least int      // of a list: how many items it has
	oneOf []string // keys of which a mapping has exactly one
}

type key struct {
	name string
	spec *spec
}

func (s *spec) find(name string) *spec {
	if i := slices.IndexFunc(s.keys, func(k key) bool { return k.name == name }); i >= 0 {
		return s.keys[i].spec
	}
	return nil
}

func (s *spec) names() []string {
	out := make([]string, len(s.keys))
	for i, k := range s.keys {
		out[i] = k.name
	}
	return out
}

// root is a whole file.
func root() *spec {
	var modes []string
	for _, m := range bailey.NetModes() {
		modes = append(modes, m.String())
	}
	return &spec{kind: mapping, help: "What sandboxes may do.", keys: []key{
		{"net", &spec{kind: mapping, help: "What a sandbox may reach.", keys: []key{
			{"mode", &spec{kind: text, enum: modes, help: "How far the network reaches: nothing; what allow and presets name; any public address; private ranges too. Without it: none, or allow when there is a rule."}},
			{"allow", &spec{kind: list, item: rule("Lets a sandbox reach this."), help: "Hosts that may be reached."}},
			{"deny", &spec{kind: list, item: rule("Never lets a sandbox reach this."), help: "Hosts that are never reached, whatever allows them."}},
			{"presets", &spec{kind: list, item: &spec{kind: text, enum: PresetNames(), help: "The name of a preset."}, help: "Lists of hosts by name (bailey policy presets)."}},
			{"ask", &spec{kind: flag, help: "Ask a person about hosts that no rule names, in place of refusing them."}},
			{"dns", &spec{kind: text, enum: []string{bailey.DNSRules.String(), bailey.DNSOpen.String()}, help: "Which names are answered: those that the rules allow, or all. Connections stay ruled."}},
		}}},
	}}
}

func rule(help string) *spec {
	some := func(help string, item *spec) *spec { return &spec{kind: list, least: 1, item: item, help: help} }
	return &spec{
		kind: entry, oneOf: []string{"host", "host-service"},
		help: help + " HOST, HOST:PORT or *.SUFFIX, or a mapping that says more. No port means 80 and 443, and in deny every port. In deny a range of addresses (11.0.0.0/24) too.",
		keys: []key{
			{"host", &spec{kind: text, help: "A host name, *.SUFFIX for every name below it, or an IP address; in deny a range of addresses too."}},
			{"ports", some("Ports.", &spec{kind: number, help: "1 to 65535."})},
			{"addresses", some("Addresses and ranges (10.1.0.0/16) that the name may resolve to; the way to reach private ones. In deny: where the name is denied, and it is not elsewhere.", &spec{kind: text, help: "An address or a range."})},
			{"methods", some("Methods of HTTP requests that the rule is about.", &spec{kind: text, help: "In capitals, such as GET."})},
			{"paths", some("Paths of HTTP requests that the rule is about.", &spec{kind: text, help: "Such as /v1/models; a star is any one segment, and at the end everything below."})},
			{"git", &spec{kind: mapping, oneOf: []string{"repositories"}, help: "Git over HTTP(S) with some repositories of the host, and nothing else of it.", keys: []key{
				{"repositories", some("Repositories that may be fetched from.", &spec{kind: text, help: "Such as owner/name, without .git."})},
				{"write", &spec{kind: flag, help: "Push to them too."}},
			}}},
			{"inspect", &spec{kind: flag, help: "Open TLS to this host, so that each request is seen, and a hidden second name."}},
			{"dns", some("DNS records of the host that are answered besides its addresses.", &spec{kind: text, help: "TXT, or the service of an SRV record such as _imap._tcp."})},
			{"why", &spec{kind: text, help: "What the rule is for."}},
			{"host-service", &spec{kind: number, help: "In place of host: the port of a service on this machine's loopback, reached as host.bailey.internal:PORT."}},
		},
	}
}

// Schema returns the JSON Schema of a policy file.
func Schema() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	top := root().schema()
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = "bailey.yaml"
	err := enc.Encode(top)
	return out.Bytes(), err
}

func (s *spec) schema() map[string]any {
	out := map[string]any{"description": s.help}
	switch s.kind {
	case text:
		out["type"] = "string"
		if len(s.enum) > 0 {
			out["enum"] = s.enum
		} else {
			out["minLength"] = 1
		}
	case number:
		out["type"], out["minimum"], out["maximum"] = "integer", 1, 65535
	case flag:
		out["type"] = "boolean"
	case list:
		out["type"], out["items"] = "array", s.item.schema()
		if s.least > 0 {
			out["minItems"] = s.least
		}
	case mapping:
		s.object(out)
	case entry:
		inner := map[string]any{}
		s.object(inner)
		out["oneOf"] = []any{map[string]any{"type": "string", "minLength": 1}, inner}
	}
	return out
}

func (s *spec) object(out map[string]any) {
	properties := map[string]any{}
	for _, k := range s.keys {
		properties[k.name] = k.spec.schema()
	}
	out["type"], out["properties"], out["additionalProperties"] = "object", properties, false
	if len(s.oneOf) > 0 {
		var choices []any
		for _, name := range s.oneOf {
			choices = append(choices, map[string]any{"required": []string{name}})
		}
		out["oneOf"] = choices
	}
}
