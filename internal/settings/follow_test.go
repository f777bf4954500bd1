package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/settings"
)

// EGR-13: what holds in a run when its files change.
func TestFollow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what            string
		user            string
		start, now      string // of the project; "" is none
		trusted, agreed bool   // the start, and now
		user2           string // the user's file of now; "" is as it was
		want            string
	}{
		{what: "nothing", user: "net: {allow: [u.test]}", want: "allow +u.test"},
		{what: "the user's own", user: "net: {allow: [u.test]}", user2: "net: {mode: open}", want: "open"},
		{what: "a file that tightens", user: "net: {allow: [u.test]}", now: "net: {deny: [u.test]}", want: "allow +u.test -u.test"},
		{what: "a file that widens", user: "net: {allow: [u.test]}", now: "net: {mode: full, allow: [p.test]}", want: "allow +u.test !allow p.test !mode full"},
		{what: "a file that is gone", user: "net: {allow: [u.test]}", start: "net: {deny: [x.u.test]}", want: "allow +u.test -x.u.test"},
		{what: "a narrower mode that is gone", user: "net: {mode: open}", start: "net: {mode: none}", want: "none"},
		{what: "another list", user: "net: {mode: open}", start: "net: {mode: allow, allow: [a.test, b.test]}", now: "net: {mode: allow, allow: [b.test, c.test]}", want: "allow +b.test"},
		{what: "a list that is gone", user: "net: {mode: open}", start: "net: {mode: allow, allow: [a.test]}", now: "net: {}", want: "allow +a.test"},
		{what: "names that were closed", user: "net: {allow: [u.test], dns: open}", start: "net: {dns: rules}", want: "allow +u.test"},
		{what: "no ask", user: "net: {allow: [u.test], ask: true}", start: "net: {ask: false}", want: "allow +u.test"},
		{what: "trust that was ended by an edit", user: "net: {allow: [u.test]}", start: "net: {allow: [p.test], deny: [x.test]}", trusted: true, now: "net: {allow: [p.test, q.test]}", want: "allow +u.test -x.test !allow p.test !allow q.test"},
		{what: "trust of now", user: "net: {allow: [u.test]}", start: "net: {deny: [u.test]}", now: "net: {allow: [p.test]}", agreed: true, want: "allow +u.test +p.test"},
	} {
		start := settings.Sources{}
		start.User = parse(t, c.user)
		if c.start != "" {
			start.Project, start.Trusted = parse(t, c.start), c.trusted
		}
		now := start
		now.Project, now.Trusted = nil, false
		if c.user2 != "" {
			now.User = parse(t, c.user2)
		}
		if c.now != "" {
			now.Project, now.Trusted = parse(t, c.now), c.agreed
		}
		if e, err := settings.Follow(start, now, nowhere()); err != nil || state(e) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.what, state(e), err, c.want)
		}
	}
}

// A sandbox can write a project's file with as many rules as there may be, over
// one that has as many: that is read in a moment, not by comparing each to each.
func TestFollow_ManyRules(t *testing.T) {
	t.Parallel()
	list := func(name string) *settings.File {
		var text strings.Builder
		text.WriteString("net:\n  deny:\n")
		for i := range 10000 {
			fmt.Fprintf(&text, "    - %s%d.test\n", name, i)
		}
		return parse(t, text.String())
	}
	start := settings.Sources{}
	start.User, start.Project = parse(t, "net: {allow: [u.test]}"), list("a")
	now := start
	now.Project = list("b")
	began := time.Now()
	e, err := settings.Follow(start, now, nowhere())
	if took := time.Since(began); err != nil || len(e.Deny) != 20000 || took > 2*time.Second {
		t.Errorf("%d rules, %v, in %v", len(e.Deny), err, took)
	}
	began = time.Now()
	if n := len(e.Policy().NewDenials(e.Policy())); n != 0 || time.Since(began) > 2*time.Second {
		t.Errorf("%d new rules in %v", n, time.Since(began))
	}
}

// A mark changes with everything that Load reads.
func TestMark(t *testing.T) {
	t.Parallel()
	p := settings.Place{ConfigDir: t.TempDir(), DataDir: t.TempDir(), Dir: t.TempDir()}
	kept := filepath.Join(t.TempDir(), "kept.yaml")
	write := func(path string) func() error {
		return func() error { return os.WriteFile(path, []byte("net: {deny: [a.test]}"), 0o600) }
	}
	project := filepath.Join(p.Dir, settings.ProjectFile)
	before := p.Mark()
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"the user's file", write(p.UserFile())},
		{"in place", func() error { return os.WriteFile(p.UserFile(), []byte("net: {deny: [b.test, c.test]}"), 0o600) }},
		{"over it", func() error {
			if err := write(p.UserFile() + ".new")(); err != nil {
				return err
			}
			return os.Rename(p.UserFile()+".new", p.UserFile())
		}},
		{"gone", func() error { return os.Remove(p.UserFile()) }},
		{"a link", func() error {
			if err := write(kept)(); err != nil {
				return err
			}
			return os.Symlink(kept, p.UserFile())
		}},
		{"where it leads", func() error { return os.WriteFile(kept, []byte("net: {}"), 0o600) }},
		{"the project's", write(project)},
		{"trusted", func() error { return p.Trust().Give(project, []byte("net: {deny: [a.test]}")) }},
		{"not trusted", func() error { return p.Trust().Take(project) }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		now := p.Mark()
		if now.Equal(before) {
			t.Errorf("%s: not seen", step.what)
		}
		if now.Empties(before) {
			t.Errorf("%s: it is said to be empty", step.what)
		}
		if !p.Mark().Equal(now) {
			t.Errorf("%s: it changes by itself", step.what)
		}
		before = now
	}
	if err := os.Truncate(kept, 0); err != nil {
		t.Fatal(err)
	}
	if !p.Mark().Empties(before) || p.Mark().Empties(p.Mark()) {
		t.Error("a file that was emptied is not seen, or seen twice")
	}
}
