package models

import (
	"encoding/json"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/spell"
)

// Config is a file of models that was read. Everything in it is valid.
type Config struct {
	Path    string // as messages name it
	Default string // the model of a run that names none; empty: there is none
	Budget  Budget // over all models
	Models  []Model
}

// Budget is what may be used: by one task, and in one day (UTC).
type Budget struct {
	Task budget.Limit `json:"task,omitzero"`
	Day  budget.Limit `json:"day,omitzero"`
}

// None reports whether there is none.
func (b Budget) None() bool { return b.Task.None() && b.Day.None() }

// money reports whether it has a limit in money.
func (b Budget) money() bool { return b.Task.Money != 0 || b.Day.Money != 0 }

// Provider is a server that answers for models.
type Provider struct {
	Name         string
	Kind         Kind
	Base         string // an address without a slash at its end
	Secret       string // the name of its key; empty: it needs none
	InsecureHTTP bool   // it is asked without TLS though it is not on this machine
	From         string // FILE:LINE:COLUMN

	keyFrom string
}

// Model is one model.
type Model struct {
	ID          string // bailey's
	Name        string // the provider's
	Provider    Provider
	Dialect     gateway.Dialect
	Context     int64          // tokens; 0: not said
	MaxOutput   int64          // tokens; 0: not said
	MaxAgents   int            // how many runs may use it at once; 0: any number
	Price       *pricing.Price // nil: there is none
	Budget      Budget
	Drop        []string
	Rename      map[string]string
	Extra       map[string]json.RawMessage
	Description string
	From        string // FILE:LINE:COLUMN
}

// Pin is the model as the gateway's dialects need it.
func (m *Model) Pin() gateway.Pin {
	return gateway.Pin{ID: m.ID, Name: m.Name, Dialect: m.Dialect, MaxOutput: m.MaxOutput, Context: m.Context, Drop: m.Drop, Rename: m.renames(), Extra: m.Extra}
}

// renames are the parameters that are sent under another name. Clients of Chat
// Completions say max_completion_tokens, which OpenAI's newer models alone want
// and other servers may not know; all of those know max_tokens.
func (m *Model) renames() map[string]string {
	const now, before = "max_completion_tokens", "max_tokens"
	_, said := m.Rename[now]
	_, saidBefore := m.Rename[before]
	if m.Dialect != gateway.OpenAIChat || m.Provider.Kind == OpenAI || said || saidBefore {
		return m.Rename
	}
	out := map[string]string{now: before}
	maps.Copy(out, m.Rename)
	return out
}

// Names lists the models, in the order of the file.
func (c *Config) Names() []string {
	var out []string
	for i := range c.Models {
		out = append(out, c.Models[i].ID)
	}
	return out
}

// Find returns a model by its name, and for no name the one that is meant
// without one. Of no file there is none.
func (c *Config) Find(name string) (*Model, error) {
	if c == nil { // as Load returns it where there is no file
		return nil, bailey.NewError(bailey.NotFound, "there are no models: there is no "+FileName, WriteHint)
	}
	if name == "" {
		if c.Default == "" {
			return nil, bailey.NewError(bailey.Invalid, "no model was named, and "+c.Path+" has no default", "name one of "+strings.Join(c.Names(), ", ")+", or write default: NAME there")
		}
		name = c.Default
	}
	for i := range c.Models {
		if c.Models[i].ID == name {
			return &c.Models[i], nil
		}
	}
	for i := range c.Models {
		if m := &c.Models[i]; m.Name == name {
			return nil, bailey.NewError(bailey.NotFound, "there is no model "+bounded(name)+" in "+c.Path, bounded(name)+" is the provider's name for "+m.ID+": write "+m.ID)
		}
	}
	return nil, bailey.NewError(bailey.NotFound, "there is no model "+bounded(name)+" in "+c.Path, spell.DidYouMean(name, c.Names()))
}

// Limits are the limits of calls of a model in a run with a budget of its own.
// A budget in money needs a price.
func (c *Config) Limits(m *Model, run budget.Limit) (budget.Limits, error) {
	if run.Money != 0 && m.Price == nil {
		return budget.Limits{}, bailey.NewError(bailey.Invalid, "the budget is in money, and the model "+m.ID+" has no price", "give a budget in tokens, such as 2M, or write the model's price in "+c.Path)
	}
	return budget.Limits{Run: run, ModelTask: m.Budget.Task, ModelDay: m.Budget.Day, Task: c.Budget.Task, Day: c.Budget.Day}, nil
}

// version is the last segment of an address that names a version of an API.
var version = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/v[0-9]+(?:[a-z]+[0-9]*)?$`) })

// Auth is how the provider's key stands in a request.
func (p *Provider) Auth() Auth { return traitsOf(p.Kind).auth }

// URL is the address of a dialect's target, such as "/v1/messages". A base may
// have the version of its API at its end or not: it is there once, and the
// base's is the one that stands.
func (p *Provider) URL(target string) string {
	if version().MatchString(p.Base) {
		if first, rest, more := strings.Cut(strings.TrimPrefix(target, "/"), "/"); more && version().MatchString("/"+first) {
			return p.Base + "/" + rest
		}
	}
	return p.Base + target
}

// Loopback reports whether the provider is on this machine.
func (p *Provider) Loopback() bool {
	u, err := url.Parse(p.Base)
	return err == nil && isLoopback(u.Hostname())
}

// HostPort is where it is connected to.
func (p *Provider) HostPort() (host, port string) {
	u, err := url.Parse(p.Base)
	if err != nil {
		return "", ""
	}
	port = u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Hostname(), port
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

func bounded(name string) string {
	const most = 64
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}

// idForm is what names a model or a provider.
var idForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$`) })

const idHelp = "1 to 64 lower-case letters and digits, with hyphens, underscores and dots inside"

func dialectNames(list []gateway.Dialect) []string {
	var out []string
	for _, d := range list {
		out = append(out, string(d))
	}
	return out
}

func allDialects() []string {
	return dialectNames([]gateway.Dialect{gateway.Anthropic, gateway.OpenAIResponses, gateway.OpenAIChat, gateway.Gemini})
}

// speaks reports whether a kind speaks a dialect.
func (k Kind) speaks(d gateway.Dialect) bool { return slices.Contains(k.Dialects(), d) }
