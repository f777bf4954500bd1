package carry_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/carry"
)

// made has git make an object of what it reads, and returns its id.
func made(b *bench, input string, args ...string) string {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = b.repo, gitEnv(), strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// plant commits a tree of few objects to main: a file under so many names, in a
// folder that has so many names, and so on. Without a file the innermost
// folders are empty.
func plant(b *bench, file *string, names ...int) {
	b.Helper()
	mode, kind, id := "040000", "tree", made(b, "", "mktree")
	if file != nil {
		mode, kind, id = "100644", "blob", made(b, *file, "hash-object", "-w", "--stdin")
	}
	for _, n := range names {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, "%s %s %s\t%d\n", mode, kind, id, i)
		}
		mode, kind, id = "040000", "tree", made(b, lines.String(), "mktree")
	}
	git(b, b.repo, "update-ref", "refs/heads/main", git(b, b.repo, "commit-tree", "-m", "planted", id))
}

// TestSnapshot_OfWhatIsHugeOnceItIsWrittenOut: a repository of a few objects
// can hold a tree without end. Neither a task's clone nor a check's is made of
// one, nor begun; what is within the limits, by the same names, is.
func TestSnapshot_OfWhatIsHugeOnceItIsWrittenOut(t *testing.T) {
	t.Parallel()
	large, small, long := strings.Repeat("\x00", 32<<20), "x", strings.Repeat("n", 250)
	for name, c := range map[string]struct {
		says  string
		plant func(b *bench)
	}{
		"one file under many names":      {"files of 12800 MiB in all, and a copy may have 10240 MiB", func(b *bench) { plant(b, &large, 20, 20) }},
		"the names alone":                {"", func(b *bench) { plant(b, &small, 20, 20) }},
		"files without end":              {"more than 2000 files and folders", func(b *bench) { b.limits.TreeNames = 2000; plant(b, &small, 100, 100, 100, 100, 100) }},
		"empty folders without end":      {"more than 2000 files and folders", func(b *bench) { b.limits.TreeNames = 2000; plant(b, nil, 100, 100, 100, 100, 100) }},
		"some empty folders":             {"", func(b *bench) { plant(b, nil, 10, 10) }},
		"a path that cannot be":          {"a path of more than 4095 bytes", func(b *bench) { deep(b, long, 17) }},
		"a long path":                    {"", func(b *bench) { deep(b, long, 10) }},
		"one byte more than the limit":   {"files of 2 MiB in all, and a copy may have 1 MiB", func(b *bench) { b.limits.TreeBytes = 1 << 20; sized(b, 1<<20+1) }},
		"as many bytes as the limit":     {"", func(b *bench) { b.limits.TreeBytes = 1 << 20; sized(b, 1<<20) }},
		"one name more than the limit":   {"more than 3 files and folders", func(b *bench) { b.limits.TreeNames = 3; plant(b, &small, 4) }},
		"as many names as the limit has": {"", func(b *bench) { b.limits.TreeNames = 3; plant(b, &small, 3) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c.plant(b)
			_, err := b.snapshot()
			ofCheck := b.checkout("main")
			for what, err := range map[string]error{"snapshot": err, "check": ofCheck} {
				switch {
				case c.says == "" && err != nil:
					t.Errorf("twin: %s: %v", what, err)
				case c.says != "" && (kindOf(err) != "exhausted" || !strings.Contains(err.Error(), c.says)):
					t.Errorf("%s: kind %s: %v", what, kindOf(err), err)
				}
			}
			written, err := filepath.Glob(b.folder + "/c*/[0-9n]*")
			if err != nil || (len(written) > 0) != (c.says == "") && !strings.Contains(name, "empty") {
				t.Errorf("written out: %d, %v", len(written), err)
			}
		})
	}
}

// deep plants a file in so many folders, one in the other.
func deep(b *bench, name string, folders int) {
	b.Helper()
	x := "x"
	plant(b, &x, 1)
	id := git(b, b.repo, "rev-parse", "main^{tree}")
	for range folders {
		id = made(b, "040000 tree "+id+"\t"+name+"\n", "mktree")
	}
	git(b, b.repo, "update-ref", "refs/heads/main", git(b, b.repo, "commit-tree", "-m", "deep", id))
}

// sized plants one file of so many bytes.
func sized(b *bench, bytes int) {
	b.Helper()
	text := strings.Repeat("s", bytes)
	plant(b, &text, 1)
}

// checkout makes the copy of a branch that a check has.
func (b *bench) checkout(branch string) error {
	b.Helper()
	_, err := b.do(carry.Request{Checkout: &carry.Checkout{Repository: b.place(), Branch: branch, Clone: b.folder + "/check"}})
	return err
}
