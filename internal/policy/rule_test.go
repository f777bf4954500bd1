package policy_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

func TestParseRule_Accepts(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	for in, want := range map[string]struct {
		rule policy.Rule
		text string
	}{
		"example.com":               {policy.Rule{Host: "example.com"}, "example.com"},
		"Example.COM.":              {policy.Rule{Host: "example.com"}, "example.com"},
		"example.com:8443":          {policy.Rule{Host: "example.com", Port: 8443}, "example.com:8443"},
		"example.com.:1":            {policy.Rule{Host: "example.com", Port: 1}, "example.com:1"},
		"*.example.com":             {policy.Rule{Host: "example.com", Wildcard: true}, "*.example.com"},
		"*.a.example.com:65535":     {policy.Rule{Host: "a.example.com", Wildcard: true, Port: 65535}, "*.a.example.com:65535"},
		"11.0.0.10":                 {policy.Rule{Addr: addr("11.0.0.10")}, "11.0.0.10"},
		"11.0.0.10:22":              {policy.Rule{Addr: addr("11.0.0.10"), Port: 22}, "11.0.0.10:22"},
		"bücher.test":               {policy.Rule{Host: "xn--bcher-kva.test"}, "xn--bcher-kva.test"}, // A050
		"BÜCHER.test:80":            {policy.Rule{Host: "xn--bcher-kva.test", Port: 80}, "xn--bcher-kva.test:80"},
		"xn--bcher-kva.test":        {policy.Rule{Host: "xn--bcher-kva.test"}, "xn--bcher-kva.test"},
		"*.bücher.test":             {policy.Rule{Host: "xn--bcher-kva.test", Wildcard: true}, "*.xn--bcher-kva.test"},
		"аllow.test":                {policy.Rule{Host: "xn--llow-43d.test"}, "xn--llow-43d.test"}, // A050d: shown as what it is
		"ａllow.test":                {policy.Rule{Host: "allow.test"}, "allow.test"},
		"*.packages.example.org":    {policy.Rule{Host: "packages.example.org", Wildcard: true}, "*.packages.example.org"},
		"my-site.github.io":         {policy.Rule{Host: "my-site.github.io"}, "my-site.github.io"},
		"*.my-site.github.io":       {policy.Rule{Host: "my-site.github.io", Wildcard: true}, "*.my-site.github.io"},
		"*.eu-west-1.example.co.uk": {policy.Rule{Host: "eu-west-1.example.co.uk", Wildcard: true}, "*.eu-west-1.example.co.uk"},
	} {
		got, err := policy.ParseRule(in)
		if err != nil {
			t.Errorf("A050d and others: ParseRule(%q): %v", in, err)
			continue
		}
		if diff := cmp.Diff(want.rule, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Errorf("ParseRule(%q) (-want +got):\n%s", in, diff)
		}
		if got.String() != want.text {
			t.Errorf("ParseRule(%q).String() = %q, want %q", in, got, want.text)
		}
		if again, err := policy.ParseRule(want.text); err != nil || again != got {
			t.Errorf("ParseRule(%q) does not read its own text: %v, %v", want.text, again, err)
		}
	}
}

