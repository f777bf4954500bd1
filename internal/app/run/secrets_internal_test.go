package run

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/vault"
)

func ruleOf(kind secret.PlaceKind, methods, paths []string, hosts ...string) secret.Rule {
	r := secret.Rule{Methods: methods, Paths: paths, Place: secret.Place{Kind: kind, Name: "key", Format: "{}"}}
	for _, text := range hosts {
		h, err := secret.ParseHost(text)
		if err != nil {
			panic(err)
		}
		r.Hosts = append(r.Hosts, h)
	}
	return r
}

func denies(t *testing.T, list ...string) policy.Policy {
	t.Helper()
	p := policy.Policy{Mode: bailey.NetAllow}
	for _, text := range list {
		r, err := policy.ParseDenyRule(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Deny = append(p.Deny, r)
	}
	return p
}

// TestLentNotes says what a rule is narrowed to, and no host that is denied as
// one that the value goes to.
func TestLentNotes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules []secret.Rule
		deny  []string
		want  string
	}{
		"two hosts": {
			[]secret.Rule{ruleOf(secret.Header, nil, nil, "b.example.com", "a.example.com:8443")},
			nil,
			"its value goes to a.example.com:8443, b.example.com alone",
		},
		"narrowed": {
			[]secret.Rule{ruleOf(secret.Header, []string{"GET"}, []string{"/api", "/v1"}, "a.example.com")},
			nil,
			"its value goes to a.example.com (for GET, below /api, /v1) alone",
		},
		"narrowed in one place, and not in another": {
			[]secret.Rule{ruleOf(secret.Header, nil, []string{"/api"}, "a.example.com"), ruleOf(secret.Query, nil, nil, "a.example.com")},
			nil,
			"its value goes to a.example.com alone",
		},
		"denied": {
			[]secret.Rule{ruleOf(secret.Header, nil, nil, "a.example.com", "b.example.com")},
			[]string{"b.example.com"},
			"its value goes to a.example.com alone; denied by the rules of the network: b.example.com",
		},
		"denied by a wildcard": {
			[]secret.Rule{ruleOf(secret.Header, nil, nil, "*.a.example.com")},
			[]string{"*.example.com:443"},
			"its value goes nowhere; denied by the rules of the network: *.a.example.com (by *.example.com:443)",
		},
		"another name and another port are denied": {
			[]secret.Rule{ruleOf(secret.Header, nil, nil, "*.a.example.com", "a.example.com")},
			[]string{"x.a.example.com", "a.example.com:8443"},
			"its value goes to *.a.example.com, a.example.com alone",
		},
	} {
		lent := []lentSecret{{Definition: secret.Definition{Name: "s", Rules: c.rules}, variable: "S"}}
		got := lentNotes(lent, denies(t, c.deny...))
		if want := "secret s: S is a placeholder, " + c.want; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}

