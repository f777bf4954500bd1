package config_test

import (
	"encoding"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
)

// vars is an environment.
func vars(m map[string]string) config.Lookup {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

func TestValues_AreReadAsWritten(t *testing.T) {
	t.Parallel()
	bytes := func() encoding.TextUnmarshaler { return new(config.Bytes) }
	cpus := func() encoding.TextUnmarshaler { return new(config.CPUs) }
	count := func() encoding.TextUnmarshaler { return new(config.Count) }
	ago := func() encoding.TextUnmarshaler { return new(config.Span) }
	span := func() encoding.TextUnmarshaler { return new(config.Duration) }
	for _, c := range []struct {
		make func() encoding.TextUnmarshaler
		good map[string]int64
		bad  []string
	}{
		{
			bytes,
			map[string]int64{
				"1": 1, "512b": 512, "1k": 1 << 10, "1KB": 1 << 10, "1KiB": 1 << 10, "2M": 2 << 20,
				"1.5g": 3 << 29, " 4G ": 4 << 30, "4096T": 1 << 52,
			},
			[]string{
				"", "0", "-1", "b", "G", "0.5", "4097T", "1e3", "0x10", "1_000", "+1", "inf", "nan",
				"1i", "512i", "1bb", "1kk", "1kibb", "1x", "4 G", "4g4", "９",
			},
		},
		{
			cpus,
			map[string]int64{"1": 1000, "0.5": 500, "0.01": 10, "4096": 4096000},
			[]string{"", "0", "0.009", "4097", "nan", "inf", "-1", "1e1", "two"},
		},
		{count, map[string]int64{"1": 1, "512": 512}, []string{"", "0", "-1", "1.5", "1k", "9223372036854775808"}},
		{
			span,
			map[string]int64{"90s": int64(90 * time.Second), "2h": int64(2 * time.Hour)},
			[]string{"", "0s", "-1s", "90", "soon"},
		},
		{
			ago,
			map[string]int64{"90m": int64(90 * time.Minute), "1d": int64(24 * time.Hour), "7d": int64(7 * 24 * time.Hour)},
			[]string{"", "0d", "-1d", "d", "1.5d", "100001d", "9999999999999999999d", "7", "0h"},
		},
	} {
		for in, want := range c.good {
			v := c.make()
			if err := v.UnmarshalText([]byte(in)); err != nil || numberOf(t, v) != want {
				t.Errorf("%T of %q is %d, %v; want %d", v, in, numberOf(t, v), err, want)
			}
		}
		for _, in := range c.bad {
			v := c.make()
			if err := v.UnmarshalText([]byte(in)); bailey.KindOf(err) != bailey.Invalid || numberOf(t, v) != 0 {
				t.Errorf("%T of %q is %d, %v; want an error", v, in, numberOf(t, v), err)
			}
		}
	}
}

func numberOf(t *testing.T, v encoding.TextUnmarshaler) int64 {
	t.Helper()
	switch v := v.(type) {
	case *config.Bytes:
		return int64(*v)
	case *config.CPUs:
		return int64(*v)
	case *config.Count:
		return int64(*v)
	case *config.Duration:
		return int64(*v)
	case *config.Span:
		return int64(*v)
	}
	t.Fatalf("unknown type %T", v)
	return 0
}

func FuzzBytes(f *testing.F) {
	for _, s := range []string{"1.5G", "4096T", "0.0001k", "1e9", "-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var b config.Bytes
		if b.UnmarshalText([]byte(in)) != nil {
			return
		}
		var again config.Bytes
		if err := again.UnmarshalText([]byte(b.String())); b < 1 || b > 1<<52 || err != nil || again != b {
			t.Fatalf("%q is %d, written as %q, read as %d (%v)", in, b, b.String(), again, err)
		}
	})
}

