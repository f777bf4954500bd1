package settings

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/hide"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// File is a policy file that was read. Every rule in it is valid.
type File struct {
	Path  string // as messages name it
	Data  []byte
	Net   Net
	Tasks Tasks
	Home  Home
	Hide  []string // patterns of files that a sandbox does not see
	Show  []string // and of those that it sees all the same; of the user's own file
}

// Net is what one source says of the network. What it does not say is nil.
type Net struct {
	Mode    *Setting[bailey.NetMode]
	DNS     *Setting[bailey.DNSMode]
	Ask     *Setting[bool]
	Allow   []Held
	Deny    []Held
	Presets []Setting[string]
	Key     *Setting[string] // of git over SSH: a file with the user's key; see gitEntries

	Upstream *Upstream // nil: there is none

	learn bool // of flags
}

// Setting is a value and where it was set.
type Setting[T any] struct {
	Value T
	From  string // FILE:LINE:COLUMN, a flag, or the name of a default
}

// Held is a rule and where it comes from.
type Held struct {
	policy.Rule
	From   string
	Why    string
	Preset string // the preset that it is of; empty for a rule of its own
	lent   bool   // of a secret: it is there for what else is not said of its host
}

// MaxFile bounds a policy file, in bytes.
const MaxFile = yamlfile.MaxFile

// CheckCommand tells everything that is wrong with a policy file.
const CheckCommand = "bailey policy check"

// InvalidError says what is wrong with a file.
type InvalidError = yamlfile.InvalidError

// parser holds one policy file to the schema.
type parser struct {
	*yamlfile.Parser

	rules    int  // read so far
	ruleText int  // their length, in bytes
	full     bool // they are too many, and the rest is not read
}

func newParser(file string) *parser { return &parser{Parser: yamlfile.NewParser(file)} }

// Parse reads a policy file. The error is an *InvalidError with everything
// that is wrong.
func Parse(path string, data []byte) (*File, error) { return parse(path, data, false) }

