package models

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// FileName is the file's, in the user's own folder of settings.
const FileName = "models.yaml"

// CheckCommand tells everything that is wrong with the file.
const CheckCommand = "bailey models check"

// maxAgents bounds how many runs may use a model at once.
const maxAgents = 1000

// Load reads the file of a folder of settings; nil: there is none. It is
// refused where it is reached by way of the folder that is worked in, if one is
// named: a sandbox could send the user's keys elsewhere. The error about what
// the file says is a *yamlfile.InvalidError.
func Load(configDir, workspace string) (*Config, error) {
	path := filepath.Join(configDir, FileName)
	if workspace != "" {
		if at := yamlfile.Through(path, workspace); at != "" {
			return nil, bailey.NewError(bailey.Forbidden,
				fmt.Sprintf("%s is reached by way of %s, in the folder that is worked in: a sandbox could rewrite there where your keys go", path, at),
				fmt.Sprintf("put the file itself in %s in place of the link, or work in another folder", configDir))
		}
	}
	data, err := yamlfile.ReadOwn(path, "file of models")
	if err != nil || data == nil {
		return nil, err
	}
	return Parse(path, data)
}

// parser holds one file to the schema and to what it means.
type parser struct {
	*yamlfile.Parser
	providers map[string]Provider
	broken    map[string]bool // providers about which something was said
	wholeCost *yamlfile.Node  // a budget in money over all models
}

// Parse reads a file of models. The error is a *yamlfile.InvalidError with
// everything that is wrong.
func Parse(path string, data []byte) (*Config, error) {
	p := &parser{Parser: yamlfile.NewParser(path), providers: map[string]Provider{}, broken: map[string]bool{}}
	top := p.Document(data, root())
	if err := p.Err(); err != nil {
		return nil, err
	}
	if top == nil {
		p.Add(1, 1, "the file says nothing; write providers and models, or remove it (bailey models example prints one)")
		return nil, p.Err()
	}
	c := &Config{Path: path}
	at := yamlfile.Get(top, "budget")
	if c.Budget = p.budget(at); c.Budget.money() {
		p.wholeCost = at
	}
	providers, list := yamlfile.Get(top, "providers"), yamlfile.Get(top, "models")
	for i := 0; i+1 < len(providers.Content); i += 2 {
		p.provider(providers.Content[i], providers.Content[i+1])
	}
	for i := 0; i+1 < len(list.Content); i += 2 {
		c.Models = append(c.Models, p.model(list.Content[i], list.Content[i+1]))
	}
	p.whole(c, top, list)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// whole is what holds for the file as a whole.
func (p *parser) whole(c *Config, top, list *yamlfile.Node) {
	if len(c.Models) == 0 {
		p.At(list, "models is empty; name one, or remove the file")
	}
	switch v := yamlfile.Get(top, "default"); {
	case v != nil && !slices.Contains(c.Names(), v.Value):
		p.At(v, "default: there is no model %q; %s", bounded(v.Value), spell.DidYouMean(v.Value, c.Names()))
	case v != nil:
		c.Default = v.Value
	case len(c.Models) == 1:
		c.Default = c.Models[0].ID
	}
}

func (p *parser) provider(name, n *yamlfile.Node) {
	before := p.Problems()
	out := Provider{Name: name.Value, Kind: Kind(yamlfile.Get(n, "kind").Value), From: p.From(name)}
	if v := yamlfile.Get(n, "insecure_http"); v != nil {
		p.Wrong(v, v.Decode(&out.InsecureHTTP))
	}
	out.Base = traitsOf(out.Kind).base
	if v := yamlfile.Get(n, "base_url"); v != nil {
		var err error
		if out.Base, err = checkBase(v.Value, out.InsecureHTTP); p.Wrong(v, err) {
			out.Base = ""
		}
	} else if out.Base == "" {
		p.At(name, "provider %s: a server of kind %s has no usual address; write base_url", out.Name, out.Kind)
	}
	if v := yamlfile.Get(n, "insecure_http"); v != nil && out.InsecureHTTP && strings.HasPrefix(out.Base, "https:") {
		p.At(v, "insecure_http says nothing beside an address with https; leave it out")
	}
	if v := yamlfile.Get(yamlfile.Get(n, "key"), "secret"); v != nil {
		if secret.CheckName(v.Value) != nil || likeKey(v.Value) {
			p.At(v, "providers.%s.key.secret: that cannot name a secret; %s", out.Name, keyHint)
		}
		out.Secret, out.keyFrom = v.Value, p.From(v)
	}
	p.providers[out.Name] = out
	p.broken[out.Name] = p.Problems() > before
}

// likeKey reports whether a text that could name a secret is more likely one:
// it begins as keys do, or has a long word of digits and letters.
func likeKey(s string) bool {
	const long = 20
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		if len(word) >= long && strings.ContainsAny(word, "0123456789") {
			return true
		}
	}
	return strings.HasPrefix(s, "sk-") || strings.HasPrefix(s, "sk_")
}

