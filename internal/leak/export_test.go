package leak

import "strings"

// RuleText is a rule as a test sees it.
type RuleText struct {
	ID, Regex, Path string
	Keywords        []string
}

// Rules are all rules.
func Rules() ([]RuleText, error) {
	set, err := rules()
	if err != nil {
		return nil, err
	}
	var list []RuleText
	for _, r := range set.Rules {
		list = append(list, RuleText{r.ID, r.Regex.pattern, r.Path.pattern, r.Keywords})
	}
	return list, nil
}

// CompileAll compiles every expression.
func CompileAll() error {
	set, err := rules()
	if err != nil {
		return err
	}
	all := append([]allowance{}, set.Allow...)
	for _, r := range set.Rules {
		all = append(all, r.Allow...)
		for _, l := range []lazy{r.Regex, r.Path} {
			l.matches("")
		}
	}
	for _, a := range all {
		for _, l := range append(append([]lazy{}, a.Paths...), a.Regexes...) {
			l.matches("")
		}
	}
	return nil
}

// WholeText is Text with each rule whose word is there tried on all of it, as
// gitleaks does.
func WholeText(path, text string) ([]Finding, error) {
	set, err := rules()
	if err != nil || set.excludes(path) {
		return nil, err
	}
	windows, known := set.windows(text)
	small := strings.ToLower(text)
	for i, r := range set.Rules {
		windows[i] = nil
		if containsAny(small, r.Keywords) {
			windows[i] = []span{{0, len(text)}}
		}
	}
	return set.found(path, text, windows, known), nil
}
