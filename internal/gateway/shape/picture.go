package shape

import (
	"encoding/base64"
	"strings"
)

// isPicture reports whether bytes in base64, bare or in a data: URI, are those of
// a picture: by their type, which some servers go by, and by how they begin, which
// others do.
func isPicture(s string) bool {
	if head, data, ok := strings.Cut(s[:min(len(s), mostDataHead)], ","); ok {
		kind, _, _ := strings.Cut(strings.ToLower(head), ";")
		if !strings.HasPrefix(kind, "data:image/") {
			return false
		}
		s = data
	}
	const enough = 24
	head, err := base64.StdEncoding.DecodeString(s[:min(len(s), enough)/4*4])
	if err != nil {
		return false
	}
	for _, first := range []string{
		"\x89PNG", "\xff\xd8\xff", "GIF8", "RIFF????WEBP", "BM", "II*\x00", "MM\x00*",
		"????ftypavif", "????ftypavis", "????ftypheic", "????ftypheix", "????ftypmif1", "????ftypmsf1",
	} {
		if begins(head, first) {
			return true
		}
	}
	return false
}

// begins reports whether b begins as pattern, whose question marks are any byte.
func begins(b []byte, pattern string) bool {
	if len(b) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		if pattern[i] != '?' && pattern[i] != b[i] {
			return false
		}
	}
	return true
}
