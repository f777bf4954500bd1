// Package tier says what a test may do where the machine lacks something: skip
// it, or fail. BAILEY_TEST_TIER decides (docs/testing.md). Tests alone import
// it; it runs nothing and reads nothing but that variable.
package tier

import (
	"os"
	"testing"
)

// Lacks ends a test that cannot be run because of what it names: "no cgroup2
// is mounted". In the tier of root, where everything can be had, it fails;
// elsewhere it is skipped. What no right on the machine could supply, such as
// another architecture, is t.Skip's.
func Lacks(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("BAILEY_TEST_TIER") == "root" {
		tb.Fatalf("%s: with BAILEY_TEST_TIER=root this has to be there", what)
	}
	tb.Skip(what)
}

// Root ends the test, as Lacks does, unless root runs it.
func Root(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		Lacks(tb, "root alone can do this")
	}
}
