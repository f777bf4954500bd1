package skill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/leak"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// What bounds a look.
const (
	maxFile     = leak.MaxFile
	maxEntries  = 100_000
	maxFindings = 2000
	maxShown    = 80 // bytes of a line that a finding shows
)

// Finding is one thing that a rule found.
type Finding struct {
	Rule   string `json:"rule"`
	File   string `json:"file"`             // relative to the folder
	Line   int    `json:"line,omitempty"`   // from 1; 0: the file as a whole
	Column int    `json:"column,omitempty"` // from 1, in bytes
	Object string `json:"object,omitempty"` // of the history: git's name of it
	What   string `json:"what"`             // one sentence
	Shows  string `json:"shows,omitempty"`  // a piece of the line; never of a secret
}

// Seen is what was looked at, and what could not be.
type Seen struct {
	Files      int  `json:"files"`
	Programs   int  `json:"programs"` // that an agent may run
	Objects    int  `json:"objects"`  // of git histories
	LeftOut    int  `json:"left_out"` // too large, not text, or not readable
	Unreadable int  `json:"unreadable"`
	Incomplete bool `json:"incomplete"`
}

// Lint looks through the folder that is open as root.
func Lint(ctx context.Context, root *os.File) ([]Finding, Seen, error) {
	l := &lint{ctx: ctx, root: root, left: maxEntries, now: map[string]bool{}}
	info, err := beneath.Lstat(root, "")
	if err != nil {
		return nil, l.seen, err
	}
	if info.Mode.Perm()&0o002 != 0 {
		l.add(Finding{Rule: writableRule, File: "."})
	}
	if err := l.folder(""); err != nil {
		return nil, l.seen, err
	}
	for _, dir := range l.repos {
		if err := l.history(dir); err != nil {
			return nil, l.seen, err
		}
	}
	return l.found, l.seen, nil
}

type lint struct {
	ctx   context.Context //nolint:containedctx // one look is its life
	root  *os.File
	left  int
	found []Finding
	seen  Seen
	repos []string        // git folders
	now   map[string]bool // git's names of the files that are there now
}

func (l *lint) add(f Finding) {
	if len(l.found) >= maxFindings {
		l.seen.Incomplete = true
		return
	}
	for _, r := range Rules() {
		if r.ID == f.Rule {
			f.What = r.What + f.What
		}
	}
	l.found = append(l.found, f)
}

func (l *lint) folder(dir string) error {
	entries, err := beneath.ReadDir(l.root, dir, l.left)
	if errors.Is(err, beneath.ErrStrange) {
		l.seen.Incomplete = true
	} else if err != nil {
		l.seen.Unreadable++
	}
	l.left -= len(entries)
	for _, e := range entries {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if err := l.entry(filepath.Join(dir, e.Name), e); err != nil {
			return err
		}
	}
	return nil
}

func (l *lint) entry(rel string, e beneath.Entry) error {
	switch {
	case e.Type.IsDir() && strings.EqualFold(e.Name, ".git"):
		l.repos = append(l.repos, rel)
		return l.file(filepath.Join(rel, "config"))
	case e.Type.IsDir():
		if info, err := beneath.Lstat(l.root, rel); err == nil && info.Mode.Perm()&0o002 != 0 {
			l.add(Finding{Rule: writableRule, File: rel})
		}
		return l.folder(rel)
	case e.Type&fs.ModeSymlink != 0:
		l.link(rel)
	case !e.Type.IsRegular():
		l.add(Finding{Rule: specialRule, File: rel})
	default:
		return l.file(rel)
	}
	return nil
}

// link looks where one leads, by its text alone.
func (l *lint) link(rel string) {
	target, err := beneath.Readlink(l.root, rel)
	if err != nil {
		l.seen.Unreadable++
		return
	}
	if filepath.IsAbs(target) || !filepath.IsLocal(filepath.Join(filepath.Dir(rel), target)) {
		l.add(Finding{Rule: linkRule, File: rel, Shows: clip(target)})
	}
}

func (l *lint) file(rel string) error {
	data, info, err := beneath.ReadFile(l.root, rel, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, beneath.ErrStrange):
		l.seen.LeftOut++
		return nil
	case err != nil:
		l.seen.Unreadable++
		return nil //nolint:nilerr // it is counted
	}
	if info.Mode.Perm()&0o002 != 0 {
		l.add(Finding{Rule: writableRule, File: rel})
	}
	if info.Mode.Perm()&0o111 != 0 || bytes.HasPrefix(data, []byte("#!")) {
		l.seen.Programs++
	}
	l.now[gitdata.HashObject("blob", data)] = true
	secrets, err := leak.Path(rel)
	if err != nil {
		return err
	}
	if isBinary(data) {
		l.seen.LeftOut++
	} else {
		l.seen.Files++
		more, err := leak.Text(rel, string(data))
		if err != nil {
			return err
		}
		secrets = append(secrets, more...)
		l.text(rel, string(data))
	}
	for _, s := range secrets {
		l.add(Finding{Rule: secretRule, File: rel, Line: s.Line, Column: s.Column, What: ": " + kindOf(s)})
	}
	return nil
}

