package delegate

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/task"
)

const (
	idBytes  = 3  // random ones at the end of an id
	mostWord = 16 // bytes of its word
)

// newID makes a short id that a person can tell from others: a word of the
// text and six random digits. taken reports ids that there are.
func newID(text string, taken func(task.ID) bool) task.ID {
	word := wordOf(text)
	for {
		var b [idBytes]byte
		_, _ = rand.Read(b[:]) // never fails (crypto/rand documentation, Go 1.24)
		if id := task.ID(word + "-" + hex.EncodeToString(b[:])); !taken(id) {
			return id
		}
	}
}

// wordOf is the first word of a text that says something, in lower-case ASCII
// letters and digits; "task" if there is none.
func wordOf(text string) string {
	const scanned = 400
	plain := []string{"the", "and", "you", "are", "your", "this", "that", "please", "with", "for", "from", "into", "when", "there", "should", "must", "not", "all"}
	words := strings.FieldsFunc(strings.ToLower(text[:min(len(text), scanned)]), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	for _, w := range words {
		if len(w) < 3 || w[0] < 'a' || slices.Contains(plain, w) {
			continue
		}
		return w[:min(len(w), mostWord)]
	}
	return "task"
}
