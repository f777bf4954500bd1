package gitdata_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gitdata"
)

// samples are files whose meaning is compared with what the real git says.
func samples() map[string]string {
	return map[string]string{
		"plain":        "[core]\n\tbare = false\n[user]\n\tname = A B\n\temail = a@b.example\n",
		"comments":     "# c\n; d\n[a] ; e\n x = 1 # f\n y = \"2 # 3\" ; g\n",
		"same line":    "[a] x = 1\n[b \"S u.b\"] y = 2\n",
		"quotes":       "[a]\nx = \"  lead\"ing  and \"trail  \"  \ny = a\\\"b\\\\c\\nd\\te\n",
		"continuation": "[a]\nx = one \\\n   two \\\n three\ny=z\n",
		"no value":     "[a]\nflag\nother = \n",
		"subsections":  "[remote \"or\\\"i\\\\gin\"]\nurl = x\n[a.B.c]\nk = v\n",
		"crlf":         "[a]\r\nx = 1\r\ny = \"2\"\r\n",
		"bom":          "\ufeff[a]\nx = 1\n",
		"case":         "[CoRe]\nFileMode = true\n[Remote \"Up\"]\nURL = y\n",
		"inner blanks": "[a]\nx = b c d   \n",
		"last line":    "[a]\nx = 1",
	}
}

func TestParseConfig_ReadsWhatGitReads(t *testing.T) {
	t.Parallel()
	for name, text := range samples() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "git", "config", "--file", file, "--null", "--list").Output()
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for rec := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
				key, value, ok := strings.Cut(rec, "\n")
				if !ok {
					value = "true"
				}
				want = append(want, key+"="+value)
			}
			cfg, err := gitdata.ParseConfig([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range cfg {
				got = append(got, e.Name()+"="+e.Value)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("differs from git (-git +bailey):\n%s", diff)
			}
		})
	}
}

func TestParseConfig_RefusesWhatGitRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"[a\nx=1\n", "[a]\nx = \"open\n", "[a]\nx = \\q\n", "[a]\n= 1\n", "[a]\nx y\n", "[a \"b\nc\"]\n"} {
		if _, err := gitdata.ParseConfig([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := exec.CommandContext(t.Context(), "git", "config", "--file", file, "--list").Run(); err == nil {
			t.Errorf("git accepts %q", text)
		}
	}
}

func TestQuoteConfigValue_ReadsBack(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "a", `a"b\c`, " x ", "a\nb\tc", "#;", "é\u202e"} {
		cfg, err := gitdata.ParseConfig([]byte("[a]\nx = " + gitdata.QuoteConfigValue(value) + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := cfg.Get("a", "x"); got != value {
			t.Errorf("quoted %q reads back as %q", value, got)
		}
	}
}

func TestReadIdentity_HomeWinsOverXDG(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := gitdata.ReadIdentity(home, ""); got != (gitdata.Identity{}) {
		t.Errorf("without files: %+v", got)
	}
	write(".config/git/config", "[user]\nname = X\nemail = x@example\n[credential]\nhelper = store\n")
	write(".gitconfig", "[user]\nname = \"H \\n\"\n[include]\npath = other\n[broken")
	want := gitdata.Identity{Name: "H ", Email: "x@example"}
	if diff := cmp.Diff(want, gitdata.ReadIdentity(home, "")); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, s := range samples() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, _ := gitdata.ParseConfig(data)
		for _, e := range cfg {
			if e.Section == "" || e.Key == "" {
				t.Errorf("entry without a name: %+v", e)
			}
		}
	})
}
