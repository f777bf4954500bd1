package spec_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// userPolicy writes the policy file of a yard's user.
func userPolicy(t *testing.T, y *yard.Yard, text string) {
	t.Helper()
	y.WriteHome(t, ".config/bailey/config.yaml", text)
}

// doesNotStart holds that a run is refused with these words and that nothing
// of it runs.
func doesNotStart(t *testing.T, y *yard.Yard, words string, flags ...string) {
	t.Helper()
	r := y.Sh(t, "touch ran", flags...).Exit(t, 125)
	if !strings.Contains(r.Stderr, words) {
		t.Errorf("%q: want %q in:\n%s", flags, words, r.Stderr)
	}
	if _, err := os.Lstat(filepath.Join(y.Dir, "ran")); err == nil {
		t.Errorf("%q: the command ran", flags)
	}
}

// TestEGR07_PolicyFilesAreStrict: a file that says something bailey does not
// know stops a start, with its place, whoever's it is.
func TestEGR07_PolicyFilesAreStrict(t *testing.T) {
	t.Attr("claim", "EGR-07")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		for text, want := range map[string]string{
			"net:\n  alow: [allow.test]\n":         `:2:3: unknown key "alow" in net; did you mean "allow"?`,
			"net:\n  mode: opne\n":                 `:2:9: net.mode: unknown value "opne"`,
			"net:\n  mode: allow\n  allow: []\n":   `:3:10: mode allow has no allow rule`,
			"net:\n  allow: ['*']\n":               `:2:11: network rule "*": it would allow every host`,
			"net:\n  allow: [127.0.0.1]\n":         `:2:11: network rule "127.0.0.1": 127.0.0.1 is a loopback address`,
			"net:\n  deny: [https://evil.test/]\n": `:2:10: network rule "https://evil.test/": it is a URL`,
			"net: [\n":                             `not YAML`,
		} {
			y.Write(t, "bailey.yaml", text)
			doesNotStart(t, y, want, "--net", "none")
			if err := os.Remove(filepath.Join(y.Dir, "bailey.yaml")); err != nil {
				t.Fatal(err)
			}
			userPolicy(t, y, text)
			doesNotStart(t, y, want)
			userPolicy(t, y, "")
		}
		y.Write(t, "bailey.yaml", "net:\n  deny: [evil.test]\n") // twin
		userPolicy(t, y, "net:\n  mode: none\n")
		y.Sh(t, "true").OK(t)
	})
}