// TestLendable_SaysWhichOfTheTwo: the same secret, or the same variable.
func TestLendable_SaysWhichOfTheTwo(t *testing.T) {
	t.Parallel()
	others := []lentSecret{{Definition: secret.Definition{ID: "sec_1", Name: "one"}, variable: "ONE"}}
	for name, c := range map[string]struct {
		id       secret.ID
		variable string
		want     string
	}{
		"the same secret":   {"sec_1", "OTHER", "--secret x: it is named twice"},
		"the same variable": {"sec_2", "ONE", "--secret x: its variable ONE is that of --secret one already"},
		"neither":           {"sec_2", "OTHER", ""},
	} {
		err := lendable(secret.Definition{ID: c.id, Name: "x"}, c.variable, others)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostsOf names a host once, in how many places of it a value may stand.
func TestHostsOf(t *testing.T) {
	t.Parallel()
	d := secret.Definition{Name: "s", Rules: []secret.Rule{
		ruleOf(secret.Header, nil, nil, "a.example.com"), ruleOf(secret.Query, nil, nil, "a.example.com", "a.example.com:8443"),
	}}
	if got := hostsOf(d); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestCheckLendable(t *testing.T) {
	t.Parallel()
	for value, good := range map[string]bool{"canary-value": true, "canary;value": false, "canary value": false} {
		d := secret.Definition{Name: "s", Rules: []secret.Rule{ruleOf(secret.Cookie, nil, nil, "a.example.com")}}
		err := CheckLendable(d, seal.NewSecret([]byte(value)))
		if (err == nil) != good || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", value, err)
		}
		d.Rules = []secret.Rule{ruleOf(secret.Header, nil, nil, "a.example.com")}
		if err := CheckLendable(d, seal.NewSecret([]byte(value))); err != nil {
			t.Errorf("%q in a header: %v", value, err)
		}
	}
}

// TestWithdrawMissing takes back what is gone, or is another one by now, once.
func TestWithdrawMissing(t *testing.T) {
	t.Parallel()
	value := seal.NewSecret([]byte("canary-value"))
	one := func(id secret.ID, name string) lentSecret {
		return lentSecret{Definition: secret.Definition{ID: id, Name: name}, value: value}
	}
	lent := []lentSecret{one("sec_1", "kept"), one("sec_2", "gone"), one("sec_3", "another")}
	l := vault.Listing{Secrets: []secret.Definition{{ID: "sec_1", Name: "kept"}, {ID: "sec_4", Name: "another"}}}
	if got := strings.Join(withdrawMissing(lent, l), ", "); got != "gone was withdrawn, another was withdrawn" {
		t.Error(got)
	}
	if lent[0].value.Len() == 0 || lent[1].value.Len() != 0 || lent[2].value.Len() != 0 {
		t.Errorf("%+v", lent)
	}
	if got := withdrawMissing(lent, l); len(got) != 0 {
		t.Errorf("said again: %q", got)
	}
}

// TestRenewAll_OneHoldsUpNoOther: a secret whose value cannot stand in its new
// place, as another bailey may have kept it, is withdrawn; what becomes of the
// others is taken all the same.
func TestRenewAll_OneHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := vault.Place{DataDir: dir + "/data", StateDir: dir + "/state", ConfigDir: dir + "/config"}
	odd, even := seal.NewSecret([]byte("canary;value")), seal.NewSecret([]byte("canary-value"))
	define := func(name string, kind secret.PlaceKind) secret.Definition {
		r := ruleOf(kind, nil, nil, "a.example.com")
		if kind == secret.Header {
			r.Place.Name = "Authorization"
		} else {
			r.Place.Format = ""
		}
		return secret.Definition{Name: name, Var: secret.Variable(name), Rules: []secret.Rule{r}}
	}
	change := func(f func(*vault.Edit) error) *vault.Vault {
		t.Helper()
		if err := vault.Update(p, time.Now(), f); err != nil {
			t.Fatal(err)
		}
		v, err := vault.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := change(func(e *vault.Edit) error {
		return errors.Join(e.Add(define("odd", secret.Header), odd), e.Add(define("even", secret.Header), even))
	})
	var lent []lentSecret
	for _, name := range []string{"odd", "even"} {
		d, value, err := v.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		lent = append(lent, lentSecret{Definition: d, value: value, variable: d.Var, placeholder: secret.NewPlaceholder(value.Reveal(), 0)})
	}
	v = change(func(e *vault.Edit) error {
		return errors.Join(e.Replace(define("odd", secret.Cookie), odd), e.Replace(define("even", secret.Cookie), even))
	})
	said, err := renewAll(lent, v)
	if got := strings.Join(said, ", "); err != nil || got != "odd was withdrawn, as its value cannot stand in the place of its rule, even has other rules" {
		t.Errorf("%q, %v", got, err)
	}
	if lent[0].value.Len() != 0 || lent[1].value.Len() == 0 {
		t.Error("the wrong one is lent")
	}
	v = change(func(e *vault.Edit) error { return e.Replace(define("odd", secret.Header), odd) })
	if said, err := renewAll(lent, v); err != nil || strings.Join(said, ", ") != "odd has a new value" || lent[0].value.Len() == 0 {
		t.Errorf("%q, %v", said, err)
	}
}