// parse is Parse for a file of the user's own, or of a project.
func parse(path string, data []byte, project bool) (*File, error) {
	p := newParser(path)
	f := &File{Path: path, Data: data}
	top := p.Document(data, root())
	if err := p.Err(); err != nil {
		return nil, err
	}
	f.Net = p.net(yamlfile.Get(top, "net"))
	if f.Net.Key != nil && project { // whoever wrote the repository would choose among the user's keys
		p.At(yamlfile.Get(top, "net"), "net.git: key: only your own file says which key is yours; leave it out here")
	}
	tasks := yamlfile.Get(top, "tasks")
	if tasks != nil && project { // whoever wrote the repository would say which others may be worked on
		p.At(tasks, "tasks: only your own file says what tasks may do; leave it out here")
	}
	if f.Net.Upstream != nil && project { // whoever wrote the repository would have all that is sent go by way of them
		p.At(yamlfile.Get(yamlfile.Get(top, "net"), "upstream"), "net.upstream: only your own file says by way of whom the network is reached; leave it out here")
	}
	f.Tasks = p.tasks(tasks)
	f.Home = p.home(yamlfile.Get(top, "home"), project)
	f.Hide = p.texts(yamlfile.Get(top, "hide"), hidePattern)
	show := yamlfile.Get(top, "show")
	if show != nil && project {
		p.At(show, "show: only your own file shows what is hidden; leave it out here, or use --show")
	}
	f.Show = p.texts(show, hidePattern)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// hidePattern says what is wrong with a pattern of hidden files.
func hidePattern(text string) error {
	_, err := hide.New([]string{text}, nil, nil)
	return err
}

// net takes the section out of a node that the schema holds good.
func (p *parser) net(n *yaml.Node) Net {
	var out Net
	if v := yamlfile.Get(n, "mode"); v != nil {
		mode, err := bailey.ParseNetMode(v.Value)
		p.Wrong(v, err)
		out.Mode = &Setting[bailey.NetMode]{mode, p.From(v)}
	}
	if v := yamlfile.Get(n, "dns"); v != nil {
		mode, err := bailey.ParseDNSMode(v.Value)
		p.Wrong(v, err)
		out.DNS = &Setting[bailey.DNSMode]{mode, p.From(v)}
	}
	if v := yamlfile.Get(n, "ask"); v != nil {
		var ask bool
		p.Wrong(v, v.Decode(&ask))
		out.Ask = &Setting[bool]{ask, p.From(v)}
	}
	for _, v := range yamlfile.Items(yamlfile.Get(n, "presets")) {
		out.Presets = append(out.Presets, Setting[string]{v.Value, p.From(v)})
	}
	for _, v := range yamlfile.Items(yamlfile.Get(n, "allow")) {
		out.Allow = append(out.Allow, p.entry(v, false)...)
	}
	for _, v := range yamlfile.Items(yamlfile.Get(n, "deny")) {
		out.Deny = append(out.Deny, p.entry(v, true)...)
	}
	p.gitEntries(yamlfile.Get(n, "git"), &out)
	out.Upstream = p.upstream(yamlfile.Get(n, "upstream"))
	if out.Mode != nil && out.Mode.Value == bailey.NetAllow && len(out.Allow)+len(out.Presets) == 0 && (out.Ask == nil || !out.Ask.Value) && p.Problems() == 0 {
		at := yamlfile.Get(n, "mode")
		if v := yamlfile.Get(n, "allow"); v != nil {
			at = v
		}
		p.At(at, "mode allow has no allow rule, so nothing could be reached; name a host in net.allow, or write mode: none")
	}
	return out
}

// entry reads one item of allow or deny. One with several ports is several
// rules.
func (p *parser) entry(n *yaml.Node, deny bool) []Held {
	if p.full {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		parse := policy.ParseRule
		if deny {
			parse = policy.ParseDenyRule
		}
		r, err := parse(n.Value)
		if p.Wrong(n, err) {
			return nil
		}
		return p.whole(n, Held{Rule: r, From: p.From(n)})
	}
	held := Held{From: p.From(n)}
	if v := yamlfile.Get(n, "why"); v != nil {
		held.Why = v.Value
	}
	if v := yamlfile.Get(n, "host-service"); v != nil {
		return p.service(n, v, held)
	}
	if deny {
		for _, name := range []string{"inspect", "dns", "git"} {
			if v := yamlfile.Get(n, name); v != nil {
				p.At(v, "%s says nothing in a deny rule; leave it out", name)
			}
		}
	}
	return p.hostEntry(n, held, deny)
}

func (p *parser) service(n, v *yaml.Node, held Held) []Held {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if name := n.Content[i]; name.Value != "host-service" && name.Value != "why" {
			p.At(name, "%s says nothing beside host-service; leave it out", name.Value)
		}
	}
	port, err := policy.CheckPort(v.Value)
	if err == nil {
		held.Rule, err = policy.ServiceRule(port)
	}
	if p.Wrong(v, err) {
		return nil
	}
	return p.whole(n, held)
}

// Bounds of one file's rules: how many, and how long they are for the process
// that keeps them, in bytes. One with several ports is several rules, each with
// all of its methods, paths and addresses.
const (
	maxRules    = 10_000
	maxRuleText = 1 << 20
)

// whole is a rule that is one.
func (p *parser) whole(n *yaml.Node, held Held) []Held {
	if !p.fits(n, held.Rule, 1) {
		return nil
	}
	return []Held{held}
}

// fits counts a rule that is there some times, and reports whether the file's
// still are within bounds.
func (p *parser) fits(n *yaml.Node, r policy.Rule, times int) bool {
	text, err := r.MarshalJSON()
	if p.Wrong(n, err) {
		return false
	}
	p.rules += times
	p.ruleText += times * len(text)
	if p.rules <= maxRules && p.ruleText <= maxRuleText {
		return true
	}
	p.full = true
	p.At(n, "the rules up to here are more than %d, or longer than %d bytes together (ports times methods, paths and addresses); name fewer", maxRules, maxRuleText)
	return false
}