// TestEGR13_AProjectsFileOnlyTightens: what lies in the workspace takes away,
// and adds nothing until the user trusts it as it is.
func TestEGR13_AProjectsFileOnlyTightens(t *testing.T) {
	t.Attr("claim", "EGR-13")
	t.Parallel()
	allowed := web("the user's", "11.0.0.10:80", "allow.test", reaches(helloAllowed), reaches(helloAllowed))
	evil := web("the project's", "11.0.0.66:80", "evil.test", reaches("hello from evil.test"), reaches("hello from evil.test"))
	refusedEvil := evil
	refusedEvil.inside = gets403("not-allowed")
	denied := allowed
	denied.inside = gets403("denied-by-rule", "allow.test")
	both(t, []attempt{allowed, evil}, world, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		userPolicy(t, y, "net:\n  allow: [allow.test]\n")
		attack(t, y, []attempt{allowed, refusedEvil})

		y.Write(t, "bailey.yaml", "net:\n  deny: [allow.test]\n")
		attack(t, y, []attempt{denied, refusedEvil})
		attack(t, y, []attempt{denied, refusedEvil}, "--allow", "allow.test")

		for text, what := range map[string]string{
			"net:\n  allow: [evil.test]\n":                                           "allow evil.test",
			"net:\n  mode: open\n":                                                   "mode open",
			"net:\n  mode: full\n":                                                   "mode full",
			"net:\n  dns: open\n":                                                    "dns open",
			"net:\n  presets: [git]\n":                                               "and 4 more",
			"net:\n  allow: [{host-service: 8080}]\n":                                "host-service 8080",
			"net:\n  allow: [{host: allow.test, addresses: [10.0.0.0/8]}]\n":         "at 10.0.0.0/8",
			"net:\n  allow: [{host: allow.test, ports: [80, 22]}]\n":                 "allow.test:22",
			"net:\n  allow: [allow.test, '*.allow.test']\n  deny: [sub.evil.test]\n": "*.allow.test",
		} {
			y.Write(t, "bailey.yaml", text)
			doesNotStart(t, y, what)
			doesNotStart(t, y, "is not trusted")
		}
		stayed(t, lab, []netip.AddrPort{onAllowed(80)}, "allow.test")

		// The user's own is theirs alone to write.
		if err := os.Remove(filepath.Join(y.Dir, "bailey.yaml")); err != nil {
			t.Fatal(err)
		}
		own := filepath.Join(y.Home, ".config/bailey/config.yaml")
		for _, at := range []string{own, filepath.Dir(own)} {
			fi, err := os.Stat(at)
			if err = errors.Join(err, os.Chmod(at, fi.Mode()|0o002)); err != nil {
				t.Fatal(err)
			}
			doesNotStart(t, y, "everybody on this machine can write "+at)
			if err := os.Chmod(at, fi.Mode()); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(own, 0o644), os.Chown(own, 4321, 4321)); err != nil {
			t.Fatal(err)
		}
		doesNotStart(t, y, "is not yours")
		if err := os.Chown(own, y.UID, y.GID); err != nil {
			t.Fatal(err)
		}
		attack(t, y, []attempt{allowed, refusedEvil})

		// It says that there is no network, and a flag asks for one: neither is
		// passed over. What it lists beside that adds nothing.
		y.Write(t, "bailey.yaml", "net:\n  mode: none\n  allow: [evil.test]\n")
		doesNotStart(t, y, "--allow and mode none of "+filepath.Join(y.Dir, "bailey.yaml")+":2:9 contradict each other", "--allow", "allow.test")
		attack(t, y, []attempt{web("the project's none", "11.0.0.66:80", "evil.test", nil, fails("ENETUNREACH"))})

		// Twin: trusted, it adds; and deny-all stays all the same.
		y.Write(t, "bailey.yaml", "net:\n  allow: [evil.test]\n")
		y.Run(t, "policy", "trust").OK(t)
		attack(t, y, []attempt{allowed, evil})
		attack(t, y, []attempt{web("--net none", "11.0.0.66:80", "evil.test", nil, fails("ENETUNREACH"))}, "--net", "none")

		// A sandbox that edits it ends the trust, and so does its copy of it.
		y.Sh(t, "echo '# an edit' >>bailey.yaml").OK(t)
		doesNotStart(t, y, "is not trusted any more, as it was changed since it was")
		y.Write(t, "bailey.yaml", "net:\n  allow: [evil.test]\n")
		userPolicy(t, y, "net:\n  mode: none\n")
		attack(t, y, []attempt{web("the user's none", "11.0.0.66:80", "evil.test", nil, fails("ENETUNREACH"))})
		for _, name := range []string{".config/bailey", ".local/share/bailey", ".local/share/bailey/trust"} {
			if r := y.Sh(t, "ls -A "+filepath.Join(y.Home, name)+" ~/"+name); r.Code == 0 || strings.Contains(r.Stdout, "yaml") {
				t.Errorf("a sandbox sees %s: %s", name, r.Stdout)
			}
		}
	})
}

