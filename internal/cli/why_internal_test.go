package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/netlog"
)

// TestNetWhy_ProposesWhatTheEndOfARunDoes: the port that was tried, and both of
// the web as a rule without one.
func TestNetWhy_ProposesWhatTheEndOfARunDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tried  []uint16
		asked  string
		want   []string
		wanted int // proposals
	}{
		"TLS alone":      {[]uint16{443}, "a.test", []string{"bailey run --allow a.test:443 …", "net: {allow: [a.test:443]}"}, 1},
		"plain alone":    {[]uint16{80}, "a.test", []string{"bailey run --allow a.test:80 …"}, 1},
		"both":           {[]uint16{80, 443}, "a.test", []string{"bailey run --allow a.test …", "net: {allow: [a.test]}"}, 1},
		"and another":    {[]uint16{80, 8080, 443}, "a.test", []string{"bailey run --allow a.test …", "bailey run --allow a.test:8080 …"}, 2},
		"one is written": {[]uint16{80, 443}, "a.test:443", []string{"bailey run --allow a.test:443 …"}, 1},
		"none tried":     {nil, "a.test", []string{"bailey run --allow a.test …"}, 1},
		"looked up":      {[]uint16{0}, "a.test", []string{"bailey run --allow a.test …"}, 1},
	} {
		var out bytes.Buffer
		a := &app{ctx: t.Context(), stdout: &out, stderr: &out}
		a.host.UID, a.host.Dir = os.Getuid(), t.TempDir()
		a.host.Env = func(string) (string, bool) { return "", false }
		a.host.Dirs = config.Dirs{State: t.TempDir(), Config: t.TempDir(), Data: t.TempDir()}
		w := netlog.NewWriter(a.host.Dirs.State, a.host.UID, bailey.SandboxID("sbx_0123456789abcdef"), time.Now, func(err error) { t.Error(err) })
		for i, port := range c.tried {
			w.Write(netlog.Record{Time: time.Now(), Sandbox: "web", Name: "a.test", Port: port, Verdict: "deny", Reason: "not-allowed", Connection: uint64(i + 1)})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := (&netWhyCommand{Host: c.asked}).Run(a); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, out.String())
			}
		}
		if n := strings.Count(out.String(), "to allow it in a run:"); n != c.wanted {
			t.Errorf("%s: %d proposals in\n%s", name, n, out.String())
		}
	}
}
