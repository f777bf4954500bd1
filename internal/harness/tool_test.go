package harness_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/harness"
)

// TestPreset_AsTool: the launcher starts what Argv would have, whatever is in
// its arguments.
func TestPreset_AsTool(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "it's a program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '[%s]' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := harness.Preset{Name: "codex", Argv: []string{program, "-c", `a="b 'c' $HOME"`}, PathDir: "/x"}.AsTool()
	if p.Name != "" || p.Argv != nil || len(p.Files) != 1 || p.Files[0].Path != harness.Bin+"/codex" || p.Files[0].Mode != 0o700 {
		t.Fatalf("%+v", p)
	}
	launcher := filepath.Join(t.TempDir(), "codex")
	if err := os.WriteFile(launcher, p.Files[0].Data, p.Files[0].Mode); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), launcher, "exec", "two words", "")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || out.String() != `[-c][a="b 'c' $HOME"][exec][two words][]` {
		t.Errorf("%v %s", err, out.String())
	}
}

// TestPreset_Behind: a flag that a subcommand wants is there, once, with the
// launcher as without.
func TestPreset_Behind(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := harness.Preset{Name: "codex", Argv: []string{program, "-c"}, Behind: [2]string{"exec", "--skip"}}
	launcher := filepath.Join(t.TempDir(), "codex")
	if err := os.WriteFile(launcher, p.AsTool().Files[0].Data, 0o700); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"exec two":        "-c|exec|--skip|two|",
		"exec":            "-c|exec|--skip|",
		"exec --skip two": "-c|exec|--skip|two|",
		"resume exec":     "-c|resume|exec|",
		"":                "-c|",
	} {
		words := strings.Fields(args)
		for _, command := range [][]string{p.Command(words), append([]string{launcher}, words...)} {
			out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).Output()
			if err != nil || string(out) != want {
				t.Errorf("%q: %v %s, want %s", command, err, out, want)
			}
		}
	}
}

func TestPreset_With(t *testing.T) {
	t.Parallel()
	m := model(gateway.OpenAIResponses)
	codex, err := pin(t, "codex", m)
	if err != nil {
		t.Fatal(err)
	}
	pi, err := pin(t, "pi", m)
	if err != nil {
		t.Fatal(err)
	}
	qwen, err := pin(t, "qwen", model(gateway.OpenAIChat))
	if err != nil {
		t.Fatal(err)
	}
	all := codex.With(pi.AsTool()).With(qwen.AsTool())
	if all.Name != "codex" || len(all.Argv) != len(codex.Argv) {
		t.Errorf("%+v", all)
	}
	node := 0
	for _, mount := range all.Mounts {
		if strings.HasSuffix(mount.Target, "/node") {
			node++
		}
	}
	if node != 1 {
		t.Errorf("node is mounted %d times", node)
	}
	var launchers []string
	for _, f := range all.Files {
		if strings.HasPrefix(f.Path, harness.Bin) {
			launchers = append(launchers, filepath.Base(f.Path))
		}
	}
	if d := cmp.Diff([]string{"pi", "qwen"}, launchers); d != "" {
		t.Error(d)
	}
	if got := (harness.Preset{}).With(harness.Preset{Allow: []string{"a:1"}, Mounts: []bailey.Mount{{Target: "/x"}}}); len(got.Allow) != 1 || len(got.Mounts) != 1 {
		t.Errorf("%+v", got)
	}
}