func (p *parser) hostEntry(n *yaml.Node, held Held, deny bool) []Held {
	before := p.Problems()
	narrow := p.narrow(n)
	host := yamlfile.Get(n, "host")
	r, err := policy.ParseDenyRule(host.Value)
	if !deny {
		r, err = policy.ParseTarget(host.Value, narrow.Addresses)
	}
	if err == nil && !deny {
		err = policy.CheckAllow(r)
	}
	if p.Wrong(host, err) || p.Problems() > before {
		return nil
	}
	if v := yamlfile.Get(n, "addresses"); deny && v != nil && r.Host == "" {
		p.At(v, "addresses says nothing beside an address or a range; leave it out, or name a host")
		return nil
	}
	if r, err = r.With(narrow); p.Wrong(n, err) {
		return nil
	}
	held.Rule = r
	ports := yamlfile.Get(n, "ports")
	if ports == nil {
		return p.whole(n, held)
	}
	if r.Port != 0 {
		p.At(ports, "host %q has a port already; write the host alone, or leave ports out", host.Value)
		return nil
	}
	if !p.fits(n, r, len(ports.Content)) {
		return nil
	}
	var out []Held
	seen := map[uint16]bool{}
	for _, v := range ports.Content {
		port, err := policy.CheckPort(v.Value)
		p.Wrong(v, err)
		held.Port = port
		if !seen[port] {
			out = append(out, held)
		}
		seen[port] = true
	}
	return out
}

func (p *parser) narrow(n *yaml.Node) policy.Narrow {
	var out policy.Narrow
	for _, v := range yamlfile.Items(yamlfile.Get(n, "addresses")) {
		a, err := policy.ParseAddresses(v.Value)
		if !p.Wrong(v, err) {
			out.Addresses = append(out.Addresses, a)
		}
	}
	out.Methods = p.texts(yamlfile.Get(n, "methods"), policy.CheckMethod)
	out.Paths = p.texts(yamlfile.Get(n, "paths"), policy.CheckPattern)
	out.Records = p.texts(yamlfile.Get(n, "dns"), policy.CheckRecord)
	p.flag(yamlfile.Get(n, "inspect"), &out.Inspect)

	git := yamlfile.Get(n, "git")
	out.Repositories = p.texts(yamlfile.Get(git, "repositories"), policy.CheckRepository)
	p.flag(yamlfile.Get(git, "write"), &out.Push)
	for _, name := range []string{"methods", "paths"} {
		if v := yamlfile.Get(n, name); v != nil && git != nil {
			p.At(v, "%s says nothing beside git, which says which requests pass; leave it out, or write another entry for the host", name)
		}
	}
	return out
}

// texts reads a list, and says of each item what is wrong with it.
func (p *parser) texts(n *yaml.Node, check func(string) error) (out []string) {
	for _, v := range yamlfile.Items(n) {
		if !p.Wrong(v, check(v.Value)) {
			out = append(out, v.Value)
		}
	}
	return out
}

// flag reads true or false, where one is given.
func (p *parser) flag(n *yaml.Node, out *bool) {
	if n != nil {
		p.Wrong(n, n.Decode(out))
	}
}

// Flags is what was given on a command line. Each list is
// in the form that its flag takes.
type Flags struct {
	Net      string // --net; empty: not given
	Weak     bool   // Net is of the environment: a rule that is given beats it
	DNS      string // --dns; empty: not given
	Allow    []string
	Deny     []string
	Presets  []string
	Services []string // --host-service
	Ask      bool     // --ask
	Secrets  []SecretHost
	Git      []string // --git
	Learn    bool     // --learn
}

// SecretHost is a host that a secret of the run may go to.
type SecretHost struct {
	Secret string // name
	Rule   policy.Rule
}

