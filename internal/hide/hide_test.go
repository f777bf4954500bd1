package hide_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/hide"
)

func rules(t testing.TB, hides, shows, kept []string) *hide.Rules {
	t.Helper()
	r, err := hide.New(hides, shows, kept)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRules_Hidden(t *testing.T) {
	r := rules(t, []string{"notes.txt", "vault/", "deploy/prod.yaml", "/top.txt", "report.example"}, []string{"/ok/.env", "shown.key", "fixtures/id_rsa"}, []string{"test/.env"})
	for path, want := range map[string]bool{
		".env": true, "a/b/.env": true, ".env.local": true, "prod.env": true, ".ENV": true, ".Env.Production": true,
		".env.": true, ".e\u200cnv": true, "id_r\u017fa": true, "server.\u212aey": true, "ENV~1": true,
		"id_rsa": true, "id_rsa.pub": false, "tls/server.key": true, "tls/private.pem": true, "cacert.pem": false,
		".npmrc": true, ".aws/credentials": true, "x/.aws/credentials": true, "credentials": false, "x.aws/credentials": false,
		"terraform.tfstate.backup": true, "infra/prod.tfvars": true,
		".env.example": false, ".env.sample": false, "example.env": false, "server.key.template": false,
		"environment": false, ".envs": false, "keys": false, "key": false, "monkey.go": false, "": false,
		"notes.txt": true, "a/notes.txt": true, "vault/x": true, "a/vault/b/c": true,
		"deploy/prod.yaml": true, "x/deploy/prod.yaml": true, "prod.yaml": false, "top.txt": true, "a/top.txt": false,
		"report.example": true, "ok/.env": false, "a/ok/.env": true, "shown.key": false, "a/shown.key": false, "a/fixtures/id_rsa": false,
		"test/.env": false, "a/test/.env": true, "TEST/.env": true,
	} {
		if got := r.Hidden(path, false); got != want {
			t.Errorf("%q: hidden %v, want %v", path, got, want)
		}
	}
	for path, want := range map[string]bool{".env": false, "vault": true, "notes.txt": true, ".env/bin/python": false} {
		if got := r.Hidden(path, true); got != want {
			t.Errorf("folder %q: hidden %v, want %v", path, got, want)
		}
	}
}

func TestRules_PinnedFoldersKeepWhatTheyHide(t *testing.T) {
	r := rules(t, []string{"deploy/prod.yaml", "/a/b/c"}, []string{"fixtures/.env"}, []string{"test/data/.env"})
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"deploy", "x", true},
		{"y/deploy", "x", true},
		{"x", "deploy", false},
		{".aws", "aws", true},
		{"a", "x", true},
		{"a/b", "a/x", true},
		{"x/a", "y", false},
		{"q/b", "z", false},
		{"secret", "fixtures", true},
		{"secret", "x/fixtures", true},
		{"fixtures", "y", false},
		{"secret", "test", true},
		{"secret", "test/data", true},
		{"test", "old", false},
		{"src", "lib", false},
	} {
		if got := r.Pinned(c.from, c.to); got != c.want {
			t.Errorf("%s to %s: pinned %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// TestRules_MovesOfFoldersShowNothing tries every move among small trees: what
// was hidden before one that is not pinned is hidden afterwards.
func TestRules_MovesOfFoldersShowNothing(t *testing.T) {
	r := rules(t, []string{"a/b", "/c/a/x", "c/a/b"}, []string{"b/a/.env", "/a/c/.env"}, []string{"a/b/.env", "c/.env"})
	names := []string{"a", "b", "c"}
	var dirs, leaves []string
	for _, x := range names {
		dirs = append(dirs, x)
		for _, y := range names {
			dirs = append(dirs, x+"/"+y)
		}
	}
	for _, d := range append(slices.Clone(dirs), "") {
		for _, f := range []string{".env", "x", "b"} {
			leaves = append(leaves, strings.TrimPrefix(d+"/"+f, "/"))
		}
	}
	moved := 0
	for _, from := range dirs {
		for _, to := range dirs {
			if r.Pinned(from, to) || r.Hidden(from, true) || r.Hidden(to, true) {
				continue
			}
			for _, leaf := range leaves {
				moved++
				if r.Hidden(from+"/"+leaf, false) && !r.Hidden(to+"/"+leaf, false) {
					t.Errorf("%s to %s: %s comes to light", from, to, leaf)
				}
			}
		}
	}
	if moved == 0 {
		t.Fatal("no move was tried")
	}
}

func TestNew_RefusesPatterns(t *testing.T) {
	for _, p := range []string{"", "/", "a//b", "../x", "a/**/b", "[", "a\x00b", strings.Repeat("x", 600)} {
		if _, err := hide.New([]string{p}, nil, nil); err == nil {
			t.Errorf("%q is taken", p)
		}
	}
}

func TestText_IsWhatParseReads(t *testing.T) {
	r := rules(t, []string{"notes.txt"}, []string{".env"}, []string{"a/id_rsa"})
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	got, err := hide.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"notes.txt", ".env", "a/id_rsa", "id_rsa"} {
		if got.Hidden(p, false) != r.Hidden(p, false) {
			t.Errorf("%s: %v before, %v after", p, r.Hidden(p, false), got.Hidden(p, false))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("-a/b\x00+.env\x00=x/.env\x00"), "x/.env")
	f.Add([]byte("-[a-"), "a")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		r, err := hide.Parse(text)
		if err != nil {
			return
		}
		again, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		other, err := hide.Parse(again)
		if err != nil {
			t.Fatalf("%q: %v", again, err)
		}
		if r.Hidden(path, false) != other.Hidden(path, false) {
			t.Errorf("%q: two answers", path)
		}
		// Whatever the case, a name that no rule shows is hidden as its twin is.
		if r.Hidden(".env", false) != r.Hidden(".ENV", false) && !slices.Contains(r.Kept(), ".env") && !slices.Contains(r.Kept(), ".ENV") {
			t.Error(".env and .ENV differ")
		}
	})
}

func BenchmarkHidden(b *testing.B) {
	r := rules(b, nil, nil, nil)
	for b.Loop() {
		if r.Hidden("internal/app/run/preset_internal_test.go", false) {
			b.Fatal("hidden")
		}
	}
}
