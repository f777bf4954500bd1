package spec_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNative_ListIsComplete: each test of isolation and network is either tried
// with both kernels, or the list says why not.
func TestNative_ListIsComplete(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/native/tests")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := readTestNames(".")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, why, _ := strings.Cut(rest, ": ")
		switch {
		case kind == "" || kind == "#":
			continue
		case kind != "run" && kind != "not", kind == "not" && why == "", kind == "run" && why != "", listed[name]:
			t.Errorf("not a line of the list, or one too many: %s", line)
		case tests[name] == nil:
			t.Errorf("there is no %s", name)
		}
		listed[name] = true
	}
	claim := regexp.MustCompile(`^Test(ISO|EGR)[0-9]{2}_[A-Z][A-Za-z]{2}`)
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if claim.MatchString(name) && !listed[name] {
			t.Errorf("%s is not in the list", name)
		}
	}
}
