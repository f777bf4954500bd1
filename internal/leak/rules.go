package leak

import (
	_ "embed" // the rules
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rulesFile is what tools/leakrules wrote.
//
//go:embed gitleaks/rules.json
var rulesFile []byte

// rule is one of gitleaks, in the form of its configuration.
type rule struct {
	ID       string      `json:"id"`
	Regex    lazy        `json:"regex"` // empty: the path alone tells
	Path     lazy        `json:"path"`  // empty: any file
	Group    int         `json:"group"` // that is the secret; 0: the first that is not empty
	Entropy  float64     `json:"entropy"`
	Keywords []string    `json:"keywords"` // in lower case; a file has one of them, or no match
	Allow    []allowance `json:"allow"`

	// named rules are for a variable, its name and value, as most are: a match is
	// in a line or two.
	named bool
}

// allowance is what is no secret, though a rule says so.
type allowance struct {
	All       bool     `json:"all"` // what is named below together, and not any of it
	Paths     []lazy   `json:"paths"`
	Regexes   []lazy   `json:"regexes"`
	Target    string   `json:"target"` // what they look at: match, line, or the secret
	Stopwords []string `json:"stopwords"`
}

// ruleSet is the file.
type ruleSet struct {
	From  string      `json:"from"`
	Allow []allowance `json:"allow"`
	Rules []rule      `json:"rules"`

	words *words
}

// rules are read when something is looked at first: no start of a program
// pays for them.
var rules = sync.OnceValues(func() (*ruleSet, error) {
	var s ruleSet
	if err := json.Unmarshal(rulesFile, &s); err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	for i, r := range s.Rules {
		s.Rules[i].named = strings.Contains(r.Regex.pattern, `[\w.-]{0,50}?`)
	}
	s.words = newWords(&s)
	return &s, nil
})

// lazy is a regular expression that is compiled when it is first used.
type lazy struct {
	pattern string
	compile func() *regexp.Regexp
}

// UnmarshalText takes the expression and does not compile it: a test compiles
// all of them.
func (l *lazy) UnmarshalText(text []byte) error {
	pattern := string(text)
	if pattern == "" {
		return nil
	}
	l.pattern = pattern
	l.compile = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
	return nil
}

func (l lazy) empty() bool { return l.compile == nil }

func (l lazy) matches(s string) bool { return l.compile != nil && l.compile().MatchString(s) }

func anyMatches(list []lazy, s string) bool {
	return slices.ContainsFunc(list, func(l lazy) bool { return l.matches(s) })
}

// excludes reports whether a file is not looked at, by its path alone.
func (a allowance) excludes(path string) bool {
	if a.All && len(a.Regexes)+len(a.Stopwords) > 0 {
		return false // the path is one condition of several
	}
	return anyMatches(a.Paths, path)
}

// allows reports whether a match is no secret.
func (a allowance) allows(path string, m match) bool {
	target := m.secret
	switch a.Target {
	case "match":
		target = m.whole
	case "line":
		target = m.line
	}
	regex, word := anyMatches(a.Regexes, target), containsAny(strings.ToLower(m.secret), a.Stopwords)
	if !a.All {
		return regex || word
	}
	return (len(a.Paths) == 0 || anyMatches(a.Paths, path)) && (len(a.Regexes) == 0 || regex) && (len(a.Stopwords) == 0 || word)
}

func containsAny(s string, list []string) bool {
	return slices.ContainsFunc(list, func(w string) bool { return strings.Contains(s, w) })
}

// generic reports whether the rule tells a secret by the name of a variable
// alone: any other that finds the same one knows better.
func (r rule) generic() bool { return strings.Contains(r.ID, "generic") }
