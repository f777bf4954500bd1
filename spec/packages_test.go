package spec_test

import (
	"flag"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updatePackages = flag.Bool("update-packages", false, "write the table of packages in docs/architecture.md")

const (
	architectureFile = "../docs/architecture.md"
	archLintFile     = "../.go-arch-lint.yml"
	packagesBegin    = "<!-- packages:begin -->\n"
	packagesEnd      = "<!-- packages:end -->"
)

// TestPackageTable holds the table of packages in docs/architecture.md to
// .go-arch-lint.yml and to the package comments, and both to the tree: every
// folder with Go files is in the table and has a comment.
func TestPackageTable(t *testing.T) {
	t.Parallel()
	table, missing := packageTable(t)
	for _, m := range missing {
		t.Error(m)
	}
	page, err := os.ReadFile(architectureFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), packagesBegin)
	have, after, ok2 := strings.Cut(rest, packagesEnd)
	if !ok || !ok2 {
		t.Fatalf("%s: the marks of the table are missing", architectureFile)
	}
	if *updatePackages {
		page := before + packagesBegin + table + packagesEnd + after
		if err := os.WriteFile(architectureFile, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(have, table); diff != "" {
		t.Errorf("the table is out of date, run make gen (-page +tree):\n%s", diff)
	}
}

var (
	componentLine = regexp.MustCompile(`^  ([a-z]+): +\{ in: ([^ ]+) \} +# ([0-9])$`)
	dependLine    = regexp.MustCompile(`^  ([a-z]+): +\{ mayDependOn: \[([a-z, ]*)\] \}$`)
)

// packageTable renders the table, and returns what is missing from it.
func packageTable(t *testing.T) (table string, problems []string) {
	t.Helper()
	lint, err := os.ReadFile(archLintFile)
	if err != nil {
		t.Fatal(err)
	}
	depends := map[string]string{}
	for line := range strings.SplitSeq(string(lint), "\n") {
		if m := dependLine.FindStringSubmatch(line); m != nil {
			depends[m[1]] = m[2]
		}
	}
	todo := sourceDirs(t)
	var out strings.Builder
	out.WriteString("| level | package | what it is | may import |\n|---|---|---|---|\n")
	for line := range strings.SplitSeq(string(lint), "\n") {
		m := componentLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, dir := range matching(todo, m[2]) {
			delete(todo, dir)
			what := synopsis(t, dir)
			if what == "" {
				problems = append(problems, dir+": no package comment")
			}
			_, _ = fmt.Fprintf(&out, "| %s | `%s` | %s | %s |\n", m[3], display(dir), what, depends[m[1]])
		}
	}
	for dir := range todo {
		problems = append(problems, dir+": in no component of .go-arch-lint.yml")
	}
	return out.String(), problems
}

func display(dir string) string {
	if dir == "." {
		return "bailey"
	}
	return dir
}

// sourceDirs returns the folders, relative to the repository, that hold Go
// files other than tests.
func sourceDirs(t *testing.T) map[string]bool {
	t.Helper()
	dirs := map[string]bool{}
	for _, pattern := range []string{"*.go", "spec/*.go", "cmd/*/*.go", "bench/*.go", "bench/*/*.go", "internal/*/*.go", "internal/*/*/*.go", "internal/*/*/*/*.go"} {
		files, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") || strings.Contains(f, "/testdata/") {
				continue
			}
			rel, err := filepath.Rel("..", filepath.Dir(f))
			if err != nil {
				t.Fatal(err)
			}
			dirs[rel] = true
		}
	}
	return dirs
}

// matching returns those of dirs that a component's path names, sorted.
func matching(dirs map[string]bool, pattern string) []string {
	var out []string
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		below, deep := strings.CutSuffix(pattern, "/**")
		ok, err := filepath.Match(pattern, dir)
		if err == nil && ok || deep && (dir == below || strings.HasPrefix(dir, below+"/")) {
			out = append(out, dir)
		}
	}
	return out
}