func TestExpandEnv(t *testing.T) {
	t.Parallel()
	env := vars(map[string]string{"SET": "v=1", "EMPTY": ""})
	got, err := config.ExpandEnv([]string{"SET", "EMPTY", "NEW=x=y", "_a1="}, env)
	if diff := cmp.Diff([]string{"SET=v=1", "EMPTY=", "NEW=x=y", "_a1="}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, bad := range []string{"", "=x", "1A=x", "A-B", "A B=x", "NOT_SET", "\u00e4=x"} {
		if got, err := config.ExpandEnv([]string{bad}, env); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}

func TestReadEnvFile(t *testing.T) {
	t.Parallel()
	env := vars(map[string]string{"SET": "v"})
	path := filepath.Join(t.TempDir(), "env")
	read := func(text string) ([]string, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.ReadEnvFile("env", path, env)
	}
	got, err := read("# comment\n\n  A=1 \nSET\nDOS=1\r\nQ=\"x\"")
	if diff := cmp.Diff([]string{"A=1 ", "SET=v", "DOS=1", `Q="x"`}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for name, text := range map[string]string{
		"no name":   "A=1\nsecret value here\n",
		"not set":   "\nNOT_SET\n",
		"NUL":       "A=1\nB=secret\x00\n",
		"too large": strings.Repeat("A=1\n", 1<<19),
	} {
		if got, err := read(text); bailey.KindOf(err) != bailey.Invalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %d pairs, %v", name, len(got), err)
		}
	}
	for _, other := range []string{filepath.Dir(path), path + "-absent"} {
		if _, err := config.ReadEnvFile("other", other, env); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestParseEnvFile_NamesExport(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{"export NAME=secret": true, "exported NAME=secret": false, "NAME OF=secret": false} {
		_, err := config.ParseEnvFile("f", []byte(line+"\n"), nil)
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok || strings.Contains(e.Hint, "leave out the word export") != want || strings.Contains(e.Error()+e.Hint, "secret") {
			t.Errorf("%q: %v, hint %q", line, err, e.Hint)
		}
	}
}

func TestParseEnvFile_OfTheWorkspaceNamesNoVariableOfTheCaller(t *testing.T) {
	t.Parallel()
	got, err := config.ParseEnvFile("f", []byte("A=1\nB=\n"), nil)
	if diff := cmp.Diff([]string{"A=1", "B="}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	got, err = config.ParseEnvFile("f", []byte("A=1\nSET\n"), nil)
	e, ok := errors.AsType[*bailey.Error](err)
	if !ok || got != nil || e.Kind != bailey.Invalid || !strings.Contains(e.Message, "f:2:1: SET") || !strings.Contains(e.Hint, "--env SET") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := config.ParseEnvFile("f", []byte("SET\n"), vars(map[string]string{"SET": "v"})); err != nil || len(got) != 1 || got[0] != "SET=v" {
		t.Errorf("twin: %q, %v", got, err)
	}
}

func TestFindDirs(t *testing.T) {
	t.Parallel()
	got := config.FindDirs(vars(map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "relative"}), 0, "/h")
	want := config.Dirs{Config: "/c/bailey", Data: "/h/.local/share/bailey", State: "/h/.local/state/bailey", Runtime: "/run/bailey"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := config.FindDirs(vars(map[string]string{"XDG_RUNTIME_DIR": "/r"}), 4242, "/h").Runtime; got != "/r/bailey" {
		t.Error(got)
	}
	for tmp, want := range map[string]string{"": "/tmp/bailey-4242", "/t": "/t/bailey-4242", "tmp": "/tmp/bailey-4242", "./tmp": "/tmp/bailey-4242"} {
		if got := config.FindDirs(vars(map[string]string{"TMPDIR": tmp, "XDG_RUNTIME_DIR": "run"}), 4242, "/h").Runtime; got != want {
			t.Errorf("TMPDIR=%s: %s, want %s", tmp, got, want)
		}
	}
}

func TestLimits_DefaultsAndBounds(t *testing.T) {
	t.Parallel()
	small := config.LimitFlags{}.Limits(2, 2<<30)
	if small.MemoryBytes != 3<<29 || small.MilliCPUs != 2000 || small.Timeout != 0 {
		t.Errorf("on a small machine: %+v", small)
	}
	if large := (config.LimitFlags{}).Limits(2, 64<<30); large.MemoryBytes != 4<<30 {
		t.Errorf("on a large machine: %+v", large)
	}
	if err := config.Check(small); err != nil {
		t.Error(err)
	}
	for flag, f := range map[string]config.LimitFlags{
		"--memory": {Memory: 64<<20 - 1}, "--pids": {PIDs: 15}, "--nofile": {NoFile: 31},
	} {
		if err := config.Check(f.Limits(2, 2<<30)); bailey.KindOf(err) != bailey.Invalid || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	for flag, f := range map[string]config.LimitFlags{"--pids": {PIDs: 1<<15 + 1}, "--nofile": {NoFile: 1<<20 + 1}} {
		if err := config.Check(f.Limits(2, 2<<30)); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%s, too many: %v", flag, err)
		}
	}
}
