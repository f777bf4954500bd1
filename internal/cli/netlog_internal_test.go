package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/netlog"
	"github.com/bailey-dev/bailey/internal/policy"
)

// The record of a secret's use is of one request: it has no bytes, and what the
// rule says of paths does not pass for the path that was asked for.
func TestShower_TextOfASecretsUse(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/":    "secret-used  secret ci  200  GET",
		"/api": "secret-used  secret ci  200  GET  below /api",
	} {
		e := bailey.Event{
			Type: bailey.EventSecretUse, Protocol: policy.ProtocolTLS, Host: "ci.example.com", Port: 443, Method: "GET", Path: path,
			Secret: "sec_0123456789abcdef", Name: "ci", Status: 200, Connection: 3,
		}
		r, ok := netlog.Of(e, "web", "")
		if !ok || r.Rule != "ci" {
			t.Fatalf("%+v", r)
		}
		if got := (shower{}).text(r); !strings.HasSuffix(got, "  "+want) {
			t.Errorf("%q, want %q at the end", got, want)
		}
	}
}

// Of a connection that was open and has ended the latest records have its end.
func TestNetWhy_LastHasNoOpenThatEnded(t *testing.T) {
	t.Parallel()
	a, id := &app{}, bailey.SandboxID("sbx_0123456789abcdef")
	a.host.UID = os.Getuid()
	a.host.Dirs = config.Dirs{State: t.TempDir()}
	w := netlog.NewWriter(a.host.Dirs.State, a.host.UID, id, time.Now, func(err error) { t.Error(err) })
	open := netlog.Record{Time: time.Now(), Sandbox: "web", ID: id, Name: "a.test", Port: 443, Verdict: "allow", Open: true, Connection: 1}
	used, ended, other := open, open, open
	used.Open, used.Secret = false, "sec_0123456789abcdef"
	ended.Open = false
	other.Connection = 2
	for _, r := range []netlog.Record{open, used, ended, other} {
		w.Write(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := (&netWhyCommand{}).last(a, policy.Request{Host: "a.test", Port: 443}, false)
	if err != nil || len(last) != 3 || !last[0].Open || last[1].Open || last[2].Secret == "" {
		t.Errorf("%+v, %v", last, err)
	}
}