// net reads the flags.
func (f Flags) net() (Net, error) {
	var out Net
	var err error
	if out.Mode, err = f.mode(); err != nil {
		return out, err
	}
	if f.DNS != "" {
		mode, err := bailey.ParseDNSMode(f.DNS)
		if err != nil {
			return out, flagError("--dns", err)
		}
		out.DNS = &Setting[bailey.DNSMode]{mode, "--dns"}
	}
	out.learn = f.Learn
	if f.Ask {
		out.Ask = &Setting[bool]{true, byAsk}
	}
	if out.Presets, err = f.presets(); err != nil {
		return out, err
	}
	if out.Allow, err = flagRules("--allow", f.Allow, policy.ParseRule); err != nil {
		return out, err
	}
	services, err := flagRules("--host-service", f.Services, serviceRule)
	if err != nil {
		return out, err
	}
	out.Allow = append(out.Allow, services...)
	for _, s := range f.Secrets {
		out.Allow = append(out.Allow, Held{Rule: s.Rule, From: "--secret " + s.Secret, lent: true})
	}
	git, err := flagRules("--git", f.Git, gitFlag)
	if err != nil {
		return out, err
	}
	out.Allow = append(out.Allow, git...)
	out.Deny, err = flagRules("--deny", f.Deny, policy.ParseDenyRule)
	return out, err
}

func (f Flags) presets() ([]Setting[string], error) {
	var out []Setting[string]
	for _, name := range f.Presets {
		if !slices.Contains(PresetNames(), name) {
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--preset: there is no preset %q", name), spell.DidYouMean(name, PresetNames()))
		}
		out = append(out, Setting[string]{name, "--preset"})
	}
	return out, nil
}

func serviceRule(s string) (policy.Rule, error) {
	port, err := policy.CheckPort(s)
	if err != nil {
		return policy.Rule{}, err
	}
	return policy.ServiceRule(port)
}

// mode reads the mode of the flags, or nil.
func (f Flags) mode() (*Setting[bailey.NetMode], error) {
	if f.Net == "" {
		return nil, nil //nolint:nilnil // none is an answer
	}
	mode, err := bailey.ParseNetMode(f.Net)
	switch {
	case err != nil && f.Weak:
		return nil, flagError(byEnvironment+" in the environment", err)
	case err != nil:
		return nil, flagError("--net", err)
	case !f.Weak:
		return &Setting[bailey.NetMode]{mode, "--net"}, nil
	case len(f.Allow)+len(f.Presets)+len(f.Services)+len(f.Secrets)+len(f.Git) > 0: // who names hosts now means those, and no more
		return &Setting[bailey.NetMode]{bailey.NetAllow, byAllow}, nil
	case f.Ask:
		return &Setting[bailey.NetMode]{bailey.NetAllow, byAsk}, nil
	}
	return &Setting[bailey.NetMode]{mode, byEnvironment}, nil
}

// asking is a flag that asks for a network, or "".
func (f Flags) asking() string {
	switch {
	case len(f.Allow) > 0:
		return byAllow
	case len(f.Services) > 0:
		return "--host-service"
	case len(f.Presets) > 0:
		return "--preset"
	case len(f.Secrets) > 0:
		return "--secret"
	case len(f.Git) > 0:
		return "--git"
	case f.Learn:
		return byLearn
	case f.Ask:
		return byAsk
	case f.Net != "" && f.Net != bailey.NetNone.String() && !f.Weak:
		return "--net " + f.Net
	}
	return ""
}

func flagRules(flag string, list []string, parse func(string) (policy.Rule, error)) ([]Held, error) {
	var out []Held
	for _, s := range list {
		r, err := parse(s)
		if err != nil {
			return nil, flagError(flag, err)
		}
		out = append(out, Held{Rule: r, From: flag})
	}
	return out, nil
}

// flagError puts the flag's name before an error's message and keeps its hint.
func flagError(flag string, err error) error {
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		return &bailey.Error{Kind: e.Kind, Message: flag + ": " + e.Message, Hint: e.Hint, Cause: e.Cause}
	}
	return fmt.Errorf("%s: %w", flag, err)
}
