package run_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/mirror"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
)

// refusal is an event of a host that no rule names.
func refusal(host string) bailey.Event {
	return bailey.Event{Type: bailey.EventNetDecision, Protocol: "tls", Host: host, Port: 443, Address: "11.0.0.66", Verdict: "deny", Reason: "not-allowed"}
}

func footer(events ...bailey.Event) string {
	var out bytes.Buffer
	run.NetFooter(&out, events...)
	return out.String()
}

// What can be copied names a host once, and none that the person refused.
func TestNetFooter_OffersEachHostOnce(t *testing.T) {
	t.Parallel()
	lookup, web, no := refusal("a.test"), refusal("a.test"), refusal("no.test")
	lookup.Protocol, lookup.Port, lookup.Address = "dns", 0, ""
	web.Reason = policy.ReasonNotAnswered
	no.Reason = policy.ReasonAnsweredNo
	got := footer(lookup, web, refusal("b.test"), no)
	for _, want := range []string{
		"  no.test (answered-no)   --allow no.test:443\n",
		"to allow the others: --allow a.test --allow b.test:443\n",
		"net: {allow: [a.test, b.test:443]}\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if got := footer(no); strings.Contains(got, "for every run") {
		t.Errorf("what was refused alone: %s", got)
	}
}

func TestNetFooter_QuotesWhatIsNoHostName(t *testing.T) {
	t.Parallel()
	const forged = "packages.example.org (not-allowed)   --allow attacker.example"
	for name, want := range map[string]string{
		forged:                   `  "` + forged + `" (invalid-name: no rule mends it)`,
		"a\nb.test":              `  "a\nb.test" (invalid-name: no rule mends it)`,
		"a_b.test":               `  "a_b.test" (invalid-name: no rule mends it)`,
		strings.Repeat("x", 300): `  "` + strings.Repeat("x", 128) + `"… (invalid-name: no rule mends it)`,
		"evil.test":              "  evil.test (invalid-name: no rule mends it)",
	} {
		e := refusal(name)
		e.Reason = policy.ReasonInvalidName
		if got := footer(e); got != "bailey: the network refused:\nbailey: "+want+"\n" {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
	if got := footer(refusal("evil.test")); !strings.Contains(got, "  evil.test (not-allowed)   --allow evil.test:443\n") {
		t.Errorf("twin: %q", got)
	}
}

func TestNetFooter_SaysInWordsWhatNoRuleMends(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		policy.ReasonUnresolved:     "(this machine could not resolve it: check the name, and this machine's DNS, 2 times)",
		policy.ReasonSpecialAddress: "(a private or special address, which no rule for a host opens, 2 times)",
		policy.ReasonHostAddress:    "(an address of this machine itself, which no rule for a host opens, 2 times)",
		policy.ReasonDeniedByRule:   "(a deny rule refuses it, and deny beats allow, 2 times)",
		policy.ReasonECH:            "(its name may be encrypted: switch ECH off in the client, or give the host inspect: true, 2 times)",
		policy.ReasonBadTLS:         "(bad-tls: no rule mends it, 2 times)",
		policy.ReasonUpstream:       "(allowed, but it did not answer, 2 times)",
		policy.ReasonNotAllowed:     "(not-allowed, 2 times)   --allow a.test:443",
	} {
		e := refusal("a.test")
		e.Reason, e.Address = reason, "127.0.0.1"
		got, file, has := strings.Cut(footer(e, e), "bailey: for every run, in config.yaml, or in bailey.yaml with bailey policy trust:   ")
		if has != (reason == policy.ReasonNotAllowed) || has && file != "net: {allow: [a.test:443]}\n" {
			t.Errorf("%s: the line for a file: %q", reason, file)
		}
		title := "the network refused"
		if reason == policy.ReasonUnresolved || reason == policy.ReasonUpstream {
			title = "allowed, and could not be reached"
		}
		if got != "bailey: "+title+":\nbailey:   a.test "+want+"\n" {
			t.Errorf("%s: %q", reason, got)
		}
		var out bytes.Buffer
		if run.NetEvents(&out, true, e); !strings.Contains(out.String(), `"reason":"`+reason+`"`) {
			t.Errorf("twin: an event has the code: %s", out.String())
		}
	}
}

// TestNetFooter_SaysApartWhatWasNotReached: an allowed host whose name has no
// address was not refused, and is offered nowhere.
func TestNetFooter_SaysApartWhatWasNotReached(t *testing.T) {
	t.Parallel()
	lost := refusal("lost.test")
	lost.Reason = policy.ReasonUnresolved
	shut := refusal("shut.test")
	want := `bailey: the network refused:
bailey:   shut.test (not-allowed)   --allow shut.test:443
bailey: allowed, and could not be reached:
bailey:   lost.test (this machine could not resolve it: check the name, and this machine's DNS)
bailey: for every run, in config.yaml, or in bailey.yaml with bailey policy trust:   net: {allow: [shut.test:443]}
`
	if diff := cmp.Diff(want, footer(lost, shut)); diff != "" {
		t.Error(diff)
	}
	lost.Host, lost.Address = "", "11.0.0.66" // a deny rule whose addresses nobody can say
	if got := footer(lost); !strings.HasPrefix(got, "bailey: the network refused:\n") {
		t.Errorf("twin: %s", got)
	}
}

// TestNetFooter_NamesNoHostThatWasNone: programs that know of bailey's proxy
// hold connections to it in store, and end them without a word.
func TestNetFooter_NamesNoHostThatWasNone(t *testing.T) {
	t.Parallel()
	for _, port := range []uint16{3128, 1080} {
		e := bailey.Event{Type: bailey.EventNetDecision, Protocol: "tcp", Address: "192.0.0.1", Port: port, Verdict: "deny", Reason: policy.ReasonSilent}
		if got := footer(e); got != "" {
			t.Errorf("a connection that said nothing: %q", got)
		}
		e.Reason = policy.ReasonBadTLS // the twin: something was said
		if got := footer(e); got != "bailey: the network refused:\nbailey:   a connection to bailey's own proxy (bad-tls: no rule mends it)\n" {
			t.Errorf("a refusal of the proxy's: %q", got)
		}
	}
	for _, e := range []bailey.Event{
		{Address: "11.0.0.66", Port: 3128, Reason: policy.ReasonSilent},
		{Address: "192.0.0.1", Port: 22, Reason: policy.ReasonSilent},
	} {
		e.Type, e.Verdict = bailey.EventNetDecision, "deny"
		if got := footer(e); !strings.Contains(got, "  "+e.Address+" (silent") {
			t.Errorf("twin: %s is not shown: %q", e.Address, got)
		}
	}
}

// Each row says what would allow it, and one line for a file says all of them.
func TestNetFooter_SaysFlagAndLine(t *testing.T) {
	t.Parallel()
	plain := refusal("a.test")
	plain.Port = 80
	other := refusal("a.test")
	other.Port = 22
	inside := refusal("db.test")
	inside.Port, inside.Address, inside.Reason = 5432, "10.1.2.3", policy.ReasonSpecialAddress
	service := refusal(policy.ServiceHost)
	service.Port = 11434
	star := refusal("")
	star.Address, star.Protocol = "11.0.0.66", "tcp"
	literal := star
	literal.Address, literal.Reason, literal.Port = "10.9.9.9", policy.ReasonSpecialAddress, 22
	got := footer(refusal("a.test"), plain, other, inside, service, star, literal)
	want := `bailey: the network refused:
bailey:   a.test (not-allowed, 3 times)   --allow a.test --allow a.test:22
bailey:   db.test (10.1.2.3 is an address that only a rule in a file can open)   {host: db.test, ports: [5432], addresses: [10.1.2.3]}
bailey:   host.bailey.internal (a service of this machine)   --host-service 11434
bailey:   11.0.0.66 (not-allowed)   --allow 11.0.0.66:443
bailey:   10.9.9.9 (10.9.9.9 is an address that only a rule in a file can open)   {host: 10.9.9.9, ports: [22], addresses: [10.9.9.9]}
bailey: to allow them all: --allow a.test --allow a.test:22 --allow 11.0.0.66:443 --host-service 11434
bailey: for every run, in config.yaml, or in bailey.yaml with bailey policy trust:   net: {allow: [a.test, a.test:22, 11.0.0.66:443, {host: db.test, ports: [5432], addresses: [10.1.2.3]}, {host-service: 11434}, {host: 10.9.9.9, ports: [22], addresses: [10.9.9.9]}]}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, line, _ := strings.Cut(got, "bailey policy trust:   ")
	file, err := settings.Parse("config.yaml", []byte(line))
	if err != nil {
		t.Fatalf("the line is no policy file: %v", err)
	}
	e, err := settings.Resolve(settings.Sources{Files: settings.Files{User: file}}, mirror.Host{})
	if err != nil {
		t.Fatal(err)
	}
	for host, port := range map[string]uint16{"a.test": 22, "db.test": 5432, policy.ServiceHost: 11434} {
		if d := policy.Decide(e.Policy(), policy.Request{Protocol: policy.ProtocolTCP, Host: host, Port: port}); d.Verdict != bailey.Allow {
			t.Errorf("%s is not allowed by it: %+v", host, d)
		}
	}
}

func TestNetEvent_HostIsAName(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]bailey.Event{
		"evil.test":    {Host: "evil.test", Message: "why"},
		"EVIL.test.":   {Host: "evil.test", Message: "why"},
		"":             {Message: "why"},
		"x (allowed)":  {Message: `"x (allowed)" is no host name: why`},
		"11.0.0.1:80":  {Message: `"11.0.0.1:80" is no host name: why`},
		"said already": {Message: `"said already" is no host name: why`},
	} {
		e := refusal(said)
		if e.Message = "why"; strings.HasPrefix(said, "said") {
			e.Message = want.Message
		}
		var out bytes.Buffer
		run.NetEvents(&out, true, e)
		var got bailey.Event
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Host != want.Host || got.Message != want.Message {
			t.Errorf("%q: %v, host %q, message %q; want %+v", said, err, got.Host, got.Message, want)
		}
	}
}

func TestNetFooter_CopiesOnlyWhatItShows(t *testing.T) {
	t.Parallel()
	var events []bailey.Event
	for i := range 12 {
		events = append(events, refusal(fmt.Sprintf("h%d.test", i)))
	}
	got := footer(events...)
	if !strings.Contains(got, "to allow them all: --allow h0.test:443 ") || !strings.Contains(got, "--allow h11.test:443\n") || strings.Contains(got, "more") {
		t.Errorf("twin: twelve: %s", got)
	}
	got = footer(append(events, refusal("drop.attacker.example"))...)
	if strings.Contains(got, "attacker") || !strings.Contains(got, "  and 1 more\n") || !strings.Contains(got, "to allow those above: --allow h0.test:443 ") {
		t.Errorf("thirteen: %s", got)
	}
	long := strings.Repeat(strings.Repeat("a", 60)+".", 3)
	for i := range events {
		events[i] = refusal(fmt.Sprintf("%s%d.test", long, i))
	}
	for line := range strings.Lines(footer(events...)) {
		if len(line) > 1100 || strings.Contains(line, "to allow") || strings.Contains(line, "for every run") {
			t.Errorf("long names: %d bytes: %s", len(line), line)
		}
	}
}

func TestNetLine_NamesWhatIsDenied(t *testing.T) {
	t.Parallel()
	rules := func(n int) []policy.Rule {
		var list []policy.Rule
		for i := range n {
			list = append(list, policy.Rule{Host: fmt.Sprintf("h%d.test", i)})
		}
		return list
	}
	for want, p := range map[string]policy.Policy{
		"network: none (--allow HOST lets it reach one)": {Deny: rules(1)},
		"network: h0.test":                                            {Mode: bailey.NetAllow, Allow: rules(1)},
		"network: h0.test; denied: h0.test":                           {Mode: bailey.NetAllow, Allow: rules(1), Deny: rules(1)},
		"network: open: any public address":                           {Mode: bailey.NetOpen},
		"network: open: any public address; denied: h0.test, h1.test": {Mode: bailey.NetOpen, Deny: rules(2)},
		"network: h0.test, h1.test, h2.test, h3.test, h4.test, h5.test, and 1 more; denied: h0.test": {Mode: bailey.NetAllow, Allow: rules(7), Deny: rules(1)},
	} {
		if got := run.NetLine(p); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}

func TestFiltered_IsInOrder(t *testing.T) {
	t.Parallel()
	for range 20 {
		if got := run.Filtered(map[string]uint64{"title": 2, "clipboard": 1, "query": 3}); got != "clipboard 1, query 3, title 2" {
			t.Fatal(got)
		}
	}
}
