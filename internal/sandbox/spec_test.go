package sandbox_test

import (
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

func spec() sandbox.Spec {
	return sandbox.Spec{
		ID: bailey.NewSandboxID(), UID: 1000, GID: 1000,
		Mounts:  []bailey.Mount{{Source: "/w", Target: "/w", Writable: true}, {Source: "/w/.git", Target: "/w/.git", Writable: true}},
		Shadows: []bailey.Shadow{{Path: "/w/.git/config"}, {Path: "/w/.git/hooks", Dir: true}},
	}
}

// TestSpec_NothingIsNamedTwice: a second mount at one place would cover the
// first, together with the private copies in it.
func TestSpec_NothingIsNamedTwice(t *testing.T) {
	t.Parallel()
	good := spec()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*sandbox.Spec){
		"mount target /w/.git":        func(s *sandbox.Spec) { s.Mounts = append(s.Mounts, bailey.Mount{Source: "/x", Target: "/w/.git"}) },
		"private copy /w/.git/config": func(s *sandbox.Spec) { s.Shadows = append(s.Shadows, s.Shadows[0]) },
	} {
		s := spec()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s twice: %v", name, err)
		}
	}
}

func TestSpec_Within(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/a", "/", true}, {"/", "/", true}, {"/", "/a", false}} {
		if got := sandbox.Within(tt.path, tt.dir); got != tt.want {
			t.Errorf("Within(%q, %q) = %t", tt.path, tt.dir, got)
		}
	}
}
