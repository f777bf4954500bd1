package settings

import (
	"fmt"
	"strings"

	"github.com/bailey-dev/bailey/internal/mirror"
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
	for _, doubt := range s.Doubts {
		out = append(out, "policy: WARNING: "+doubt)
	}
	return out
}

// Changes compares two policies: what only the first has, and what only the
// second has, in words and with where it stands.
func Changes(before, after Effective) (gone, come []string) {
	a, b := before.lines(), after.lines()
	return a.without(b), b.without(a)
}

// Diff returns what the project's file says beside the user's: as it was trusted
// last, or without it when last is nil, and as it is now. The user's mode none,
// which keeps all of it out until a flag opens the network, hides nothing here.
func Diff(user *File, last []byte, now *File, h mirror.Host) (before, after Effective, err error) {
	old := Sources{Files: Files{User: user}, regardless: true}
	if last != nil {
		old.Trusted = true
		if old.Project, err = Parse(now.Path, last); err != nil {
			old.Project = nil // another version's: nothing of it holds
		}
	}
	if before, err = Resolve(old, h); err != nil {
		return before, after, err
	}
	after, err = Resolve(Sources{Files: Files{User: user, Project: now, Trusted: true}, regardless: true}, h)
	return before, after, err
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
	said := map[string]bool{}
	for _, s := range b {
		said[s.text] = true
	}
	for _, s := range a {
		if !said[s.text] {
			out = append(out, s.text+"   "+s.from)
		}
	}
	return out
}

// AllowLine returns what a policy file says, in one line, to allow what some
// entries of its list name (policy.Remedy).
func AllowLine(entries ...string) string {
	return "net: {allow: [" + strings.Join(entries, ", ") + "]}"
}
