package landlock_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/landlock"
)

// inSandbox tries what a sandbox may do, and what it may not, below a folder.
func inSandbox(dir string) int {
	at := func(name string) string { return filepath.Join(dir, name) }
	if os.Getenv("SANDBOX_NOT") == "" {
		s := landlock.Sandbox{Memory: []string{at("memory")}, Dirs: []string{at("disk")}, Files: []string{at("file")}, Special: []string{"/dev"}}
		if err := landlock.ConfineSandbox(s); err != nil {
			fmt.Println("confine:", err)
			return 1
		}
	}
	try := func(what string, err error) {
		word := "ok"
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EXDEV) {
			word = "refused"
		} else if err != nil {
			word = err.Error()
		}
		fmt.Printf("%s: %s\n", what, word)
	}
	make := func(name string) error { return os.WriteFile(at(name), []byte("x"), 0o600) }
	_, err := os.ReadFile(at("out/there"))
	try("read anywhere", err)
	try("a program", exec.Command("/bin/true").Run())
	try("a file on disk", make("disk/new"))
	try("moved between folders", errors.Join(os.Mkdir(at("disk/sub"), 0o700), os.Rename(at("disk/new"), at("disk/sub/new"))))
	try("a link", os.Symlink("x", at("disk/link")))
	try("a file in memory", make("memory/new"))
	try("a pipe in memory", unix.Mkfifo(at("memory/pipe"), 0o600))
	try("the one file", make("file"))
	try("/dev/null", os.WriteFile("/dev/null", []byte("x"), 0))
	try("a pipe on disk", unix.Mkfifo(at("disk/pipe"), 0o600))
	try("a file elsewhere", make("out/new"))
	try("a file that is there", make("out/there"))
	try("emptied elsewhere", os.Truncate(at("out/there"), 0))
	try("a folder elsewhere", os.Mkdir(at("out/sub"), 0o700))
	try("removed elsewhere", os.Remove(at("out/gone")))
	try("moved out", os.Rename(at("disk/link"), at("out/link")))
	return 0
}

// TestISO05_SandboxWritesOnlyItsOwn: each line, with the twin that is not
// confined and may do all of it.
func TestISO05_SandboxWritesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	if landlock.Level() < landlock.SandboxLevel {
		t.Fatalf("this kernel has Landlock of ABI %d", landlock.Level())
	}
	free := map[string]bool{
		"read anywhere": true, "a program": true, "a file on disk": true, "moved between folders": true, "a link": true,
		"a file in memory": true, "a pipe in memory": true, "the one file": true, "/dev/null": true,
	}
	for _, confined := range []bool{true, false} {
		dir := t.TempDir()
		for _, name := range []string{"disk", "memory", "out"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"file", "out/there", "out/gone"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), "SANDBOX_DIR="+dir)
		if !confined {
			cmd.Env = append(cmd.Env, "SANDBOX_NOT=1")
		}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Count(string(out), "\n") != 16 {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			what, got, _ := strings.Cut(strings.TrimSpace(line), ": ")
			want := "ok"
			if confined && !free[what] {
				want = "refused"
			}
			if got != want {
				t.Errorf("confined %t, %s: %s, want %s", confined, what, got, want)
			}
		}
	}
}