// synopsis returns the first sentence of the package comment, without the
// "Package x" it begins with.
func synopsis(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc == nil {
			continue
		}
		text := new(doc.Package).Synopsis(file.Doc.Text())
		for _, prefix := range []string{"Package " + file.Name.Name + " ", "Command " + filepath.Base(dir) + " "} {
			text = strings.TrimPrefix(text, prefix)
		}
		text = strings.TrimPrefix(text, "is ")
		return strings.TrimSuffix(strings.ReplaceAll(text, "|", "\\|"), ".")
	}
	return ""
}

// TestImports holds what each role and package must never reach, through
// whatever it imports. The reasons are the point: who wants to remove a row
// has to answer it.
func TestImports(t *testing.T) {
	t.Parallel()
	const (
		parses  = "the privileged side parses nothing hostile (ADR 0002)"
		pure    = "a decision does no I/O"
		skipped = "its initialisers are not run in a role that is not gVisor's (ADR 0007)"
		first   = "whatever it imports is initialised, and can be no more spared, before it runs (ADR 0007)"
		small   = "it is started inside the sandbox's kernel, where every megabyte costs (ADR 0007)"
	)
	gvisor := []string{"gvisor.dev/gvisor/", "google.golang.org/protobuf/", "github.com/cilium/ebpf"}
	for _, row := range []struct {
		pkg    string
		never  []string // paths; those that end with a slash and what is below them
		reason string
	}{
		{"internal/app/helper", []string{"net/http", "crypto/tls", "encoding/xml", "github.com/miekg/dns", "github.com/hashicorp/yamux"}, parses},
		{"internal/engine/local", []string{"net/http", "crypto/tls", "encoding/xml", "github.com/miekg/dns", "github.com/hashicorp/yamux"}, parses},
		{"internal/app/watchdog", []string{"net/http", "crypto/tls", "github.com/hashicorp/yamux"}, parses},
		{"internal/app/sandboxd", []string{"net/http", "crypto/tls"}, "the first process of a sandbox speaks the wire and nothing else"},
		{"internal/policy", []string{"os/exec", "log/slog", "golang.org/x/sys/unix"}, pure},
		{"internal/ocispec", []string{"net", "net/http", "log/slog"}, pure},
		{"internal/cli", gvisor, skipped},
		{"internal/app/helper", gvisor, skipped},
		{"internal/app/proxy", gvisor, skipped},
		{"internal/app/watchdog", gvisor, skipped},
		{"internal/app/sandboxd", gvisor, skipped},
		{"internal/posture", gvisor, skipped},
		{"internal/early", []string{"os", "strings", "sync", "gvisor.dev/gvisor/"}, first},
		{"internal/launch", []string{"net", "net/http", "gvisor.dev/gvisor/", "github.com/"}, first},
		{"cmd/sandboxd", []string{"net/http", "crypto/tls", "gvisor.dev/gvisor/", "github.com/alecthomas/kong"}, small},
		{"cmd/bailey", []string{"gvisor.dev/gvisor/runsc/gvisorbinaries/embed", "testing", "net/http/httptest"}, "47 MB of binaries that are not used; test code"},
	} {
		t.Run(row.pkg+" "+row.never[0], func(t *testing.T) {
			t.Parallel()
			deps := dependencies(t, "github.com/bailey-dev/bailey/"+row.pkg)
			for _, never := range row.never {
				if found := reached(deps, never); found != "" {
					t.Errorf("%s reaches %s: %s", row.pkg, found, row.reason)
				}
			}
		})
	}
}

// reached returns the first of deps, other than our own, that a path names.
func reached(deps map[string]bool, path string) string {
	for _, dep := range slices.Sorted(maps.Keys(deps)) {
		below := strings.HasSuffix(path, "/") && strings.HasPrefix(dep, path)
		if dep == path || below && !strings.HasPrefix(dep, "github.com/bailey-dev/bailey") {
			return dep
		}
	}
	return ""
}

// dependencies returns everything a package reaches. The twin is in it: a
// package that reaches nothing at all was not read.
func dependencies(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	deps := map[string]bool{}
	for line := range strings.SplitSeq(string(out), "\n") {
		deps[line] = true
	}
	if !deps[pkg] || !deps["unsafe"] {
		t.Fatalf("go list -deps %s says nothing of it", pkg)
	}
	return deps
}
