package leak

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/secret"
)

// Finding is one place where a secret seems to stand. Of the secret itself it
// holds at most the first four bytes.
type Finding struct {
	Path     string // of the file, relative to the folder that was looked through; empty: a variable
	Variable string // its name; empty: a file
	Line     int    // from 1; 0: the file as a whole
	Column   int    // from 1, in bytes
	Kind     string // gitleaks' name of the rule, or that of the known prefix
	Template string // of bailey secret set that fits; empty: none does
	Starts   string // the first four bytes, of a secret of at least 20
}

const (
	shownStart = 4  // bytes of a secret
	shownFrom  = 20 // bytes that a secret has of which a start is shown

	mostMatches  = 100  // of one rule in one part of a text
	mostFindings = 1000 // of one text
	// allowMark in a line says that what stands there is no secret.
	allowMark = "gitleaks:allow"
)

// match is what an expression found, in a text.
type match struct {
	rule          string
	template      string
	known         bool // by its prefix
	generic       bool // by the name of a variable
	from, to      int  // of the secret
	secret, whole string
	line          string
}

// Text looks for secrets in the contents of a file. Path is what findings are
// given, and some rules are for names of files.
func Text(path, text string) ([]Finding, error) {
	set, err := rules()
	if err != nil {
		return nil, err
	}
	if set.excludes(path) {
		return nil, nil
	}
	windows, found := set.windows(text)
	return set.found(path, text, windows, found), nil
}

// found tries the rules on parts of a text, and returns what is left of that
// and of what was found already.
func (s *ruleSet) found(path, text string, windows [][]span, found []match) []Finding {
	for i, parts := range windows {
		if len(parts) > 0 {
			found = append(found, s.Rules[i].in(path, text, parts)...)
		}
	}
	found = slices.DeleteFunc(found, func(m match) bool {
		return strings.Contains(m.line, allowMark) || slices.ContainsFunc(s.Allow, func(a allowance) bool { return a.allows(path, m) })
	})
	return findings(path, text, best(found))
}

// Path looks at the name of a file: there are kinds of files that are secrets
// as a whole.
func Path(path string) ([]Finding, error) {
	set, err := rules()
	if err != nil {
		return nil, err
	}
	for _, r := range set.Rules {
		if r.Regex.empty() && r.Path.matches(path) && !set.excludes(path) {
			return []Finding{{Path: path, Kind: r.ID, Template: ""}}, nil
		}
	}
	return nil, nil
}

// Variable looks at the value of a variable.
func Variable(name, value string) ([]Finding, error) {
	found, err := Text("", name+"="+value+"\n")
	if len(found) > 0 {
		found = found[:1] // it is passed or not, whatever is in it
	}
	for i := range found {
		found[i].Variable, found[i].Line, found[i].Column = name, 0, 0
	}
	return found, err
}

func (s *ruleSet) excludes(path string) bool {
	return slices.ContainsFunc(s.Allow, func(a allowance) bool { return a.excludes(path) })
}

// span is a part of a text.
type span struct{ from, to int }

// windows returns for each rule the parts of the text that its expression is
// worth trying on: those around its words. Tokens of known prefixes are found
// on the way.
func (s *ruleSet) windows(text string) (list [][]span, known []match) {
	list = make([][]span, len(s.Rules))
	s.words.each(lower(text), func(at int, w *word) {
		if w.known != nil {
			if m, ok := knownAt(text, at, *w.known); ok {
				known = append(known, m)
			}
		}
		for _, i := range w.rules {
			of := list[i]
			next := s.Rules[i].around(text, at)
			if n := len(of); n > 0 && next.from <= of[n-1].to {
				of[n-1].to = max(of[n-1].to, next.to)
			} else {
				of = append(of, next)
			}
			list[i] = of
		}
	})
	return list, known
}

// around is the part of a text in which a match may lie that has a word of the
// rule at a place: whole lines, where they are not too long. gitleaks tries the
// whole file; a match has the word in it, so that this finds the same
// (TestWindows_FindWhatTheWholeFileHas).
func (r rule) around(text string, at int) span {
	const line = 1 << 10
	before, after := 512, 16<<10
	if r.named {
		before, after = 256, 256 // between name and value stand 31 bytes at most
	}
	from, to := max(0, at-before), min(len(text), at+after)
	start, end := max(0, from-line), min(len(text), to+4*line)
	if i := strings.LastIndexByte(text[start:from], '\n'); i >= 0 {
		start += i + 1
	}
	if i := strings.IndexByte(text[to:end], '\n'); i >= 0 {
		end = to + i + 1
	}
	return span{start, end}
}

