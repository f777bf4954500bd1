package environment_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/environment"
)

// whole is a manifest as bailey writes it, of a Python environment.
const whole = `{
  "version": 1, "name": "web", "kinds": ["python"],
  "key": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "created": "2026-11-30T00:00:00Z",
  "repo": "/home/me/web", "folder": "", "commit": "0123456789abcdef0123456789abcdef01234567",
  "packages": [], "tools": ["python3 Python 3.11.2"], "source": "src",
  "programs": ["python3"], "path": ["/opt/env/python/bin"],
  "variables": [{"name": "VIRTUAL_ENV", "value": "/opt/env/python"}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
    {"name": "PIP_NO_INDEX", "value": "1"}, {"name": "PIP_DISABLE_PIP_VERSION_CHECK", "value": "1"}],
  "bytes": 1, "files": 1, "notes": []
}`

func TestParseManifest_ReadsOneWholeDocument(t *testing.T) {
	t.Parallel()
	m, err := environment.ParseManifest([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "web" || m.Source != "src" {
		t.Errorf("read %+v", m)
	}
}

// TestParseManifest_Refuses: each row is the document above with one thing
// changed, which somebody else than bailey must have done.
func TestParseManifest_Refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, want string }{
		{`"version": 1`, `"version": 2`, "version 2"},
		{`"version": 1`, `"version": 1, "mounts": ["/etc"]`, "unknown field"},
		{`"name": "web"`, `"name": "../web"`, "not a name"},
		{`"name": "web"`, `"name": "-web"`, "not a name"},
		{`["python"]`, `["python", "python"]`, "named twice"},
		{`["python"]`, `["perl"]`, "unknown"},
		{`["python"]`, `[]`, "no kind"},
		{`["python"]`, `["node"]`, "not those of its kinds"},
		{`"PIP_NO_INDEX"`, `"LD_PRELOAD"`, "not those of its kinds"},
		{`"value": "/opt/env/python"`, `"value": "/elsewhere"`, "not those of its kinds"},
		{`["/opt/env/python/bin"]`, `["/elsewhere/bin"]`, "not those of its kinds"},
		{`["python3"]`, `["python3", "sudo"]`, "not those of its kinds"},
		{`"repo": "/home/me/web"`, `"repo": "web"`, "not absolute"},
		{`"folder": ""`, `"folder": "../other"`, "below a repository"},
		{`"source": "src"`, `"source": "/etc"`, "below a project"},
		{`"source": "src"`, `"source": "a/../../b"`, "below a project"},
		{`"source": "src"`, `"source": ""`, "folder of modules"},
		{`"commit": "0`, `"commit": "x`, "commit"},
		{`"key": "0`, `"key": "`, "key"},
		{`"notes": []`, `"notes": ["a\u001b[2J"]`, "one line of text"},
		{`"bytes": 1`, `"bytes": -1`, "negative"},
		{"\n}", "\n} {}", "follows"},
		{"\n}", "", "EOF"},
	} {
		text := strings.Replace(whole, c.old, c.new, 1)
		if text == whole {
			t.Fatalf("%q is not there", c.old)
		}
		if _, err := environment.ParseManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
	long := strings.Replace(whole, "\n}", strings.Repeat(" ", 64<<10)+"\n}", 1)
	if _, err := environment.ParseManifest([]byte(long)); err == nil {
		t.Error("a manifest of any length is read")
	}
}

func TestValidName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "web-2": true, "0": true, strings.Repeat("a", 64): true,
		"": false, "-a": false, "A": false, "a/b": false, "..": false, ".draft-1": false, "a b": false, "ä": false, strings.Repeat("a", 65): false,
	} {
		if got := environment.ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %t", name, got)
		}
	}
}

// FuzzParseManifest: whatever is read is read the same once it was written, and
// gives a sandbox nothing that is not in the closed set.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(strings.Replace(whole, `"PIP_NO_INDEX"`, `"LD_PRELOAD"`, 1)))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := environment.ParseManifest(data)
		if err != nil {
			return
		}
		for _, v := range m.Variables {
			if !strings.HasPrefix(v.Value, environment.MountPath) && v.Value != "1" && v.Value != "off" && v.Value != "true" && v.Value != "false" {
				t.Errorf("%s=%s", v.Name, v.Value)
			}
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		n, err := environment.ParseManifest(again)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v\n%s", err, again)
		}
		if diff := cmp.Diff(m, n); diff != "" {
			t.Error(diff)
		}
	})
}
