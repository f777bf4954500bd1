package secret_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/secret"
)

func TestTemplates_AreSound(t *testing.T) {
	t.Parallel()
	list := secret.Templates()
	if len(list) < 25 {
		t.Fatalf("%d templates", len(list))
	}
	variable, name := regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`), regexp.MustCompile(`^[a-z][a-z0-9]+$`)
	vars := map[string]string{}
	for i, tpl := range list {
		if !name.MatchString(tpl.Name) || tpl.What == "" || !variable.MatchString(tpl.Var) || len(tpl.Rules) == 0 {
			t.Errorf("%+v", tpl)
		}
		if i > 0 && list[i-1].Name >= tpl.Name {
			t.Errorf("%s stands behind %s", tpl.Name, list[i-1].Name)
		}
		if other := vars[tpl.Var]; other != "" {
			t.Errorf("%s and %s have the variable %s", tpl.Name, other, tpl.Var)
		}
		vars[tpl.Var] = tpl.Name
		got, err := secret.FindTemplate(tpl.Name)
		if err != nil || got.What != tpl.What {
			t.Errorf("%s is not found: %v", tpl.Name, err)
		}
		for _, r := range tpl.Rules {
			checkRule(t, tpl, r)
		}
	}
}

func checkRule(t *testing.T, tpl secret.Template, r secret.Rule) {
	t.Helper()
	if !tpl.HasHosts() {
		if err := r.Check(); err == nil {
			t.Errorf("%s: a rule without hosts is let through", tpl.Name)
		}
		own, err := secret.ParseHost("registry.example.com:8443")
		if err != nil {
			t.Fatal(err)
		}
		r.Hosts = []secret.Host{own}
	}
	if err := r.Check(); err != nil {
		t.Errorf("%s: %v", tpl.Name, err)
	}
	for _, h := range r.Hosts {
		if again, err := secret.ParseHost(h.String()); err != nil || again != h {
			t.Errorf("%s: %s is read as %s: %v", tpl.Name, h, again, err)
		}
		if h.Wildcard {
			t.Errorf("%s: %s: a template names hosts, since anybody may have one below a wildcard", tpl.Name, h)
		}
	}
}

// TestTemplates_PartPlaces holds that no two rules of a template say the same
// place of the same host: which of them a request is for would be open.
func TestTemplates_PartPlaces(t *testing.T) {
	t.Parallel()
	for _, tpl := range secret.Templates() {
		for i, r := range tpl.Rules {
			for _, o := range tpl.Rules[:i] {
				shared := slices.ContainsFunc(r.Hosts, func(h secret.Host) bool { return slices.Contains(o.Hosts, h) })
				if shared && r.Place == o.Place {
					t.Errorf("%s: %s twice", tpl.Name, r.Place)
				}
			}
		}
	}
}

func TestTemplate_AtIsForOtherHostsAlone(t *testing.T) {
	t.Parallel()
	own, err := secret.ParseHost("git.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for _, tpl := range secret.Templates() {
		rules := tpl.At(own)
		if len(rules) != len(tpl.Rules) {
			t.Errorf("%s: %d rules of %d", tpl.Name, len(rules), len(tpl.Rules))
		}
		for i, r := range rules {
			if err := r.Check(); err != nil || !r.Of("git.example.com", 443) || r.Place != tpl.Rules[i].Place {
				t.Errorf("%s: %+v %v", tpl.Name, r, err)
			}
			for _, h := range tpl.Rules[i].Hosts {
				if r.Of(h.Name, h.Port) {
					t.Errorf("%s: still for %s", tpl.Name, h)
				}
			}
		}
	}
}

func TestTemplates_GiveWhatIsTheCallers(t *testing.T) {
	t.Parallel()
	secret.Templates()[0].Rules[0].Hosts[0].Name = "evil.test"
	for _, tpl := range secret.Templates() {
		for _, r := range tpl.Rules {
			if r.Of("evil.test", 443) {
				t.Errorf("%s was changed by a caller", tpl.Name)
			}
		}
	}
}

func TestFindTemplate_NamesTheNearest(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{"githbu": `did you mean "github"?`, "antropic": `did you mean "anthropic"?`, "GitHub": `did you mean "github"?`, "": "known: anthropic, "} {
		_, err := secret.FindTemplate(wrong)
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || e.Kind != bailey.Invalid || !strings.Contains(e.Hint, want) {
			t.Errorf("%q: %v %+v", wrong, err, e)
		}
	}
}

func TestTemplates_CoverWhatTheirToolsDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ template, host, path, place string }{
		{"github", "api.github.com", "/repos/a/b", "Authorization: Bearer {}"},
		{"github", "github.com", "/a/b.git/info/refs", `Basic authentication as "x-access-token"`},
		{"gitlab", "gitlab.com", "/api/v4/projects", "PRIVATE-TOKEN: {}"},
		{"gitlab", "gitlab.com", "/a/b.git/git-receive-pack", `Basic authentication as "oauth2"`},
		{"anthropic", "api.anthropic.com", "/v1/messages", "x-api-key: {}"},
		{"openai", "api.openai.com", "/v1/responses", "Authorization: Bearer {}"},
		{"gemini", "generativelanguage.googleapis.com", "/v1beta/models", "x-goog-api-key: {}"},
		{"slack", "slack.com", "/api/chat.postMessage", "Authorization: Bearer {}"},
		{"linear", "api.linear.app", "/graphql", "Authorization: {}"},
		{"cloudflare", "api.cloudflare.com", "/client/v4/zones", "Authorization: Bearer {}"},
	} {
		tpl, err := secret.FindTemplate(c.template)
		if err != nil {
			t.Fatal(err)
		}
		fits := func(host, path string) bool {
			return slices.ContainsFunc(tpl.Rules, func(r secret.Rule) bool {
				return r.Of(host, 443) && r.Covers("POST", path) && r.Place.String() == c.place
			})
		}
		if !fits(c.host, c.path) {
			t.Errorf("%s leaves out %s%s by %s", c.template, c.host, c.path, c.place)
		}
		for _, other := range []string{"evil.test", "x." + c.host, "evil" + c.host} {
			if fits(other, c.path) {
				t.Errorf("%s is for %s", c.template, other)
			}
		}
	}
}