// TestEGR14_RulesAboutRequests holds the part that this version has: requests
// of plain HTTP. What it cannot see it does not start with.
func TestEGR14_RulesAboutRequests(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Parallel()
	send := func(name, method, path string, inside want) attempt {
		return say(name, "11.0.0.10:80", method+" "+path+" HTTP/1.1\r\nHost: allow.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", nil, inside)
	}
	get := func(name, path string, inside want) attempt { return send(name, "GET", path, inside) }
	ambiguous := gets403("ambiguous-path")
	list := []attempt{
		get("a path of the rule", "/v1/models?q=/v2", reaches(helloAllowed)),
		get("exactly", "/health", reaches(helloAllowed)),
		get("another path", "/v2/models", gets403("path-not-allowed")),
		get("above", "/v1", gets403("path-not-allowed")),
		send("another method", "POST", "/v1/models", gets403("method-not-allowed")),
		get("A145 dots", "/v1/../v2/models", ambiguous),
		get("A145 encoded dots", "/v1/%2e%2e/v2", ambiguous),
		get("A145 dots with a parameter", "/v1/..;/v2", ambiguous),
		get("A145 an encoded slash", "/v1/..%2fv2", ambiguous),
		get("A145 an empty segment", "/v1//x", ambiguous),
		get("A145 an encoded letter", "/v1/%61", ambiguous),
		say("the second of a connection", "11.0.0.10:80", "GET /v1/a HTTP/1.1\r\nHost: allow.test\r\n\r\nGET /v2/secret HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n", nil, func(v verdict) string {
			if s := reaches(helloAllowed)(v); s != "" {
				return s
			}
			return reaches("path-not-allowed")(v)
		}),
		secure("TLS, which cannot be seen", "11.0.0.10:443", "allow.test", nil, fails("ECONNRESET")),
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		world(lab)
		y.Wrap = lab.Enter
		userPolicy(t, y, "net:\n  allow:\n  - host: allow.test\n    ports: [80]\n    methods: [GET]\n    paths: [/v1/*, /health]\n")
		attack(t, y, list)
		for _, r := range lab.Requests() {
			if !strings.HasPrefix(r.Path, "/v1/") && r.Path != "/health" {
				t.Errorf("passed on: %s %s", r.Method, r.Path)
			}
		}
		userPolicy(t, y, "net:\n  allow: [allow.test]\n") // twin: without the rule each is passed on
		attack(t, y, []attempt{get("another path", "/v2/models", reaches(helloAllowed)), send("another method", "POST", "/v1/models", reaches(helloAllowed)), get("dots", "/v1/../v2", works)})
	})
}

// TestEGR05_PrivateOnlyWhereItIsNamed: a private address is reached where a
// rule names it for that host, and in mode full; metadata and loopback never.
func TestEGR05_PrivateOnlyWhereItIsNamed(t *testing.T) {
	t.Attr("claim", "EGR-05")
	t.Parallel()
	special := gets403("special-address")
	private := web("private by name", "10.11.12.13:8080", "private.test:8080", reaches(netlab.PrivateCanary), nil)
	number := web("private by number", "10.11.12.13:8080", "10.11.12.13:8080", reaches(netlab.PrivateCanary), nil)
	other := web("another name for it", "10.11.12.13:8080", "inward.test:8080", reaches(netlab.PrivateCanary), nil)
	never := []attempt{
		web("metadata", "169.254.169.254:80", "metadata.google.internal", reaches(netlab.MetadataCanary), special),
		web("metadata by number", "169.254.169.254:80", "169.254.169.254", reaches(netlab.MetadataCanary), special),
		web("loopback by a name", "11.0.0.10:8080", "loop.test:8080", nil, special),
		web("the machine itself", "11.0.0.1:8080", "11.0.0.1:8080", reaches(netlab.LoopbackCanary), gets403("host-address")),
	}
	with := func(a attempt, w want) attempt { a.inside = w; return a }
	prepare := func(lab *netlab.Lab) { lab.Alias("inward.test", "private.test") }
	both(t, append([]attempt{private, number, other}, never...), prepare, func(t *testing.T, y *yard.Yard, _ *netlab.Lab) {
		reached := reaches(netlab.PrivateCanary)
		userPolicy(t, y, "net:\n  allow:\n  - {host: private.test, ports: [8080], addresses: [10.11.0.0/16]}\n  - inward.test:8080\n  - loop.test:8080\n  - metadata.google.internal\n")
		attack(t, y, append([]attempt{with(private, reached), with(number, special), with(other, special)}, never[0], never[2]))
		userPolicy(t, y, "net:\n  allow:\n  - {host: private.test, ports: [8080], addresses: [10.12.0.0/16]}\n")
		attack(t, y, []attempt{with(private, gets403("address-not-allowed"))})
		userPolicy(t, y, "net:\n  allow:\n  - {host: 10.11.12.13, ports: [8080], addresses: [10.11.12.13]}\n")
		attack(t, y, []attempt{with(number, reached), with(private, gets403("not-allowed"))})
		userPolicy(t, y, "net:\n  mode: full\n")
		attack(t, y, append([]attempt{with(private, reached), with(number, reached), with(other, reached)}, never...))
		userPolicy(t, y, "net:\n  mode: open\n")
		attack(t, y, append([]attempt{with(private, special), with(number, special), with(other, special)}, never...))
	})
}

