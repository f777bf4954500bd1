package secret_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/bailey-dev/bailey/internal/secret"
)

func host(t *testing.T, s string) secret.Host {
	t.Helper()
	h, err := secret.ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func base(t *testing.T) secret.Definition {
	t.Helper()
	return secret.Definition{Keep: 4, Rules: []secret.Rule{{
		Hosts: []secret.Host{host(t, "*.example.com"), host(t, "example.org:8443")}, Methods: []string{"GET", "POST"}, Paths: []string{"/api", "/v1/x"},
		Place: secret.Place{Kind: secret.Header, Name: "Authorization", Format: "Bearer {}"},
	}}}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(d *secret.Definition, r *secret.Rule)
		within bool
	}{
		"the same":               {func(*secret.Definition, *secret.Rule) {}, true},
		"a host fewer":           {func(_ *secret.Definition, r *secret.Rule) { r.Hosts = r.Hosts[:1] }, true},
		"a host of the wildcard": {func(_ *secret.Definition, r *secret.Rule) { r.Hosts[0] = host(t, "a.example.com") }, true},
		"a wildcard below":       {func(_ *secret.Definition, r *secret.Rule) { r.Hosts[0] = host(t, "*.a.example.com") }, true},
		"the wildcard's own":     {func(_ *secret.Definition, r *secret.Rule) { r.Hosts[0] = host(t, "example.com") }, false},
		"a name that ends so":    {func(_ *secret.Definition, r *secret.Rule) { r.Hosts[0] = host(t, "*.evilexample.com") }, false},
		"another port":           {func(_ *secret.Definition, r *secret.Rule) { r.Hosts[0] = host(t, "a.example.com:8443") }, false},
		"the usual port":         {func(_ *secret.Definition, r *secret.Rule) { r.Hosts[1] = host(t, "example.org") }, false},
		"a wildcard of a host":   {func(_ *secret.Definition, r *secret.Rule) { r.Hosts[1] = host(t, "*.example.org:8443") }, false},
		"a host more":            {func(_ *secret.Definition, r *secret.Rule) { r.Hosts = append(r.Hosts, host(t, "example.net")) }, false},
		"a method fewer":         {func(_ *secret.Definition, r *secret.Rule) { r.Methods = []string{"GET"} }, true},
		"a method more":          {func(_ *secret.Definition, r *secret.Rule) { r.Methods = append(r.Methods, "PUT") }, false},
		"any method":             {func(_ *secret.Definition, r *secret.Rule) { r.Methods = nil }, false},
		"a path below":           {func(_ *secret.Definition, r *secret.Rule) { r.Paths = []string{"/api/a", "/api/"} }, true},
		"a path above":           {func(_ *secret.Definition, r *secret.Rule) { r.Paths = []string{"/v1"} }, false},
		"a path beside":          {func(_ *secret.Definition, r *secret.Rule) { r.Paths = []string{"/apix"} }, false},
		"any path":               {func(_ *secret.Definition, r *secret.Rule) { r.Paths = nil }, false},
		"another header":         {func(_ *secret.Definition, r *secret.Rule) { r.Place.Name = "X-Key" }, false},
		"another format":         {func(_ *secret.Definition, r *secret.Rule) { r.Place.Format = "{}" }, false},
		"another kind":           {func(_ *secret.Definition, r *secret.Rule) { r.Place = secret.Place{Kind: secret.Query, Name: "q"} }, false},
		"less of it shown":       {func(d *secret.Definition, _ *secret.Rule) { d.Keep = 0 }, true},
		"more of it shown":       {func(d *secret.Definition, _ *secret.Rule) { d.Keep = 5 }, false},
		"no rule":                {func(d *secret.Definition, _ *secret.Rule) { d.Rules = nil }, true},
		"for the gateway":        {func(d *secret.Definition, _ *secret.Rule) { d.Gateway, d.Rules = true, nil }, false},
		"a rule twice":           {func(d *secret.Definition, r *secret.Rule) { d.Rules = append(d.Rules, *r) }, true},
	} {
		d := base(t)
		d.Rules[0].Hosts = slices.Clone(d.Rules[0].Hosts)
		c.change(&d, &d.Rules[0])
		if got := d.Within(base(t)); got != c.within {
			t.Errorf("%s: %v", what, got)
		}
	}
	none, gateway := secret.Definition{}, secret.Definition{Gateway: true}
	if base(t).Within(none) || base(t).Within(gateway) {
		t.Error("a rule is within none")
	}
}

// TestWithin_CoversNoMore: whatever a rule within another covers, for whatever
// request, the other does too.
func TestWithin_CoversNoMore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	hosts := []string{"a.example.com", "b.a.example.com", "*.example.com", "*.a.example.com", "example.com", "a.example.com:8443"}
	paths := []string{"/", "/a", "/a/", "/a/b", "/ab", "/b"}
	methods := []string{"GET", "PUT"}
	pick := func(list []string) []string {
		var out []string
		for _, s := range list {
			if r.IntN(3) == 0 {
				out = append(out, s)
			}
		}
		return out
	}
	rule := func() secret.Rule {
		out := secret.Rule{Methods: pick(methods), Paths: pick(paths), Place: secret.Place{Kind: secret.Query, Name: []string{"p", "q"}[r.IntN(2)]}}
		for _, h := range pick(hosts) {
			out.Hosts = append(out.Hosts, host(t, h))
		}
		return out
	}
	covers := func(d secret.Definition, place secret.Place, name string, port uint16, method, path string) bool {
		return slices.ContainsFunc(d.Rules, func(r secret.Rule) bool {
			return r.Place == place && r.Of(name, port) && r.Covers(method, path)
		})
	}
	within := 0
	for range 20000 {
		a, b := secret.Definition{Rules: []secret.Rule{rule()}}, secret.Definition{Rules: []secret.Rule{rule(), rule()}}
		if !a.Within(b) {
			continue
		}
		within++
		for _, name := range []string{"example.com", "a.example.com", "b.a.example.com", "c.example.com"} {
			for _, port := range []uint16{443, 8443} {
				for _, method := range append(methods, "POST") {
					for _, path := range append(paths, "/a/b/c", "/ab/c", "/a//b", "/c") {
						place := a.Rules[0].Place
						if covers(a, place, name, port, method, path) && !covers(b, place, name, port, method, path) {
							t.Fatalf("%+v covers %s %s:%d%s, %+v does not", a, method, name, port, path, b)
						}
					}
				}
			}
		}
	}
	if within < 100 {
		t.Errorf("only %d pairs were within", within)
	}
}

// FuzzParseHost: what is read is written, and read as the same; it is never an
// address, every host, or one over plain HTTP.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"example.com", "*.example.com:8443", "EXAMPLE.com.", "*", "*.com", "192.0.2.1", "[2001:db8::1]:443", "example.com:80", "example.com:0443", "xn--nxasmq6b.example", "a..b", "localhost"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := secret.ParseHost(s)
		if err != nil {
			return
		}
		again, err := secret.ParseHost(h.String())
		if err != nil || again != h {
			t.Fatalf("%q is %+v, written as %q, read as %+v (%v)", s, h, h.String(), again, err)
		}
		if _, err := netip.ParseAddr(h.Name); err == nil || h.Port == 80 || h.Port == 0 || h.Name == "" || !h.Wildcard && !h.Matches(h.Name, h.Port) || h.Matches(h.Name, h.Port+1) {
			t.Fatalf("%q is %+v", s, h)
		}
	})
}
