package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// Repo is a repository of the user's, as git finds it.
type Repo struct {
	git string
	dir string   // root of the work tree
	env []string // of git
}

// mostOutput of git is read.
const mostOutput = 64 << 20

// Open finds the repository that holds a folder. The environment is the
// user's; what of it is about git is left out.
func Open(ctx context.Context, dir string, environ []string) (*Repo, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, bailey.WrapError(bailey.Unsupported, "git is needed for this", err, "install git")
	}
	r := &Repo{git: git, dir: dir, env: settle(slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, "GIT_") }), off())}
	top, err := r.run(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, bailey.WrapError(bailey.NotFound, fmt.Sprintf("%s is no repository with a work tree", terminal.Sanitize(dir)), err, "name another with --repo")
	}
	r.dir = strings.TrimSuffix(top, "\n")
	drivers, err := r.drivers(ctx)
	if err != nil {
		return nil, err
	}
	r.env = settle(r.env, drivers)
	return r, nil
}

// setting is a line of configuration that beats all others.
type setting struct{ key, value string }

// off is what is switched off, for every repository.
func off() []setting {
	return []setting{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.pager", "cat"},
		{"core.editor", "false"},
		{"core.sshCommand", "false"},
		{"core.askPass", "false"},
		{"core.attributesFile", "/dev/null"},
		{"core.alternateRefsCommand", "false"},
		{"credential.helper", ""},
		{"protocol.allow", "never"},
		{"diff.external", ""},
		{"submodule.recurse", "false"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"commit.gpgSign", "false"},
		{"log.showSignature", "false"},
		{"merge.renormalize", "false"},
		{"interactive.diffFilter", "cat"},
	}
}

// drivers is the programs that attributes of a tree could choose among, each
// made to be none; a merge driver has to be something, and fails.
func (r *Repo) drivers(ctx context.Context) ([]setting, error) {
	names, err := r.run(ctx, "config", "--null", "--name-only", "--get-regexp", `^(filter|merge|diff|hook)\..*\.(clean|smudge|process|required|driver|textconv|command)$`)
	if code(err) == 1 { // there are none
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []setting
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		switch {
		case strings.HasPrefix(name, "hook."): // of git 2.54 and later, which core.hooksPath says nothing to
			out = append(out, setting{strings.TrimSuffix(name, "command") + "enabled", "false"})
		case strings.HasSuffix(name, ".required"):
			out = append(out, setting{name, "false"})
		case strings.HasSuffix(name, ".driver"):
			out = append(out, setting{name, "false"})
		default:
			out = append(out, setting{name, ""})
		}
	}
	return out, nil
}

// settle returns an environment for git with settings that beat those in files.
func settle(env []string, settings []setting) []string {
	n := 0
	for _, v := range env {
		if s, ok := strings.CutPrefix(v, "GIT_CONFIG_COUNT="); ok {
			n, _ = strconv.Atoi(s) // it is our own
		}
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "GIT_CONFIG_COUNT=") })
	for _, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, s.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, s.value))
		n++
	}
	if !slices.Contains(env, "GIT_NO_REPLACE_OBJECTS=1") {
		env = append(env, "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}

// run runs git and returns what it printed.
func (r *Repo) run(ctx context.Context, args ...string) (string, error) {
	return r.feed(ctx, "", args...)
}

func (r *Repo) feed(ctx context.Context, in string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.git, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = r.dir, r.env, strings.NewReader(in)
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), &gitError{what: args[0], said: errs.String(), err: err}
	}
	return out.String(), nil
}

// gitError is git's end with an exit code that is not 0.
type gitError struct {
	what, said string
	err        error
}

// Error is what git said, on one line.
func (e *gitError) Error() string {
	said := terminal.Sanitize(strings.Join(strings.Fields(e.said), " "))
	if said == "" {
		said = e.err.Error()
	}
	return "git " + e.what + ": " + said
}

// Unwrap returns how the process ended.
func (e *gitError) Unwrap() error { return e.err }

// code is git's exit code; -1 if it has none.
func code(err error) int {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	return -1
}

// limited is a buffer with an end.
type limited struct{ bytes.Buffer }

// Write keeps what fits.
func (l *limited) Write(p []byte) (int, error) {
	if room := mostOutput - l.Len(); room < len(p) {
		_, _ = l.Buffer.Write(p[:room]) // into memory: it cannot fail
		return 0, errors.New("it prints too much")
	}
	return l.Buffer.Write(p)
}