func TestParseRule_Refuses(t *testing.T) {
	t.Parallel()
	for in, wantHint := range map[string]string{
		"":                                "example.com",
		"*":                               "--net open",
		"*.com":                           "--net open", // A044
		"*.test:443":                      "--net open",
		"*.github.io":                     "my-site.github.io",
		"*.workers.dev":                   "my-site",
		"*.s3.amazonaws.com":              "my-site",
		"*.amazonaws.com":                 "my-site",
		"*.co.uk":                         "my-site",
		"*.":                              "example.com",
		"api.*.test":                      "*.example.com", // A046
		"example.*":                       "*.example.com",
		"*allow.test":                     "*.example.com",
		"a*b.test":                        "*.example.com",
		"*.*.test":                        "*.example.com",
		"**.a.test":                       "*.example.com",
		"https://api.x.com/v1":            `"api.x.com"`,
		"http://x":                        `"x"`,
		"user@x.com":                      "after the @",
		"user:pw@x.com:22":                "after the @",
		"x.com/path":                      `"x.com"`,
		"11.0.0.0/8":                      "--net open",
		"0.0.0.0/0":                       "--net open",
		"11.0.0.0/24:443":                 "--net open",
		"2606:4700::/32":                  "--net open",
		"a.test,b.test":                   "one host per rule",
		"a.test:80,b.test:80":             "one host per rule",
		"x.com?":                          "example.com",
		`x.com\`:                          "example.com",
		"x.com:0":                         "host:443",
		"x.com:65536":                     "host:443",
		"x.com:":                          "host:443",
		"x.com:443x":                      "host:443",
		"x.com:+443":                      "host:443",
		"x.com:0443":                      "host:443",
		"x.com:443:1":                     "brackets",
		":443":                            "example.com",
		"x.com, y.com":                    "one host per rule",
		"x.com\n":                         "one host per rule",
		"a\x00.com":                       "one host per rule",
		"%2e.com":                         "plain host",
		"fe80::1%eth0":                    "plain host",
		"[2606:4700::1":                   "[2606:4700::1111]:443",
		"[2606:4700::1]443":               "[2606:4700::1111]:443",
		"[11.0.0.1]:443":                  "without brackets",
		"[x.com]:443":                     "without brackets",
		"2606:4700::1111":                 "IPv4 address",
		"[2606:4700:0::1111]":             "IPv4 address",
		"[2606:4700::1111]:443":           "IPv4 address",
		"11.0.0.10:53":                    "leave the rule out",
		"x.com:53":                        "leave the rule out",
		"*.x.com:53":                      "leave the rule out",
		"localhost":                       "--host-service PORT",
		"localhost:5432":                  "--host-service 5432",
		"db.localhost":                    "inside the sandbox",
		"github":                          "github.com",
		"127.0.0.1":                       "--host-service PORT",
		"127.0.0.1:8080":                  "--host-service 8080",
		"10.0.0.1":                        "{host: 10.0.0.1, addresses: [10.0.0.1]}",
		"10.0.0.1:5432":                   "{host: 10.0.0.1, ports: [5432], addresses: [10.0.0.1]}",
		"169.254.169.254:80":              "public host",
		"[::1]:80":                        "--host-service 80",
		"::ffff:8.8.8.8":                  "public host",
		"192.0.2.1":                       "public host",
		"[2001:db8::1]:443":               "public host",
		"203.0.113.5-9":                   "203.0.113.0/24",
		"203.0.113.5-9:443":               "203.0.113.0/24",
		"203.0.113.0-203.0.113.9":         "203.0.113.0/24",
		"*.5-9":                           "203.0.113.0/24",
		"203.0.113.*":                     "203.0.113.0/24",
		"203.0.*":                         "203.0.113.0/24",
		"a.test.3x":                       "usual form",
		"203.0.113.0x9-0xf":               "usual form",
		"1.1":                             "usual form",
		"0x7f.1":                          "usual form",
		"2130706433":                      "usual form",
		"0177.0.0.1:80":                   "usual form",
		"127.000.000.001":                 "usual form",
		"①②⑦.⓪.⓪.①":                       "usual form",
		"xn--allow-.test":                 "example.com",
		"XN--ALLOW-.test":                 "example.com",
		"xn--が-.test":                     "example.com",
		"a_b.test":                        "example.com",
		"-a.test":                         "example.com",
		"a..test":                         "example.com",
		"x.com..":                         "example.com",
		strings.Repeat("a", 64) + ".test": "example.com",
	} {
		got, err := policy.ParseRule(in)
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || got != (policy.Rule{}) {
			t.Errorf("A044, A046: ParseRule(%q) = %v, %v; want a *bailey.Error", in, got, err)
			continue
		}
		if e.Kind != bailey.Invalid || !strings.HasPrefix(e.Message, "network rule ") || !strings.Contains(e.Hint, wantHint) {
			t.Errorf("ParseRule(%q): kind %v, message %q, hint %q; want a hint with %q", in, e.Kind, e.Message, e.Hint, wantHint)
		}
	}
}

func TestParseDenyRule_MayBeBroad(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"*.com", "*.github.io", "evil.test", "11.0.0.66"} {
		if _, err := policy.ParseDenyRule(in); err != nil {
			t.Errorf("ParseDenyRule(%q): %v", in, err)
		}
	}
	for in, want := range map[string]string{
		"2606:4700::1111": "[2606:4700::1111]", "[2606:4700:0::1111]": "[2606:4700::1111]",
		"11.0.0.0/24": "11.0.0.0/24", "11.0.0.0/24:22": "11.0.0.0/24:22", "0.0.0.0/0": "0.0.0.0/0", "203.0.113.7/32": "203.0.113.7/32", "2606:4700:0::/32": "2606:4700::/32", "[2606:4700::/32]:443": "[2606:4700::/32]:443", "[::/0]": "::/0",
		"[2606:4700::1111]:443": "[2606:4700::1111]:443", "x.com:53": "x.com:53", "11.0.0.10:53": "11.0.0.10:53",
	} {
		if r, err := policy.ParseDenyRule(in); err != nil || r.String() != want {
			t.Errorf("ParseDenyRule(%q) = %v, %v", in, r, err)
		}
	}
	for _, in := range []string{"*", "https://x.test", "*.*.com", "x.com:0", "11.0.0.1/24", "11.0.0.0/33", "11.0.0.0/24:0", "11.0.0.0/24:", "11.0.0.0/024", "2606:4700::/32:443", "[11.0.0.0/24", "::ffff:11.0.0.0/120", "fe80::%eth0/64", "011.0.0.0/8", "11.0.0.0/24/24", "a.test/24"} {
		if _, err := policy.ParseDenyRule(in); err == nil {
			t.Errorf("ParseDenyRule(%q) is accepted", in)
		}
	}
}

func TestPolicy_JSON(t *testing.T) {
	t.Parallel()
	want := policy.Policy{
		Mode:  bailey.NetAllow,
		Allow: rules(t, "example.com", "*.a.test:8443", "11.0.0.10:22", "[2606:4700::1]:443"),
		Deny:  []policy.Rule{{Host: "com", Wildcard: true}, {Range: netip.MustParsePrefix("11.0.0.0/24"), Port: 22}},
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"mode":"allow","allow":["example.com","*.a.test:8443","11.0.0.10:22","[2606:4700::1]:443"],"deny":["*.com","11.0.0.0/24:22"]}`
	if string(b) != text {
		t.Errorf("got %s", b)
	}
	var got policy.Policy
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	for _, in := range []string{`{"mode":"fool"}`, `{"allow":[{"host":"a.test","methdos":["GET"]}]}`, `{"allow":[{"host":"a.test","paths":["/a/../b"]}]}`, `{"allow":[{"host":"a.test","addresses":["127.0.0.0/8"]}]}`, `{"allow":["*"]}`, `{"allow":[""]}`, `{"deny":["127.0.0.1"]}`} {
		if err := json.Unmarshal([]byte(in), new(policy.Policy)); err == nil {
			t.Errorf("%s is accepted", in)
		}
	}
}

// FuzzParseDenyRule: what is read has one form, which says the same, also
// between processes.
func FuzzParseDenyRule(f *testing.F) {
	for _, s := range []string{"11.0.0.0/24", "[2606:4700::/32]:443", "0.0.0.0/0:1", "::/0", "10.0.0.1", "*.com:53"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r, err := policy.ParseDenyRule(in)
		if err != nil {
			if r != (policy.Rule{}) {
				t.Errorf("ParseDenyRule(%q) returns a rule with an error", in)
			}
			return
		}
		b, err := r.MarshalJSON()
		var wire policy.Rule
		if err != nil || wire.UnmarshalJSON(b) != nil || wire != r {
			t.Errorf("%q: %s reads back as %v", in, b, wire)
		}
		if again, err := policy.ParseDenyRule(r.String()); err != nil || again != r {
			t.Errorf("%q: %q reads back as %v, %v", in, r, again, err)
		}
		whom := 0
		for _, is := range []bool{r.Host != "", r.Addr.IsValid(), r.Range.IsValid()} {
			if is {
				whom++
			}
		}
		if whom != 1 || r.Range.IsValid() && r.Range != r.Range.Masked() {
			t.Errorf("%q: %+v", in, r)
		}
	})
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"example.com:443", "*.a.test", "[2606::1]:1", "11.0.0.10", "bücher.test", "xn--a-.b", "https://x", "①.test"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r, err := policy.ParseRule(in)
		if err != nil {
			if r != (policy.Rule{}) {
				t.Errorf("ParseRule(%q) returns a rule with an error", in)
			}
			return
		}
		again, err := policy.ParseRule(r.String())
		if err != nil || again != r {
			t.Errorf("%q: %q reads back as %v, %v", in, r, again, err)
		}
		if r.Addr.IsValid() == (r.Host != "") {
			t.Errorf("%q: neither or both of name and address: %+v", in, r)
		}
		if r.Host != "" {
			if n, err := policy.NormalizeName(r.Host); err != nil || n != r.Host {
				t.Errorf("%q: host %q is not normal", in, r.Host)
			}
		} else if policy.Classify(r.Addr).Special() {
			t.Errorf("%q: special address %s", in, r.Addr)
		}
	})
}

func rules(t *testing.T, texts ...string) []policy.Rule {
	t.Helper()
	out := make([]policy.Rule, 0, len(texts))
	for _, s := range texts {
		r, err := policy.ParseDenyRule(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}
