package cli

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/settings"
)

// ruleFlags say where a value may go.
type ruleFlags struct {
	Host     []string `placeholder:"HOST[:PORT]" sep:"none" help:"A host that the value is for, or *.HOST for the names below it. No port means 443. Repeatable." group:"Where it may go"`
	Header   text     `placeholder:"NAME" xor:"place" help:"It stands in this header. Default: Authorization." group:"Where it may go"`
	Format   text     `placeholder:"TEXT" help:"What the header says, with {} for the value. Default: Bearer {} in Authorization, {} in another." group:"Where it may go"`
	Basic    *string  `placeholder:"USER" xor:"place" help:"It is the password of Basic authentication for this user." group:"Where it may go"`
	Query    text     `placeholder:"KEY" xor:"place" help:"It is the value of this key of the query." group:"Where it may go"`
	Cookie   text     `placeholder:"NAME" xor:"place" help:"It is the value of this cookie." group:"Where it may go"`
	Path     []string `placeholder:"PREFIX" sep:"none" help:"For paths below this one alone, such as /api/v1. Repeatable." group:"Where it may go"`
	Method   []string `placeholder:"METHOD" sep:"none" help:"For this method alone, such as GET. Repeatable." group:"Where it may go"`
	Var      text     `placeholder:"VARIABLE" help:"The variable that holds the placeholder in a sandbox. Default: the template's, or the name in capitals." group:"Where it may go"`
	Template text     `placeholder:"TEMPLATE" help:"Take hosts, places and variable of a well-known service; --host names others in place of its own." group:"Where it may go"`
	For      text     `placeholder:"gateway" help:"For the model gateway alone: no host." group:"Where it may go"`
}

// any reports whether a flag was given.
func (f *ruleFlags) any() bool {
	return f.Var != "" || f.Template != "" || f.For != "" || f.ruled()
}

// ruled reports whether a flag was given that a rule is made of.
func (f *ruleFlags) ruled() bool { return len(f.Host) > 0 || f.placed() || f.narrowed() }

func (f *ruleFlags) placed() bool {
	return f.Header != "" || f.Format != "" || f.Basic != nil || f.Query != "" || f.Cookie != ""
}

func (f *ruleFlags) narrowed() bool { return len(f.Path) > 0 || len(f.Method) > 0 }

// create fills in a new secret.
func (f *ruleFlags) create(d *secret.Definition) error {
	if f.For == "" && f.Template == "" {
		if len(f.Host) == 0 {
			return bailey.NewError(bailey.Invalid, "nothing says where the value may go", "name its hosts (--host api.example.com), a template (--template github), or --for gateway")
		}
		d.Rules = []secret.Rule{{Place: secret.Place{Kind: secret.Header, Name: "Authorization", Format: "Bearer {}"}}}
	}
	return f.change(d)
}

// change puts what was named in place of what was.
func (f *ruleFlags) change(d *secret.Definition) error {
	if f.Var != "" {
		if err := secret.CheckVariable(string(f.Var)); err != nil {
			return err
		}
		d.Var = string(f.Var)
	}
	switch {
	case f.For != "":
		return f.gateway(d)
	case f.Template != "":
		return f.template(d)
	case !f.ruled():
		return nil
	case len(d.Rules) > 1:
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s has %d rules, of the template %s", d.Name, len(d.Rules), d.Template), "--template names one again, with --host for other hosts; a rule of your own takes a secret of its own")
	}
	var r secret.Rule
	if len(d.Rules) == 1 {
		r = d.Rules[0]
	} else {
		r.Place = secret.Place{Kind: secret.Header, Name: "Authorization", Format: "Bearer {}"}
	}
	if err := f.rule(&r); err != nil {
		return err
	}
	d.Rules, d.Gateway, d.Template = []secret.Rule{r}, false, ""
	return nil
}