func (p *parser) model(name, n *yamlfile.Node) Model {
	m := Model{ID: name.Value, Name: name.Value, From: p.From(name)}
	known := p.modelProvider(&m, n)
	if v := yamlfile.Get(n, "name"); v != nil {
		m.Name = v.Value
		p.Wrong(v, checkText(v.Value, longestName))
	}
	if v := yamlfile.Get(n, "description"); v != nil {
		m.Description = v.Value
		p.Wrong(v, checkText(v.Value, longestDescription))
	}
	if known {
		p.dialect(&m, n)
	}
	at := "models." + m.ID + "."
	p.tokens(at+"context", yamlfile.Get(n, "context"), &m.Context)
	p.tokens(at+"max_output", yamlfile.Get(n, "max_output"), &m.MaxOutput)
	var agents int64
	p.number(yamlfile.Get(n, "max_agents"), &agents)
	m.MaxAgents = int(agents)
	if v := yamlfile.Get(n, "max_output"); m.Context != 0 && m.MaxOutput > m.Context {
		p.At(v, "max_output is more than context; write less")
	}
	p.price(&m, n)
	p.modelBudget(&m, name, n)
	p.parameters(&m, n)
	return m
}

// modelProvider reports whether the provider is known and good.
func (p *parser) modelProvider(m *Model, n *yamlfile.Node) bool {
	v := yamlfile.Get(n, "provider")
	found, ok := p.providers[v.Value]
	if !ok {
		var names []string
		for name := range p.providers {
			names = append(names, name)
		}
		slices.Sort(names)
		p.At(v, "there is no provider %q in providers; %s", bounded(v.Value), spell.DidYouMean(v.Value, names))
		return false
	}
	m.Provider = found
	return !p.broken[v.Value]
}

func (p *parser) dialect(m *Model, n *yamlfile.Node) {
	m.Dialect = m.Provider.Kind.Dialects()[0]
	v := yamlfile.Get(n, "dialect")
	if v == nil {
		return
	}
	m.Dialect = gateway.Dialect(v.Value)
	if !m.Provider.Kind.speaks(m.Dialect) {
		p.At(v, "a provider of kind %s does not speak %s; it speaks %s", m.Provider.Kind, v.Value, strings.Join(dialectNames(m.Provider.Kind.Dialects()), ", "))
	}
}

// number reads a number that the schema holds good.
func (p *parser) number(n *yamlfile.Node, to *int64) {
	if n != nil {
		p.Wrong(n, n.Decode(to))
	}
}

// tokens reads a number of tokens, such as 200000, 200k or 1M.
func (p *parser) tokens(where string, n *yamlfile.Node, to *int64) {
	const most = 1_000_000_000
	if n == nil {
		return
	}
	v, err := budget.ParseTokens(n.Value)
	if err != nil || v < 1 || v > most {
		p.At(n, "%s: %q is not a number of tokens; write one from 1 to 1000M, such as 200000, 200k or 1M", where, bounded(n.Value))
		return
	}
	*to = v
}

// Lengths of texts, in bytes.
const (
	longestName        = 200
	longestDescription = 500
)

// checkText refuses what does not fit on a line of its own.
func checkText(s string, most int) error {
	if len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("it is longer than %d bytes, or holds a control character", most), "write a shorter one")
	}
	return nil
}
