package shape

import (
	"encoding/base64"
	"image"
	_ "image/jpeg" // formats that say at their beginning how large they are
	_ "image/png"
	"io"
	"math"
	"strings"
)

// pictureArea returns how many pixels a picture has whose bytes stand in base64,
// bare or in a data: URI; a very large number where its format is known and not
// read. ok is false for what is no picture: by its type, which some servers go
// by, or by how it begins, which others do.
func pictureArea(s string) (pixels int64, ok bool) {
	if head, _, found := strings.Cut(s[:min(len(s), mostDataHead)], ","); found {
		kind, _, _ := strings.Cut(strings.ToLower(head), ";")
		if !strings.HasPrefix(kind, "data:image/") {
			return 0, false
		}
		s = s[len(head)+1:]
	}
	const mostHead = 1 << 20 // of a photograph, which has a smaller one in its head
	in := io.LimitReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(s)), mostHead)
	if c, _, err := image.DecodeConfig(in); err == nil {
		return int64(c.Width) * int64(c.Height), true
	}
	const enough = 24
	head, err := base64.StdEncoding.DecodeString(s[:min(len(s), enough)/4*4])
	if err != nil {
		return 0, false
	}
	for _, first := range []string{
		"\x89PNG", "\xff\xd8\xff", "GIF8", "RIFF????WEBP", "BM", "II*\x00", "MM\x00*",
		"????ftypavif", "????ftypavis", "????ftypheic", "????ftypheix", "????ftypmif1", "????ftypmsf1",
	} {
		if begins(head, first) {
			return math.MaxInt32, true
		}
	}
	return 0, false
}

// IsPicture reports whether bytes in base64, of either alphabet, begin as those
// of a picture do, whatever they are called.
func IsPicture(s string) bool {
	const enough = 1 << 10
	head := strings.NewReplacer("-", "+", "_", "/").Replace(s[:min(len(s), enough)])
	_, ok := pictureArea(head)
	return ok
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
