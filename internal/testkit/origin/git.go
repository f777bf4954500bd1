package origin

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Git serves /repo.git by git's own smart HTTP backend, to read and to write
// without a login. The repository has one commit with README.
type Git struct {
	http.Handler

	// Dir is the bare repository.
	Dir string
}

// NewGit makes the repository in a folder of the test.
func NewGit(tb testing.TB) *Git {
	tb.Helper()
	root := tb.TempDir()
	g := &Git{Dir: filepath.Join(root, "repo.git")}
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "README"), []byte("first words\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	for _, args := range [][]string{
		{"-C", work, "init", "--quiet", "--initial-branch=main"},
		{"-C", work, "add", "README"},
		{"-C", work, "commit", "--quiet", "-m", "first"},
		{"clone", "--quiet", "--bare", work, g.Dir},
		{"-C", g.Dir, "config", "http.receivepack", "true"},
	} {
		g.git(tb, args...)
	}
	backend := strings.TrimSpace(g.git(tb, "--exec-path")) + "/git-http-backend"
	g.Handler = &cgi.Handler{
		Path: backend,
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + root},
	}
	return g
}

// Log returns the subjects of the branch main, the newest first.
func (g *Git) Log(tb testing.TB) string {
	tb.Helper()
	return g.git(tb, "-C", g.Dir, "log", "--format=%s", "main")
}

func (g *Git) git(tb testing.TB, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
