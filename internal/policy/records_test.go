package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

func TestCheckRecord(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"TXT", "_imap._tcp", "_xmpp-client._tcp", "_sip._tls", "_a1._udp"} {
		if err := policy.CheckRecord(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "txt", "SRV", "MX", "A", "_imap", "imap._tcp", "_imap._sctp", "_IMAP._tcp", "_._tcp", "_-a._tcp", "_a-._tcp", "_a._tcp.x", "x._a._tcp", "_a b._tcp", "_é._tcp"} {
		if err := policy.CheckRecord(bad); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRecords_OfOneHost(t *testing.T) {
	t.Parallel()
	records := policy.Narrow{Records: []string{policy.TXT, "_imap._tcp"}}
	for _, host := range []string{"*.example.com", "11.0.0.10"} {
		r, err := policy.ParseRule(host)
		if err == nil {
			_, err = r.With(records)
		}
		if bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%s: %v", host, err)
		}
	}
	r := narrowed(t, "mail.example.com", records)
	if got := r.Text(); got != "mail.example.com dns TXT,_imap._tcp" {
		t.Errorf("text %q", got)
	}
	b, err := json.Marshal(r)
	var back policy.Rule
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || cmp.Diff(r.Narrow, back.Narrow) != "" {
		t.Errorf("%s: %v, %v", b, back.Narrow, err)
	}
	x := policy.NewIndex(policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{r, rule(t, "other.example.com"), rule(t, "*.example.com")}})
	for host, want := range map[string]bool{"mail.example.com": true, "other.example.com": false, "x.example.com": false, "x.mail.example.com": false} {
		if got := x.ServesTXT(host); got != want {
			t.Errorf("TXT of %s: %v", host, got)
		}
	}
	for name, want := range map[string]string{
		"_imap._tcp.mail.example.com": "mail.example.com", "_IMAP._TCP.Mail.Example.com.": "mail.example.com",
		"_smtp._tcp.mail.example.com": "", "_imap._udp.mail.example.com": "", "_imap._tcp.other.example.com": "",
		"x._imap._tcp.mail.example.com": "", "_imap._tcp": "", "mail.example.com": "", `_imap\._tcp.mail.example.com`: "", "": "",
	} {
		host, ok := x.ServiceOf(name)
		if ok != (want != "") || ok && host != want {
			t.Errorf("%q: %q, %v", name, host, ok)
		}
	}
}

func TestStandsIn(t *testing.T) {
	t.Parallel()
	fenced := rule(t, "data.example.com")
	fenced.Fenced = true
	p := policy.Policy{
		Mode:  bailey.NetAllow,
		Allow: []policy.Rule{rule(t, "*.example.com"), rule(t, "www.example.com"), fenced},
		Deny:  []policy.Rule{rule(t, "half.example.com:8080")},
	}
	for host, want := range map[string]bool{
		"x.example.com": true, "a.b.example.com": true, "data.example.com": true, // a stranger's rule does not name it
		"www.example.com": false, "half.example.com": false, policy.ServiceHost: false,
	} {
		if got := policy.NewIndex(p).StandsIn(host); got != want {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
	p.DNS = bailey.DNSOpen
	if policy.NewIndex(p).StandsIn("x.example.com") {
		t.Error("names are open, and a name below a wildcard has a stand-in")
	}
}

// The file of a fenced rule may be a sandbox's: its names, which could hold
// data, are not looked up for connections that name no host.
func TestDeniedNames_NoStrangersName(t *testing.T) {
	t.Parallel()
	own, strange := rule(t, "own.example.com"), rule(t, "data.example.com")
	strange.Fenced = true
	p := policy.Policy{Mode: bailey.NetOpen, Deny: []policy.Rule{own, strange}}
	if got := p.DeniedNames(443); len(got) != 1 || got[0].Host != "own.example.com" {
		t.Errorf("looked up: %v", got)
	}
	for _, host := range []string{"own.example.com", "data.example.com"} { // said, both hold
		if d := policy.Decide(p, request(host, 443, "", "")); d.Verdict != bailey.Deny {
			t.Errorf("%s: %+v", host, d)
		}
	}
}

// A project's rule for records is within another only where that names them.
func TestCovers_Records(t *testing.T) {
	t.Parallel()
	txt := narrowed(t, "a.example.com", policy.Narrow{Records: []string{policy.TXT}})
	both := narrowed(t, "a.example.com", policy.Narrow{Records: []string{policy.TXT, "_imap._tcp"}})
	plain := rule(t, "a.example.com")
	for _, c := range []struct {
		what     string
		have, is policy.Rule
		want     bool
	}{
		{"fewer", both, txt, true},
		{"none", txt, plain, true},
		{"more", txt, both, false},
		{"any at all", plain, txt, false},
	} {
		p := policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{c.have}}
		if got := p.Covers(c.is); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	for _, mode := range []bailey.NetMode{bailey.NetOpen, bailey.NetFull} {
		if (policy.Policy{Mode: mode}).Covers(txt) {
			t.Errorf("mode %s covers records, and answers none", mode)
		}
	}
}

// rule reads a rule, or ends the test.
func rule(t *testing.T, text string) policy.Rule {
	t.Helper()
	r, err := policy.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