func (f *ruleFlags) gateway(d *secret.Definition) error {
	if f.For != "gateway" {
		return bailey.NewError(bailey.Invalid, "--for knows gateway alone", "--for gateway, or name hosts with --host")
	}
	if f.Template != "" || f.ruled() {
		return bailey.NewError(bailey.Invalid, "--for gateway goes with no host, place or template", "a secret is for hosts or for the gateway")
	}
	d.Gateway, d.Rules, d.Template, d.Keep = true, nil, "", 0
	return nil
}

// template takes the rules of a service.
func (f *ruleFlags) template(d *secret.Definition) error {
	if f.placed() || f.narrowed() {
		return bailey.NewError(bailey.Invalid, "a template says itself where the value stands", "leave --template out, or --header, --format, --basic, --query, --cookie, --path and --method")
	}
	t, err := secret.FindTemplate(string(f.Template))
	if err != nil {
		return err
	}
	rules := t.Rules
	if len(f.Host) > 0 {
		hosts, err := parseHosts(f.Host)
		if err != nil {
			return err
		}
		rules = t.At(hosts...)
	} else if !t.HasHosts() {
		return bailey.NewError(bailey.Invalid, "the template "+t.Name+" is for a service whose host you choose", "name it: --host registry.example.com")
	}
	d.Rules, d.Gateway, d.Template, d.Keep = rules, false, t.Name, t.Keep
	if f.Var == "" && t.Var != "" {
		d.Var = t.Var
	}
	return nil
}

// rule changes one rule.
func (f *ruleFlags) rule(r *secret.Rule) error {
	if len(f.Host) > 0 {
		hosts, err := parseHosts(f.Host)
		if err != nil {
			return err
		}
		r.Hosts = hosts
	}
	if len(f.Path) > 0 {
		r.Paths = unique(f.Path)
		if slices.Contains(f.Path, "/") {
			r.Paths = nil
		}
	}
	if len(f.Method) > 0 {
		r.Methods = unique(f.Method)
		if slices.Contains(f.Method, "*") {
			r.Methods = nil
		}
	}
	if err := f.place(&r.Place); err != nil {
		return err
	}
	return r.Check()
}

// place changes where the value stands.
func (f *ruleFlags) place(p *secret.Place) error {
	switch {
	case f.Format != "" && (f.Basic != nil || f.Query != "" || f.Cookie != ""):
		return bailey.NewError(bailey.Invalid, "--format is for a header", "leave it out, or name the header")
	case f.Header != "":
		*p = secret.Place{Kind: secret.Header, Name: string(f.Header), Format: "{}"}
		if http.CanonicalHeaderKey(p.Name) == "Authorization" {
			p.Format = "Bearer {}"
		}
	case f.Basic != nil:
		*p = secret.Place{Kind: secret.Basic, User: *f.Basic}
	case f.Query != "":
		*p = secret.Place{Kind: secret.Query, Name: string(f.Query)}
	case f.Cookie != "":
		*p = secret.Place{Kind: secret.Cookie, Name: string(f.Cookie)}
	case f.Format != "" && p.Kind != secret.Header:
		return bailey.NewError(bailey.Invalid, "--format is for a header", "name it: --header Authorization")
	}
	if f.Format != "" {
		p.Format = string(f.Format)
	}
	return nil
}

// parseHosts reads hosts, each once. A wildcard below a name that strangers
// share is refused: one of them would be sent the value.
func parseHosts(list []string) ([]secret.Host, error) {
	var out []secret.Host
	for _, s := range list {
		h, err := secret.ParseHost(s)
		if err != nil {
			return nil, err
		}
		if err := checkHost(h); err != nil {
			return nil, err
		}
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out, nil
}

func checkHost(h secret.Host) error {
	if !h.Wildcard {
		return nil
	}
	shared, err := settings.StrangersBelow(h.Name)
	if err != nil {
		return err
	}
	if shared {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s: strangers have hosts below %s, and could be sent the value", h, h.Name), "name the hosts that need it")
	}
	return nil
}

// checkHosts looks at the hosts of a secret that was kept elsewhere.
func checkHosts(d secret.Definition) error {
	for _, r := range d.Rules {
		for _, h := range r.Hosts {
			if err := checkHost(h); err != nil {
				return err
			}
		}
	}
	return nil
}