func kindOf(s leak.Finding) string {
	if s.Starts != "" {
		return s.Kind + ", starts with " + s.Starts
	}
	return s.Kind
}

// isBinary tells files that are no text as git does.
func isBinary(data []byte) bool {
	const head = 8 << 10
	return bytes.IndexByte(data[:min(len(data), head)], 0) >= 0
}

// text looks at the lines of one file, and at what spans some of them.
func (l *lint) text(rel, text string) {
	line := 0
	for raw := range strings.Lines(text) {
		line++
		raw = strings.TrimRight(raw, "\r\n")
		found := hidden(raw, line == 1)
		for _, rule := range []string{zeroRule, bidiRule, tagRule, controlRule} {
			if at, ok := found[rule]; ok {
				l.add(Finding{Rule: rule, File: rel, Line: line, Column: at + 1})
			}
		}
		l.orders(rel, line, raw)
		for _, in := range decoded(raw) {
			if low := strings.ToLower(in.text); len(told(low)) > 0 || speaks().MatchString(low) {
				l.add(Finding{Rule: encodedRule, File: rel, Line: line, Column: in.at + 1, Shows: shown(in.text, in.text)})
			}
		}
		if at := injected().FindStringIndex(raw); strings.HasSuffix(rel, ".md") && at != nil {
			l.add(Finding{Rule: injectRule, File: rel, Line: line, Column: at[0] + strings.Index(raw[at[0]:], "!`") + 1, Shows: shown(raw, raw)})
		}
	}
	l.pages(rel, text)
	l.runs(rel, text)
}

// orders looks for what no skill needs to say in a line.
func (l *lint) orders(rel string, line int, raw string) {
	r := read(raw)
	seen := map[broken]bool{} // where parts overlap
	for _, part := range parts(r.low) {
		for _, b := range told(part.text) {
			b.at = r.place(part.at + b.at)
			if seen[b] {
				continue
			}
			seen[b] = true
			piece := raw[r.place(part.at):r.place(part.at+len(part.text))]
			l.add(Finding{Rule: b.rule, File: rel, Line: line, Column: b.at + 1, Shows: shown(piece, raw)})
		}
	}
}

// parts cuts a line that is too long for the rules, with some overlap.
func parts(line string) (list []inner) {
	const most, lap = 4 << 10, 256
	at := 0
	for ; len(line)-at > most; at += most - lap {
		list = append(list, inner{line[at : at+most], at})
	}
	return append(list, inner{line[at:], at})
}

// injected is a command in a skill that its reader runs (Claude Code's
// "dynamic context": !`command`).
var injected = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("(?:^|[\\s(:])!`[^`]+`") })

// pages looks for what a page shows nobody.
func (l *lint) pages(rel, text string) {
	for _, rule := range []string{commentRule, styleRule} {
		for _, at := range unseen()[rule].FindAllStringIndex(text, maxFindings) {
			piece := text[at[0]:at[1]]
			if low := read(piece).low; rule == commentRule && len(told(low)) == 0 && !speaks().MatchString(strings.ReplaceAll(low, "\n", " ")) {
				continue
			}
			before := text[:at[0]]
			l.add(Finding{Rule: rule, File: rel, Line: 1 + strings.Count(before, "\n"), Column: at[0] - strings.LastIndexByte(before, '\n'), Shows: shown(piece, piece)})
		}
	}
}

// runs looks for what runs without having been asked for.
func (l *lint) runs(rel, text string) {
	base, dir := filepath.Base(rel), filepath.Base(filepath.Dir(rel))
	switch {
	case base == "package.json":
		var p struct {
			Scripts map[string]string `json:"scripts"`
		}
		if json.Unmarshal([]byte(text), &p) == nil {
			for _, name := range []string{"preinstall", "install", "postinstall", "prepare", "prepublish"} {
				if p.Scripts[name] != "" {
					l.add(Finding{Rule: installRule, File: rel, Shows: shown(name+": "+p.Scripts[name], p.Scripts[name])})
				}
			}
		}
	case strings.HasSuffix(base, ".json"):
		l.document(rel, text)
	case dir == "hooks" && !strings.HasSuffix(base, ".sample") && !strings.HasSuffix(base, ".md"):
		l.add(Finding{Rule: hookRule, File: rel})
	case strings.HasSuffix(base, ".md"):
		l.front(rel, text)
	case base == "config.toml" && strings.Contains(text, "[mcp_servers"):
		l.add(Finding{Rule: serverRule, File: rel})
	}
}