// in tries the rule on parts of a text.
func (r rule) in(path, text string, parts []span) []match {
	if !r.Path.empty() && !r.Path.matches(path) || slices.ContainsFunc(r.Allow, func(a allowance) bool { return a.excludes(path) }) {
		return nil
	}
	var found []match
	for _, part := range parts {
		for _, at := range r.Regex.compile().FindAllStringSubmatchIndex(text[part.from:part.to], mostMatches) {
			from, to := r.secretOf(at)
			m := matchAt(text, span{part.from + at[0], part.from + at[1]}, span{part.from + from, part.from + to})
			m.rule, m.template, m.generic = r.ID, templateOf(r.ID), r.generic()
			allowed := slices.ContainsFunc(r.Allow, func(a allowance) bool { return a.allows(path, m) })
			if !allowed && (r.Entropy == 0 || entropy(m.secret) > r.Entropy) {
				found = append(found, m)
			}
		}
	}
	return found
}

// secretOf returns where in a match the secret is, by the indexes of its groups.
func (r rule) secretOf(at []int) (from, to int) {
	if g := 2 * r.Group; g > 0 && g+1 < len(at) && at[g] >= 0 {
		return at[g], at[g+1]
	}
	for g := 2; g+1 < len(at); g += 2 {
		if at[g] >= 0 && at[g] < at[g+1] {
			return at[g], at[g+1]
		}
	}
	return at[0], at[1]
}

func matchAt(text string, whole, of span) match {
	const longest = 1 << 10 // of a line, to each side
	of.to = of.from + len(strings.TrimRight(text[of.from:of.to], "\n"))
	line := span{max(0, whole.from-longest), min(len(text), whole.to+longest)}
	if i := strings.LastIndexByte(text[line.from:whole.from], '\n'); i >= 0 {
		line.from += i + 1
	}
	if i := strings.IndexByte(text[whole.to:line.to], '\n'); i >= 0 {
		line.to = whole.to + i
	}
	return match{
		from: of.from, to: of.to, secret: text[of.from:of.to],
		whole: strings.Trim(text[whole.from:whole.to], "\n"), line: text[line.from:line.to],
	}
}

// knownAt looks at a place where the first bytes of a kind of token may stand.
func knownAt(text string, at int, k secret.Known) (match, bool) {
	rest := text[at:]
	if !strings.HasPrefix(rest, k.Prefix) || at > 0 && (isAlphanumeric(text[at-1]) || strings.IndexByte("-_", text[at-1]) >= 0) {
		return match{}, false
	}
	n := len(strings.TrimRight(rest[:tokenLength(rest, tokenBytes)], ".~/="))
	if n < len(k.Prefix) {
		return match{}, false
	}
	if found, _ := secret.Recognise(rest[:n]); found != k || !isToken(k.Prefix, rest[len(k.Prefix):n]) {
		return match{}, false
	}
	m := matchAt(text, span{at, at + n}, span{at, at + n})
	m.rule, m.template, m.known = strings.ReplaceAll(strings.ToLower(k.Kind), " ", "-"), k.Template, true
	return m, true
}

// best keeps of matches that overlap the one that knows most, and sorts.
func best(found []match) []match {
	slices.SortStableFunc(found, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.from, b.from))
	})
	var kept []match
	for _, m := range found {
		if len(kept) < mostFindings && !slices.ContainsFunc(kept, func(k match) bool { return m.from < k.to && k.from < m.to }) {
			kept = append(kept, m)
		}
	}
	slices.SortFunc(kept, func(a, b match) int { return cmp.Compare(a.from, b.from) })
	return kept
}

// rank orders by what a match knows: a service with a template, a service, a
// prefix, the name of a variable.
func (m match) rank() int {
	rank := 0
	if m.template == "" {
		rank += 2
	}
	if m.known {
		rank++
	}
	if m.generic {
		rank += 4
	}
	return rank
}

// findings are what is told of matches, which are sorted.
func findings(path, text string, list []match) []Finding {
	var out []Finding
	line, start, at := 1, 0, 0
	for _, m := range list {
		for i := strings.IndexByte(text[at:m.from], '\n'); i >= 0; i = strings.IndexByte(text[at:m.from], '\n') {
			at += i + 1
			line, start = line+1, at
		}
		f := Finding{Path: path, Variable: "", Line: line, Column: m.from - start + 1, Kind: m.rule, Template: m.template, Starts: ""}
		if len(m.secret) >= shownFrom {
			f.Starts = m.secret[:shownStart]
		}
		out = append(out, f)
	}
	return out
}

// templateOf returns the template for what a rule of gitleaks finds, or "".
func templateOf(rule string) string {
	switch rule {
	case "gcp-api-key":
		return "gemini"
	case "github-refresh-token", "bitbucket-client-id", "linear-client-secret", "gitlab-session-cookie":
		return ""
	}
	service, _, _ := strings.Cut(rule, "-")
	if _, err := secret.FindTemplate(service); err != nil {
		return ""
	}
	return service
}
