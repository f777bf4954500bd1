package settings

import (
	"fmt"
	"slices"
)

// Notes says which files have a word in what holds, a sentence each.
func (s Sources) Notes() []string {
	var out []string
	if s.User != nil {
		out = append(out, "policy: "+s.User.Path)
	}
	if s.Project != nil {
		state := "not trusted, so it only tightens"
		if s.Trusted {
			state = "trusted as it is"
		}
		out = append(out, "policy: "+s.Project.Path+" ("+state+")")
	}
	return out
}

// Changes compares two policies: what only the first has, and what only the
// second has, in words and with where it stands.
func Changes(before, after Effective) (gone, come []string) {
	a, b := before.lines(), after.lines()
	return a.without(b), b.without(a)
}

// statement is one thing that a policy says.
type statement struct{ text, from string }

type statements []statement

func (e Effective) lines() statements {
	out := statements{
		{"mode " + e.Mode.Value.String(), e.Mode.From},
		{"dns " + e.DNS.Value.String(), e.DNS.From},
		{fmt.Sprintf("ask %v", e.Ask.Value), e.Ask.From},
	}
	for _, h := range e.Allow {
		out = append(out, statement{"allow " + h.Text(), h.From})
	}
	for _, h := range e.Deny {
		out = append(out, statement{"deny " + h.Text(), h.From})
	}
	return out
}

// without returns what is said in a and not in b.
func (a statements) without(b statements) []string {
	var out []string
	for _, s := range a {
		if !slices.ContainsFunc(b, func(o statement) bool { return o.text == s.text }) {
			out = append(out, s.text+"   "+s.from)
		}
	}
	return out
}