// front looks at what an agent reads of a skill before all else. What is no YAML
// each agent reads in its own way, and perhaps with a hook in it.
func (l *lint) front(rel, text string) {
	front, how := frontMatter(text)
	switch {
	case how == open && (filepath.Base(rel) == "SKILL.md" || begun().MatchString(front)):
		l.add(Finding{Rule: frontRule, File: rel, Line: 1, Column: 1, Shows: "it begins with --- and no line of --- ends it"})
		return
	case how != closed:
		return
	}
	keys, problem := yamlfile.Names([]byte(front))
	if problem != nil {
		l.add(Finding{Rule: frontRule, File: rel, Line: problem.Line, Column: problem.Column, Shows: shown(problem.Message, problem.Message)})
		return
	}
	for _, key := range keys {
		if strings.EqualFold(key.Name, "hooks") {
			l.add(Finding{Rule: hookRule, File: rel, Line: key.Line, Column: key.Column})
		}
	}
}

// extent is how far what stands before the text of a skill goes.
type extent uint8

const (
	absent extent = iota
	open          // its end is missing: to some agents all of the page is of it
	closed
)

// begun is a first line of front matter, which a rule across a page has not
// below it.
var begun = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*[\w-]+["']?\s*:`) })

// frontMatter is what stands before the text of a skill. It begins with an empty
// line in the place of the dashes, so that its lines are counted as the file's.
func frontMatter(text string) (string, extent) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "\ufeff"), "---\n")
	if !ok {
		return "", absent
	}
	front, _, ok := strings.Cut("\n"+rest, "\n---")
	if !ok {
		return front, open
	}
	return front + "\n", closed
}

// document looks at settings of agents and at their plug-ins.
func (l *lint) document(rel, text string) {
	var d map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &d) != nil {
		return
	}
	holds := func(name string) bool {
		v := bytes.TrimSpace(d[name])
		return len(v) > 0 && !slices.Contains([]string{"{}", "[]", "null", `""`, "false"}, string(v))
	}
	if holds("hooks") {
		l.add(Finding{Rule: hookRule, File: rel})
	}
	for _, name := range []string{"mcpServers", "mcp", "servers"} {
		if holds(name) && bytes.Contains(d[name], []byte(`"command"`)) {
			l.add(Finding{Rule: serverRule, File: rel})
		}
	}
	for _, name := range []string{"apiKeyHelper", "statusLine", "awsAuthRefresh", "awsCredentialExport"} {
		if holds(name) {
			l.add(Finding{Rule: hookRule, File: rel, What: " (" + name + ")"})
		}
	}
}

// history looks for secrets in all objects of a repository: what was taken out
// of the files is there still.
func (l *lint) history(gitDir string) error { //nolint:gocognit // one rule after the other
	dir, err := beneath.Sub(l.root, gitDir)
	if err != nil {
		l.seen.Unreadable++
		return nil
	}
	defer func() { _ = dir.Close() }() // O_PATH: nothing to lose
	names := map[string]string{}       // of blobs, as trees call them
	var with []leak.Finding
	var of []string
	err = gitdata.Objects(dir, func(o gitdata.Object) error {
		l.seen.Objects++
		switch o.Type {
		case "tree":
			for _, e := range gitdata.ParseTree(o.Data) {
				names[e.Object] = e.Name
			}
			return l.ctx.Err()
		case "blob":
			if l.now[o.Name] || isBinary(o.Data) || len(o.Data) > maxFile {
				return l.ctx.Err()
			}
		}
		found, err := leak.Text("", string(o.Data))
		for _, f := range found {
			with, of = append(with, f), append(of, o.Name)
		}
		return errors.Join(err, l.ctx.Err())
	})
	told := map[string]bool{} // an object may be kept twice
	for i, f := range with {
		name := names[of[i]]
		if name == "" {
			name = "(a commit or tag)"
		}
		at := Finding{Rule: historyRule, File: filepath.Join(gitDir, name), Line: f.Line, Column: f.Column, Object: of[i], What: ": " + kindOf(f)}
		if key := fmt.Sprint(at); !told[key] {
			told[key] = true
			l.add(at)
		}
	}
	if errors.Is(err, gitdata.ErrObjects) {
		l.seen.Unreadable++
		return nil
	}
	return err
}

// shown is a piece of a text, as it stands there; nothing where the text has a
// secret in it.
func shown(piece, of string) string {
	if found, err := leak.Text("", of); err != nil || len(found) > 0 {
		return ""
	}
	return clip(piece)
}

// clip is a piece of a line.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}
