package carry

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// someOf lists a few names and says how many there are more.
func someOf(names []string) string {
	const few = 5
	if n := len(names); n > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", n-few)
	}
	return strings.Join(names, ", ")
}

// What text may hold that is not what it looks like (Trojan Source,
// CVE-2021-42574; and what a terminal takes for commands).
const (
	oddDirection = "text holds characters that change the direction it is read in"
	oddTag       = "text holds characters that are not seen"
	oddEscape    = "text holds sequences that a terminal obeys"
	oddScript    = "words mix letters of scripts that look alike"
)

// oddities names what is odd about a text, each once.
func oddities(data []byte) []string {
	if plainText(data) {
		return nil
	}
	var list []string
	add := func(what string) {
		if !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	var word wordScripts
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			r = byteAlone(data[0])
		}
		data = data[n:]
		if what := oddRune(r); what != "" {
			add(what)
		}
		if word.mixed(r) {
			add(oddScript)
		}
	}
	return list
}

// byteAlone is what a byte that is not UTF-8 is to a terminal: perhaps a C1
// control.
func byteAlone(c byte) rune {
	if c >= 0x80 && c < 0xa0 {
		return rune(c)
	}
	return ' '
}

func oddRune(r rune) string {
	const mark, joiner, next = 0x061c, 0x200d, 0x85 // of languages, of pictures, and a line's end
	switch {
	case reorders(r) && r != mark && (r <= joiner || r > 0x200f):
		return oddDirection
	case isTag(r) || r >= 0xe0100 && r <= 0xe01ef || r >= 0x2060 && r <= 0x2064:
		return oddTag
	case r == 0x1b || r >= 0x80 && r < 0xa0 && r != next || r == '\b' || r == 0x7f:
		return oddEscape
	}
	return ""
}

// plainText is a quick look at text without anything that could be odd.
func plainText(data []byte) bool {
	for _, c := range data {
		if c >= 0x7f || c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f' {
			return false
		}
	}
	return true
}

// wordScripts watches the letters of one word.
type wordScripts struct{ latin, other bool }

// mixed reports whether a word has had Latin letters and such of a script that
// has letters of the same looks.
func (w *wordScripts) mixed(r rune) bool {
	switch {
	case r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'):
		w.latin = true
	case r < 0x80:
		if r != '_' && (r < '0' || r > '9') {
			*w = wordScripts{}
		}
	case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Cherokee, unicode.Armenian):
		// Single Greek letters stand for quantities: µs, Δx.
		w.other = w.other || !unicode.In(r, unicode.Greek)
	case !unicode.IsLetter(r) && !unicode.IsMark(r):
		*w = wordScripts{}
	}
	return w.latin && w.other
}

// isLockfile knows the files that say where packages are fetched from.
func isLockfile(name string) bool {
	switch path.Base(name) {
	case "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "poetry.lock", "uv.lock", "Pipfile.lock",
		"pdm.lock", "pylock.toml", "requirements.txt", "Cargo.lock", "go.sum", "go.mod", "Gemfile.lock", "composer.lock", "flake.lock", "mix.lock", "Podfile.lock", "deno.lock":
		return true
	}
	return false
}

var sourcePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:git\+)?(?:https?|ssh|git|file|ftp)://[^\s"'<>,;)\]}]+|\bgit@[a-z0-9.-]+:`)
})

// maxSources bounds how many addresses of a lockfile are looked at.
const maxSources = 200_000

// sources are the schemes and hosts that a lockfile names.
func sources(data []byte) []string {
	var list []string
	for _, match := range sourcePattern().FindAll(data, maxSources) {
		m := string(match)
		source := m
		if u, err := url.Parse(m); err == nil && u.Host != "" {
			source = strings.ToLower(u.Scheme + "://" + u.Host)
		}
		if !slices.Contains(list, source) {
			list = append(list, source)
		}
	}
	return list
}

// newSources are those that the new text has and the old had not.
func newSources(was, now []byte) []string {
	old := sources(was)
	list := slices.DeleteFunc(sources(now), func(s string) bool { return slices.Contains(old, s) })
	const most = 10
	return list[:min(len(list), most)]
}
