package carry

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey/internal/plants"
	"github.com/bailey-dev/bailey/internal/task"
)

// portion is a sort of JSON file of which only some members make something run.
type portion struct {
	kind string
	why  string
	// names are patterns of path.Match for the last part of a path, in lower case.
	names []string
	// members are those that count, the way to one within another with dots.
	members []string
}

var portions = sync.OnceValue(func() []portion {
	return []portion{
		{"package-script", "its scripts or its tools' settings changed; a package manager runs the ones, and the others name programs to load", []string{"package.json"}, []string{
			"scripts", "husky", "lint-staged", "simple-git-hooks", "pre-commit", "bin", "gypfile", "packageManager", "workspaces", "gitHooks", "wireit",
			"jest", "mocha", "ava", "nyc", "babel", "eslintConfig", "prettier", "stylelint", "commitlint", "release", "postcss", "nodemonConfig", "ts-node",
		}},
		{"tool-config", "an editor or the compiler loads the plugins that it names, or that what it extends does", []string{"tsconfig.json", "tsconfig.*.json", "tsconfig-*.json", "jsconfig.json"}, []string{
			"compilerOptions.plugins", "extends", "references", "ts-node",
		}},
		{"build", "deno runs its tasks and loads its plugins, with the permissions that it gives", []string{"deno.json", "deno.jsonc"}, []string{
			"tasks", "lint.plugins", "allowScripts", "permissions",
		}},
	}
})

// plantedAt judges a file that is new or changed. The base is read where only a
// part of a file matters.
func plantedAt(name string, mode uint32, data []byte, base func() []byte) task.Planted {
	if p := finder().find(name); p != nil {
		return task.Planted{Path: name, Kind: p.Kind, Why: p.Why}
	}
	if p := portionOf(name); p != nil {
		if p.differs(base(), data) {
			return task.Planted{Path: name, Kind: p.kind, Why: p.why}
		}
		return task.Planted{}
	}
	return plantedText(name, mode, data, base)
}

// portionOf returns what counts of a file, or nil if that is told otherwise.
func portionOf(name string) *portion {
	last := strings.ToLower(path.Base(name))
	list := portions()
	for i := range list {
		for _, pattern := range list[i].names {
			if matched, _ := path.Match(pattern, last); matched { // the patterns are well formed; a test tries each
				return &list[i]
			}
		}
	}
	return nil
}

// plantFinder is the list made ready for many paths: most are told by one look
// at each of their parts. Everything in it is lower case, as some file systems
// do not tell the cases apart. The numbers are places in the list, of which the
// first that matches is told.
type plantFinder struct {
	list    []plants.Plant
	bases   map[string]int // whole last parts
	endings map[string]int // of last parts, from one of their dots on
	stems   map[string]int // of last parts, up to one of their dots
	folders map[string]int // parts on the way
	rest    []plantPattern
}

type plantPattern struct {
	pattern string
	plant   int
}

var finder = sync.OnceValue(func() *plantFinder {
	f := &plantFinder{list: plants.List(), bases: map[string]int{}, endings: map[string]int{}, stems: map[string]int{}, folders: map[string]int{}, rest: nil}
	for i, p := range f.list {
		for _, pattern := range p.Names {
			f.add(strings.ToLower(pattern), i)
		}
	}
	return f
})

func (f *plantFinder) add(pattern string, i int) {
	folder, isFolder := strings.CutSuffix(pattern, "/")
	ending, isEnding := strings.CutPrefix(pattern, "*")
	stem, isStem := strings.CutSuffix(pattern, ".*")
	to, key := f.bases, pattern
	switch {
	case isFolder && !strings.ContainsAny(folder, "/*?["):
		to, key = f.folders, folder
	case isEnding && strings.HasPrefix(ending, ".") && !strings.ContainsAny(ending, "/*?["):
		to, key = f.endings, ending
	case isStem && !strings.ContainsAny(stem, "/*?["):
		to, key = f.stems, stem
	case strings.ContainsAny(pattern, "/*?["):
		f.rest = append(f.rest, plantPattern{pattern, i})
		return
	}
	if _, there := to[key]; !there {
		to[key] = i
	}
}

// find returns the first of the list that a path is, or nil.
func (f *plantFinder) find(name string) *plants.Plant {
	name = strings.ToLower(name)
	first := len(f.list)
	take := func(i int, there bool) {
		if there {
			first = min(first, i)
		}
	}
	dir, base := path.Split(name)
	i, there := f.bases[base]
	take(i, there)
	for at := range len(base) {
		if base[at] != '.' {
			continue
		}
		i, there = f.endings[base[at:]]
		take(i, there)
		i, there = f.stems[base[:at]]
		take(i, there)
	}
	for part := range strings.SplitSeq(dir, "/") {
		i, there = f.folders[part]
		take(i, there)
	}
	for _, r := range f.rest {
		if r.plant < first && matchesPlant(r.pattern, name) {
			first = r.plant
		}
	}
	if first == len(f.list) {
		return nil
	}
	return &f.list[first]
}

