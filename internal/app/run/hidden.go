package run

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/hide"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/wire"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// Hiding is what a request says of files that the sandbox does not see.
type Hiding struct {
	Hide []string // --hide
	Show []string // --show
}

// hiding is what is hidden in a run, or nil.
type hiding struct {
	path string       // of the workspace inside
	wait func() ruled // until git's index was read
}

// ruled is the rules as they hold, and what they come to.
type ruled struct {
	rules  *hide.Rules
	others []string // tracked by git, changed since, and hidden
	err    error
}

// everythingShown is the pattern by which nothing is hidden.
const everythingShown = "*"

// hideFiles decides what the sandbox does not see of the workspace. What git
// has as it is in the tree is seen: its objects show it anyway, and git inside
// would take it for deleted. That is looked up meanwhile, while the sandbox is
// made. Tasks and bailey's own runs have a copy of what git tracks and nothing
// else.
func (p *plan) hideFiles(r *Request, ws *workspace.Workspace) error {
	if r.Task != nil || r.Work != nil {
		return nil
	}
	hides, shows := p.hidingRules(r)
	rules, err := hide.New(hides, shows, nil)
	if err != nil {
		return bailey.NewError(bailey.Invalid, "hidden files: "+err.Error(), "a pattern is NAME, DIR/NAME or /DIR/NAME from the workspace's folder, with * and ? in each part")
	}
	if len(hides) == 0 && slices.Contains(shows, everythingShown) {
		p.showing = shows
		return nil
	}
	if p.spec.Runtime == bailey.RuntimeNative {
		return p.coverHidden(ws, hides, shows)
	}
	p.spec.Hidden = ws.Seen()
	result := make(chan ruled, 1)
	p.hiding, p.showing = &hiding{path: ws.Seen(), wait: sync.OnceValue(func() ruled { return <-result })}, shows
	go func() {
		kept, others := ws.Tracked(func(path string) bool { return rules.Hidden(path, false) })
		all, err := hide.New(hides, shows, kept)
		if err == nil {
			others = slices.DeleteFunc(others, func(path string) bool { return !all.Hidden(path, false) })
		}
		result <- ruled{all, others, err}
	}()
	return nil
}

// mostCovered bounds how many files are covered, each by a mount.
const mostCovered = 1000

// coverHidden is hideFiles for a kernel that cannot be told by what names to
// hide: the files that are there now are covered, one by one. Those that come
// later are seen.
func (p *plan) coverHidden(ws *workspace.Workspace, hides, shows []string) error {
	rules, err := hide.New(hides, shows, nil)
	if err == nil {
		kept, _ := ws.Tracked(func(path string) bool { return rules.Hidden(path, false) })
		rules, err = hide.New(hides, shows, kept)
	}
	if err != nil {
		return fmt.Errorf("hidden files: %w", err)
	}
	var found []string
	err = filepath.WalkDir(ws.Path, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil: // the command, which has the same rights, sees no more
			return nil //nolint:nilerr // see above
		case e.IsDir() && e.Name() == ".git":
			return filepath.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		rel, err := filepath.Rel(ws.Path, path)
		if err != nil || !rules.Hidden(rel, false) {
			return err
		}
		if found = append(found, ws.Seen()+"/"+rel); len(found) > mostCovered {
			return bailey.NewError(bailey.Exhausted, fmt.Sprintf("hidden files: there are more than %d, which the native runtime cannot cover", mostCovered), "run without --runtime native, or with --show '*', which shows every file of the workspace")
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.spec.Covers, p.showing = append(p.spec.Covers, found...), shows
	p.notes = append(p.notes, fmt.Sprintf("hidden files: %s covered, as --runtime native can only do for those that are there at the start; --show NAME shows one", spell.Count(len(found), "file")))
	return nil
}

// hidingRules are the patterns of the flags and of the policy files. Whoever
// wrote the project's can hide more, and show nothing.
func (p *plan) hidingRules(r *Request) (hides, shows []string) {
	hides, shows = slices.Clone(r.Hiding.Hide), slices.Clone(r.Hiding.Show)
	for _, f := range []*settings.File{p.sources.User, p.sources.Project} {
		if f != nil {
			hides = append(hides, f.Hide...)
		}
	}
	if f := p.sources.User; f != nil {
		shows = append(shows, f.Show...)
	}
	return hides, shows
}

// mostPaths is how many paths a line of the header names.
const mostPaths = 5

// hidingLines are what the header says of it.
func (p *plan) hidingLines() []string {
	if p.hiding == nil {
		if slices.Contains(p.showing, everythingShown) {
			return []string{"hidden files: none (--show " + everythingShown + "): the sandbox sees every file of the workspace, secrets too"}
		}
		return nil
	}
	r := p.hiding.wait()
	if r.err != nil {
		return nil // the start fails
	}
	line := fmt.Sprintf("hidden files: .env, keys, logins (%d patterns)", r.rules.Count())
	if len(p.showing) > 0 {
		line += "; shown: " + strings.Join(p.showing, ", ")
	} else {
		line += "; --show NAME shows one"
	}
	lines := []string{line}
	if kept := r.rules.Kept(); len(kept) > 0 {
		lines = append(lines, "not hidden, since git has them as they are: "+some(kept))
	}
	if len(r.others) > 0 {
		lines = append(lines, "hidden although git tracks them, since they are not as git has them: "+some(r.others)+"; git inside takes them for deleted (--show NAME shows one)")
	}
	return lines
}

func some(paths []string) string {
	text := make([]string, 0, mostPaths)
	for _, p := range paths[:min(len(paths), mostPaths)] {
		text = append(text, fmt.Sprintf("%q", p))
	}
	if more := len(paths) - mostPaths; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(text, ", "), more)
	}
	return strings.Join(text, ", ")
}

// hideFiles has the sandbox hide them, before anything runs in it.
func (u *running) hideFiles(ctx context.Context) error {
	h := u.plan.hiding
	if h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	r := h.wait()
	if r.err != nil {
		return fmt.Errorf("hidden files: %w", r.err)
	}
	text, err := r.rules.Text()
	if err == nil {
		err = u.wire.Hide(ctx, wire.Hide{Path: h.path, Rules: text})
	}
	if err != nil {
		return bailey.WrapError(bailey.Internal, "hidden files: the sandbox's kernel did not take the rules, so nothing was run", err, "--show '*' runs without them, and shows every file of the workspace")
	}
	return nil
}
