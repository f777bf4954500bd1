package cli_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bailey-dev/bailey/internal/cli"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/testkit/provider"
)

var update = flag.Bool("update-reference", false, "write docs/cli.md, docs/configuration.md, docs/bailey.schema.json and docs/models.schema.json")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"bailey": func() { os.Exit(cli.Main(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_RUNTIME_DIR", e.WorkDir) // no sandbox of this machine is in sight
			stop, err := serveStandIn(e.WorkDir)
			if err != nil {
				return err
			}
			e.Defer(stop)
			identity, err := age.GenerateX25519Identity()
			if err != nil {
				return err
			}
			e.Setenv("RECIPIENT", identity.Recipient().String())
			model := httptest.NewServer(provider.New("canary-model-key", provider.Say("ok")))
			e.Defer(model.Close)
			e.Setenv("MODELS", model.URL)
			quiet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/messages" {
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = io.WriteString(w, `{"model":"real-1","content":[]}`)
			}))
			e.Defer(quiet.Close)
			e.Setenv("QUIET", quiet.URL)
			nobody := httptest.NewServer(http.NotFoundHandler())
			nobody.Close()
			e.Setenv("NOBODY", nobody.URL)
			return os.WriteFile(filepath.Join(e.WorkDir, "identity"), []byte(identity.String()+"\n"), 0o600)
		},
		Condition: func(cond string) (bool, error) {
			program, ok := strings.CutPrefix(cond, "has:")
			if !ok {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			_, err := exec.LookPath(program)
			return err == nil, nil
		},
	})
}

// bailey runs one command line and returns what it printed and its exit code.
func bailey(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	dir := t.TempDir()
	var files [2]*os.File
	for i, name := range []string{"stdout", "stderr"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	code = cli.Main(t.Context(), append([]string{"bailey"}, args...), null, files[0], files[1])
	var text [2]string
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(b)
	}
	return text[0], text[1], code
}

// TestReference_IsUpToDate holds docs/cli.md, docs/configuration.md and the
// schemas to the program.
func TestReference_IsUpToDate(t *testing.T) {
	t.Parallel()
	for page, name := range map[string]string{"cli": "cli.md", "configuration": "configuration.md", "schema": "bailey.schema.json", "models-schema": "models.schema.json", "phase-schema": "phase.schema.json", "skill": "skills/delegation/SKILL.md"} {
		want, stderr, code := bailey(t, "reference", page)
		if code != 0 || want == "" {
			t.Fatalf("reference %s: exit %d: %s", page, code, stderr)
		}
		file := "../../docs/" + name
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(have), want); diff != "" {
			t.Errorf("docs/%s is out of date, run make gen (-page +program):\n%s", name, diff)
		}
	}
}

// TestLimits_HelpNamesTheDefaults holds the numbers that people read, in the
// help and in docs/limits.md, to the constants.
func TestLimits_HelpNamesTheDefaults(t *testing.T) {
	t.Parallel()
	help, _, _ := bailey(t, "reference", "cli")
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range config.LimitTable() {
		value, _, _ := strings.Cut(l.Default, ",")
		for where, text := range map[string]string{"the help": help, "docs/limits.md": string(page)} {
			row := lineWith(text, "`--"+l.Flag)
			if row == "" {
				t.Errorf("%s has no row for --%s", where, l.Flag)
			}
			if value != "none" && !strings.Contains(row, value) {
				t.Errorf("%s says of --%s: %q, the default is %s", where, l.Flag, row, value)
			}
		}
	}
}

func lineWith(text, part string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// TestMan_IsWellFormed reads the page by a formatter, where there is one.
func TestMan_IsWellFormed(t *testing.T) {
	t.Parallel()
	page, _, code := bailey(t, "man")
	if code != 0 || !strings.HasPrefix(page, ".TH BAILEY 1 ") {
		t.Fatalf("exit %d, page %.40q", code, page)
	}
	for i, line := range strings.Split(page, "\n") {
		macro := strings.HasPrefix(line, ".")
		if macro && !strings.Contains(" .TH .SH .SS .TP .PP .B .I .br .nf .fi .RS .RE ", " "+strings.Fields(line)[0]+" ") {
			t.Errorf("line %d begins with a macro by accident: %q", i+1, line)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return // the macros have been looked at above
	}
	cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = bytes.NewBufferString(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}
