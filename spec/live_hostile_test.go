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
// project's file, what the user takes out of their own holds in time, and what
// the project's file took away stays taken.
func TestEGR12_ASandboxCannotHoldATighteningBack(t *testing.T) {
	t.Attr("claim", "EGR-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		longLived(t, y)
		const both, one = "net:\n  allow: [allow.test, evil.test, a.wild.test]\n", "net:\n  allow: [evil.test, a.wild.test]\n"
		replace(t, y, both)
		y.Write(t, "bailey.yaml", "net:\n  deny: [a.wild.test]\n")
		box := y.Start(t, "run", "--name", "held", "--", "sh", "-c", "echo ready; sleep 600")
		box.Await(t, "ready")
		reaches := func(host string) bool {
			return strings.Contains(get(t, y, "held", host), "the page of "+host)
		}
		for _, c := range []struct{ name, do string }{
			{"A160 twin", "true"},
			{"A160 not YAML", "echo 'net: [' >bailey.yaml"},
			{"A160 a key that is not known", "echo 'nett: {}' >bailey.yaml"},
			{"A160 a preset that is not known", "echo 'net: {presets: [nothing]}' >bailey.yaml"},
			{"A160 a folder", "rm bailey.yaml; mkdir bailey.yaml"},
			{"A160 a link to itself", "rm bailey.yaml; ln -s bailey.yaml bailey.yaml"},
			{"A160 a long file", "truncate -s 1M bailey.yaml"},
			{"A160 a file that nobody may read", "chmod 0 bailey.yaml"},
			{"A160 a folder that nobody may enter", "chmod 0 ."},
		} {
			t.Run(c.name, func(t *testing.T) {
				defer func() {
					_ = os.Chmod(y.Dir, 0o755)
					_ = os.RemoveAll(filepath.Join(y.Dir, "bailey.yaml"))
					y.Write(t, "bailey.yaml", "net:\n  deny: [a.wild.test]\n")
					replace(t, y, both)
					yard.Eventually(t, yard.Timeout, func() bool { return reaches("allow.test") }, func() string { return "it does not open again" })
				}()
				if !reaches("allow.test") {
					t.Fatal("it is not open")
				}
				y.Run(t, "exec", "held", "--", "sh", "-c", c.do).OK(t)
				time.Sleep(within)
				replace(t, y, one)
				inTime(t, func() time.Duration {
					time.Sleep(within)
					if reaches("allow.test") {
						return 2 * within
					}
					return 0
				})
				if !reaches("evil.test") || reaches("a.wild.test") {
					_, stderr := box.Output()
					t.Errorf("something else changed:\n%s", stderr)
				}
			})
		}
	})
}
