package spec_test

import (
	"archive/zip"
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/tier"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestRun_GoBuildsOffline: --tool go shows the modules that were downloaded,
// so that a project builds without a network; without it they are not there.
func TestRun_GoBuildsOffline(t *testing.T) {
	t.Parallel()
	if path, err := exec.LookPath("go"); err != nil || !strings.HasPrefix(path, "/usr/") {
		tier.Lacks(t, "go is not one of the system's programs")
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		const module = "module dependency.test/m\n\ngo 1.20\n"
		var archive bytes.Buffer
		z := zip.NewWriter(&archive)
		for name, text := range map[string]string{"go.mod": module, "m.go": "package m\n\nconst Word = 1\n"} {
			w, err := z.Create("dependency.test/m@v1.0.0/" + name)
			if err == nil {
				_, err = w.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		const at = "go/pkg/mod/cache/download/dependency.test/m/@v/"
		for name, text := range map[string]string{"list": "v1.0.0\n", "v1.0.0.info": `{"Version":"v1.0.0"}`, "v1.0.0.mod": module, "v1.0.0.zip": archive.String()} {
			y.WriteHome(t, at+name, text)
		}
		y.WriteHome(t, "go/pkg/mod/cache/vcs/secret", "x")
		y.Write(t, "go.mod", "module w\n\ngo 1.20\n\nrequire dependency.test/m v1.0.0\n")
		y.Write(t, "w.go", "package w\n\nimport \"dependency.test/m\"\n\nconst Word = m.Word\n")
		args := func(flags ...string) []string {
			return append(append([]string{"run", "--env", "GONOSUMDB=*", "--env", "GOFLAGS=-mod=mod"}, flags...), "--",
				"sh", "-c", "go list -deps . && ! test -e "+y.Home+"/go/pkg/mod/cache/vcs && ! touch "+y.Home+"/go/pkg/mod/cache/download/made")
		}
		path := func(c *exec.Cmd) { c.Env = append(c.Env, "PATH=/usr/local/go/bin:/usr/bin:/bin") }
		r := y.RunWith(t, path, args("--tool", "go")...).OK(t)
		if !strings.Contains(r.Stdout, "dependency.test/m\n") || !strings.Contains(r.Stderr, "/go/pkg/mod/cache/download (--tool go: downloaded modules)\n") {
			t.Errorf("%+v", r)
		}
		if r := y.RunWith(t, path, args()...); r.Code == 0 || strings.Contains(r.Stderr, "mounted") {
			t.Errorf("twin: modules that nobody asked for: %+v", r)
		}
	})
}