// matchesPlant compares a path with a pattern of a plant.
func matchesPlant(pattern, name string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/"); ok {
		return strings.HasPrefix(name, folder+"/") || strings.Contains(name, "/"+folder+"/")
	}
	if whole, ok := strings.CutPrefix(pattern, "/"); ok {
		return name == whole
	}
	from := len(name)
	for range strings.Count(pattern, "/") + 1 { // as many last parts as the pattern has
		if from = strings.LastIndexByte(name[:max(from, 0)], '/'); from < 0 {
			break
		}
	}
	matched, _ := path.Match(pattern, name[from+1:]) // the patterns are well formed; a test tries each
	return matched
}

// plantedText judges by what a file says.
func plantedText(name string, _ uint32, data []byte, base func() []byte) task.Planted {
	grew := func(words ...string) bool {
		var n, was int
		lower := bytes.ToLower(data)
		for _, word := range words {
			n += bytes.Count(lower, []byte(word))
		}
		if n == 0 {
			return false
		}
		old := bytes.ToLower(base())
		for _, word := range words {
			was += bytes.Count(old, []byte(word))
		}
		return n > was
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".go":
		if grew("//go:generate") {
			return task.Planted{Path: name, Kind: "go-generate", Why: "`go generate` runs the command that it names"}
		}
	case ".svg", ".html", ".htm", ".xhtml":
		if grew("<script", "javascript:", "onload=", "onerror=", "onclick=") {
			return task.Planted{Path: name, Kind: "active-document", Why: "a browser that opens it runs its script"}
		}
	case ".tex", ".vim", ".c", ".h", ".py", ".md", ".txt", ".sh":
		if grew("vim: set", "vim:set", "-*- eval:", "-*- mode: eval", "# eval:") && grew("eval", "modeline", "foldexpr", "shell") {
			return task.Planted{Path: name, Kind: "editor-task", Why: "an editor obeys the settings in its text"}
		}
	}
	return task.Planted{}
}

// differs compares what counts of two versions of a file. What cannot be read
// differs.
func (p *portion) differs(was, now []byte) bool {
	old, ok := p.of(was)
	next, ok2 := p.of(now)
	if was == nil {
		return !ok2 || len(next) > 0
	}
	return !ok || !ok2 || !maps.Equal(old, next)
}

// of returns the members that count, as JSON without spaces.
func (p *portion) of(data []byte) (map[string]string, bool) {
	if len(data) == 0 {
		return nil, true
	}
	data = withoutComments(data)
	list := map[string]string{}
	for _, member := range p.members {
		raw, there, ok := memberOf(data, member)
		if !ok {
			return nil, false
		}
		var b bytes.Buffer
		if there && json.Compact(&b, raw) != nil {
			return nil, false
		}
		if there {
			list[member] = b.String()
		}
	}
	return list, true
}

// memberOf finds a member by the way to it. ok is false for what is no object
// where one has to be.
func memberOf(data []byte, way string) (raw json.RawMessage, there, ok bool) {
	raw = data
	for part := range strings.SplitSeq(way, ".") {
		var doc map[string]json.RawMessage
		if json.Unmarshal(raw, &doc) != nil {
			return nil, false, false
		}
		if raw, there = doc[part]; !there {
			return nil, false, true
		}
	}
	return raw, true, true
}

// withoutComments makes JSON of what compilers and editors take for it: with
// comments, and commas behind the last value. What is no such text stays none.
func withoutComments(data []byte) []byte {
	out := make([]byte, 0, len(data))
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for i := 0; i < len(data); {
		size := 1
		switch rest := data[i:]; {
		case rest[0] == '"':
			size = stringSize(rest)
		case bytes.HasPrefix(rest, []byte("//")):
			i += endOf(rest, "\n")
			continue
		case bytes.HasPrefix(rest, []byte("/*")):
			i += endOf(rest[1:], "*/") + 1
			out = append(out, ' ')
			continue
		case rest[0] == '}' || rest[0] == ']':
			out = bytes.TrimSuffix(bytes.TrimRight(out, " \t\r\n"), []byte(","))
		}
		out = append(out, data[i:i+size]...)
		i += size
	}
	return out
}

// stringSize is how long the string at the front is, with its quotes.
func stringSize(s []byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// endOf is where what ends with a mark is over.
func endOf(s []byte, mark string) int {
	if i := bytes.Index(s, []byte(mark)); i >= 0 {
		return i + len(mark)
	}
	return len(s)
}