// TestEGR10_OneServiceOfTheHost: a rule opens one port of the host's loopback
// and nothing beside it.
func TestEGR10_OneServiceOfTheHost(t *testing.T) {
	t.Attr("claim", "EGR-10")
	t.Parallel()
	const inside = "host.bailey.internal:"
	own := fails("ECONNREFUSED")
	open := []attempt{
		web("the service", inside+"8080", inside+"8080", nil, reaches(netlab.LoopbackCanary)),
		web("another port", inside+"22", inside+"22", nil, gets403("not-allowed")),
		echo("another port, raw", inside+"22", "", nil, fails("ECONNRESET")),
		web("by the loopback's number", "127.0.0.1:8080", "127.0.0.1:8080", reaches(netlab.LoopbackCanary), own),
		web("by another name", inside+"8080", "loop.test:8080", nil, gets403("not-allowed")),
		web("the host's address", "11.0.0.1:8080", "11.0.0.1:8080", reaches(netlab.LoopbackCanary), gets403("not-allowed")),
	}
	both(t, open, world, func(t *testing.T, y *yard.Yard, lab *netlab.Lab) {
		attack(t, y, open, "--host-service", "8080")
		stayed(t, lab, []netip.AddrPort{netip.AddrPortFrom(netlab.Loopback4, netlab.CanaryPort)})
		userPolicy(t, y, "net:\n  allow:\n  - host-service: 8080\n")
		attack(t, y, open[:1])
		userPolicy(t, y, "net:\n  mode: full\n")
		attack(t, y, []attempt{{Name: "without the rule", Op: "lookup", To: "host.bailey.internal", inside: fails("not found")}})
	})
}

// TestEGR15_WeakerModesAreNamed: full and open names are said in the header
// and by ps.
func TestEGR15_WeakerModesAreNamed(t *testing.T) {
	t.Attr("claim", "EGR-15")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		world(lab)
		y.Wrap = lab.Enter
		for _, c := range []struct {
			flags            []string
			header, net, dns string
			column           string
		}{
			{[]string{"--net", "full"}, "network: full: any public or private address", "full", "", "full"},
			{[]string{"--allow", "allow.test", "--dns", "open"}, "network: allow.test; dns open: any name is looked up", "allow", "open", "allow+dns-open"},
			{[]string{"--allow", "allow.test"}, "network: allow.test\n", "allow", "", "allow"}, // the twin
		} {
			box := y.Start(t, append(append([]string{"run", "--name", "named"}, c.flags...), "--", "sh", "-c", "echo ready; read line")...)
			box.Await(t, "ready")
			if _, said := box.Output(); !strings.Contains(said, c.header) {
				t.Errorf("%q: the header does not say it:\n%s", c.flags, said)
			}
			var rows []struct{ Net, DNS string }
			if err := json.Unmarshal([]byte(y.Run(t, "ps", "--json").OK(t).Stdout), &rows); err != nil || len(rows) != 1 || rows[0].Net != c.net || rows[0].DNS != c.dns {
				t.Errorf("%q: ps --json: %+v, %v", c.flags, rows, err)
			}
			if out := strings.Fields(y.Run(t, "ps").OK(t).Stdout); !slices.Contains(out, c.column) {
				t.Errorf("%q: ps: %q has no %q", c.flags, out, c.column)
			}
			y.Run(t, "stop", "named").OK(t)
		}
		// Names alone open no connection.
		attack(t, y, []attempt{
			{Name: "look-up", Op: "lookup", To: "evil.test", inside: reaches("11.0.0.66")},
			secure("TLS to what was looked up", "11.0.0.66:443", "evil.test", nil, fails("ECONNRESET")),
			web("allowed", "11.0.0.10:80", "allow.test", nil, reaches(helloAllowed)),
		}, "--allow", "allow.test", "--dns", "open")
	})
}
