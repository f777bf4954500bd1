package leak

import (
	"strings"

	"github.com/bailey-dev/bailey/internal/secret"
)

// words finds all keywords of all rules in one pass: a table by the first two
// bytes tells where one may begin. That is some hundred megabytes a second,
// where an expression of Go's does five.
type words struct {
	list  []word
	first [1 << 16]uint16 // of the words that begin with two bytes the first, plus one
}

// word is one keyword and who wants it.
type word struct {
	text  string // lower case
	rules []int  // of the rule set
	known *secret.Known
	next  uint16 // word with the same first two bytes, plus one
}

func newWords(s *ruleSet) *words {
	w := &words{}
	at := map[string]int{}
	add := func(text string) *word {
		i, ok := at[text]
		if !ok {
			i = len(w.list)
			at[text] = i
			key := pair(text, 0)
			w.list = append(w.list, word{text: text, next: w.first[key]})
			w.first[key] = uint16(i + 1)
		}
		return &w.list[i]
	}
	for i, r := range s.Rules {
		for _, k := range r.Keywords {
			if len(k) >= 2 {
				x := add(k)
				x.rules = append(x.rules, i)
			}
		}
	}
	for _, k := range secret.KnownPrefixes() {
		if x := add(strings.ToLower(k.Prefix)); len(x.rules) == 0 { // else gitleaks knows the rest of it, too
			x.known = &k
		}
	}
	return w
}

func pair(s string, i int) int { return int(s[i])<<8 | int(s[i+1]) }

// each calls f for every place at which a word stands in a text of lower case.
func (w *words) each(text string, f func(at int, found *word)) {
	for i := 0; i+1 < len(text); i++ {
		for n := w.first[pair(text, i)]; n != 0; {
			x := &w.list[n-1]
			if strings.HasPrefix(text[i:], x.text) {
				f(i, x)
			}
			n = x.next
		}
	}
}

// lower is the text with letters of ASCII in lower case, at the same places.
func lower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}
