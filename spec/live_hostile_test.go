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
		reaches := func(t *testing.T, host string) bool {
			t.Helper()
			return strings.Contains(get(t, y, "held", host), "the page of "+host)
		}
		for i, c := range []struct{ name, do string }{
			{"A161 twin", "true"},
			{"A161 not YAML", "echo 'net: [' >bailey.yaml"},
			{"A161 a key that is not known", "echo 'nett: {}' >bailey.yaml"},
			{"A161 a preset that is not known", "echo 'net: {presets: [nothing]}' >bailey.yaml"},
			{"A161 a folder", "rm bailey.yaml; mkdir bailey.yaml"},
			{"A161 a link to itself", "rm bailey.yaml; ln -s bailey.yaml bailey.yaml"},
			{"A161 a long file", "truncate -s 1M bailey.yaml"},
			{"A161 a file that nobody may read", "chmod 0 bailey.yaml"},
		} {
			if i > 0 && !y.Turn(i) { // the twin is each one's
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				defer func() {
					_ = os.RemoveAll(filepath.Join(y.Dir, "bailey.yaml"))
					y.Write(t, "bailey.yaml", "net:\n  deny: [a.wild.test]\n")
					replace(t, y, both)
					yard.Eventually(t, yard.Timeout, func() bool { return reaches(t, "allow.test") }, func() string { return "it does not open again" })
				}()
				if !reaches(t, "allow.test") {
					t.Fatal("it is not open")
				}
				y.Run(t, "exec", "held", "--", "sh", "-c", c.do).OK(t)
				time.Sleep(within)
				replace(t, y, one)
				inTime(t, func() time.Duration {
					time.Sleep(within)
					if reaches(t, "allow.test") {
						return 2 * within
					}
					return 0
				})
				if !reaches(t, "evil.test") || reaches(t, "a.wild.test") {
					_, stderr := box.Output()
					t.Errorf("something else changed:\n%s", stderr)
				}
			})
		}
	})
}
