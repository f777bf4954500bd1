package spell

import (
	"fmt"
	"strings"
)

// longest is a word that is compared, in bytes.
const longest = 64

// Nearest returns the known word that a wrong one was most likely meant to be,
// or "" if none is near. The known words are in lower case.
func Nearest(word string, known []string) string {
	best, least := "", 1+max(1, min(len(word), longest-2)/2)
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	return best
}

// DidYouMean is a hint that names the nearest word, and all of them.
func DidYouMean(word string, known []string) string {
	if n := Nearest(word, known); n != "" {
		return fmt.Sprintf("did you mean %q? known: %s", n, strings.Join(known, ", "))
	}
	return "known: " + strings.Join(known, ", ")
}

// distance is the number of letters to add, drop, change or swap with the next
// to make a of b (optimal string alignment).
func distance(a, b string) int {
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var older []int
	old := make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := old[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, old[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
		older, old = old, row
	}
	return old[len(b)]
}
