package terminal

import (
	"slices"
	"strings"
)

// Lines makes an error safe to print, one line for each error that it joins
// (errors.Join, or what else has an Unwrap of several and their texts below one
// another). A line end within one of them is escaped as anywhere: a name of a
// file cannot write a line of its own.
func Lines(err error) []string {
	lines := split(err)
	for i, l := range lines {
		lines[i] = Sanitize(l)
	}
	return lines
}

// split is Lines without the escapes.
func split(err error) []string {
	text := err.Error()
	if !strings.Contains(text, "\n") {
		return []string{text}
	}
	switch e := err.(type) { //nolint:errorlint // it goes down the chain itself
	case interface{ Unwrap() []error }:
		var texts, lines []string
		for _, part := range e.Unwrap() {
			texts = append(texts, part.Error())
			lines = append(lines, split(part)...)
		}
		if strings.Join(texts, "\n") == text {
			return lines
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return around(text, inner)
		}
	}
	return []string{text}
}

// around is a text with the lines of an error that stands in it.
func around(text string, inner error) []string {
	before, behind, found := strings.Cut(text, inner.Error())
	if !found {
		return []string{text}
	}
	lines := slices.Clone(split(inner))
	lines[0] = before + lines[0]
	lines[len(lines)-1] += behind
	return lines
}
