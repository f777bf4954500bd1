package spec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestEGR12_ASandboxCannotHoldATighteningBack: whatever a sandbox makes of the
// project's file, what the user takes out of their own is cut in time.
func TestEGR12_ASandboxCannotHoldATighteningBack(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	const many = `(echo net:; echo '  deny:'; seq 10000 | sed 's/.*/    - h&.e.io/') >bailey.yaml`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y)
		without := strings.Replace(bothHosts, "    - {host: allow.test, ports: [80, 443, 9000]}\n", "", 1)
		for _, c := range []struct{ name, start, do string }{
			{"A160 twin", "", "true"},
			{"A160 not YAML", "", "echo 'net: [' >bailey.yaml"},
			{"A160 a key that is not known", "", "echo 'nett: {}' >bailey.yaml"},
			{"A160 a preset that is not known", "", "echo 'net: {presets: [nothing]}' >bailey.yaml"},
			{"A160 a pipe", "", "mkfifo bailey.yaml"},
			{"A160 a folder", "", "mkdir bailey.yaml"},
			{"A160 a link to itself", "", "ln -s bailey.yaml bailey.yaml"},
			{"A160 a folder that nobody may enter", "", "chmod 0 ."},
			{"A160 a file that nobody may read", "", "echo >bailey.yaml; chmod 0 bailey.yaml"},
			{"A160 a long file", "", "truncate -s 1M bailey.yaml"},
			{"A160 many rules", "", many},
			{"A160 many rules in place of others", "net: {deny: [c.wild.test]}\n", many},
			{"A160 written without a pause", "net: {deny: [c.wild.test]}\n", many + `; cp bailey.yaml /tmp/b; (while :; do cat /tmp/b >bailey.yaml; done) >/dev/null 2>&1 & sleep 1`},
		} {
			t.Run(c.name, func(t *testing.T) {
				inTime(t, func() time.Duration {
					if c.start != "" {
						y.Write(t, "bailey.yaml", c.start)
					}
					replace(t, y, bothHosts)
					box := y.Start(t, "run", "--json", "--name", "held", "--", python, "-c", flows, "allow.test", "evil.test")
					defer func() {
						y.Run(t, "stop", "held")
						_ = os.Chmod(y.Dir, 0o755)
						_ = os.RemoveAll(filepath.Join(y.Dir, "bailey.yaml"))
					}()
					box.Await(t, "ready")
					opened(t, box, "allow.test")
					y.Run(t, "exec", "held", "--", "sh", "-c", c.do).OK(t)
					time.Sleep(within)
					since := time.Now()
					replace(t, y, without)
					took := cutWithin(t, box, "allow.test", since)
					opened(t, box, "evil.test")
					t.Logf("took %v", took)
					return took
				})
			})
		}
	})
}
