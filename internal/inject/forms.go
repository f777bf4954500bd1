package inject

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const (
	alphabetStd = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	alphabetURL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// edge is the part of a base64 character that belongs to a word, where the rest
// of it belongs to the byte beside the word.
type edge struct {
	mask byte // bits of the word; 0: there is nothing to see to
	want byte // what they are
	put  byte // what takes their place
	url  bool // of RFC 4648 §5
}

// sextet is the number that a base64 character of either alphabet stands for,
// or -1.
func sextet(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '+' || c == '-':
		return 62
	case c == '/' || c == '_':
		return 63
	}
	return -1
}

// fits reports whether a character may hold these bits.
func (e edge) fits(c byte) bool {
	v := sextet(c)
	return v >= 0 && byte(v&0x3f)&e.mask == e.want
}

// change puts the other bits into a character that fits.
func (e edge) change(c byte) byte {
	v := byte(sextet(c)&0x3f)&^e.mask | e.put
	if e.url || c == '-' || c == '_' {
		return alphabetURL[v]
	}
	return alphabetStd[v]
}

// coverOf returns what takes the place of a value where lengths have to stay:
// the placeholder, which is as long as a rule, or else its beginning. A value
// that is longer, as one may be after a rotation, goes on as x, but for blanks.
func coverOf(value []byte, placeholder string) []byte {
	out := bytes.Clone(value)
	for i := copy(out, placeholder); i < len(out); i++ {
		if out[i] > ' ' {
			out[i] = 'x'
		}
	}
	return out
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// forms collects the patterns of words. A word has a cover as long as it, or
// nil for one that is only to be found.
type forms struct {
	pats  []pattern
	slack int // leading bytes of a word without a cover that may pass
}

// add takes in a word in all forms that are looked for as they are. The others
// are escapes, which are undone before looking (see lexer).
func (f *forms) add(word int, text, cover []byte) {
	f.plain(word, text, cover)
	if bytes.IndexByte(text, ' ') >= 0 { // in a query and a form
		f.plain(word, bytes.ReplaceAll(text, []byte(" "), []byte("+")), bytes.ReplaceAll(cover, []byte(" "), []byte("+")))
	}
	if bytes.ContainsAny(text, `%\&`) { // what is escaped is taken for escaped twice (see lexer)
		if undone := undo(text); !bytes.Equal(undone, text) {
			var c []byte
			if cover != nil {
				c = coverOf(undone, string(cover))
			}
			f.plain(word, undone, c)
		}
	}
	for align := range 3 {
		f.base64(word, align, text, cover)
	}
	each := func(form func([]byte) []byte) {
		var c []byte
		if cover != nil {
			c = form(cover)
		}
		f.plain(word, form(text), c)
	}
	lower := func(b []byte) []byte { return []byte(hex.EncodeToString(b)) }
	each(lower)
	if upper := bytes.ToUpper(lower(text)); !bytes.Equal(upper, lower(text)) {
		each(func(b []byte) []byte { return bytes.ToUpper(lower(b)) })
	}
	each(func(b []byte) []byte { return widen(b, 0) })
	each(func(b []byte) []byte { return widen(b, 1) })
}

// widen writes bytes as UTF-16, little endian for low 0 and big endian for 1.
func widen(b []byte, low int) []byte {
	out := make([]byte, 2*len(b))
	for i, c := range b {
		out[2*i+low] = c
	}
	return out
}

// plain takes in one pattern, unless it is too short to be told from chance.
func (f *forms) plain(word int, text, cover []byte) {
	if len(text) >= minText {
		f.pats = append(f.pats, pattern{text: text, cover: cover, word: word, shared: f.shared(text, cover)})
	}
}

// shared returns how many leading bytes may pass before the rest is known.
func (f *forms) shared(text, cover []byte) int {
	if cover == nil {
		return f.slack
	}
	for i := range text {
		if text[i] != cover[i] {
			return i
		}
	}
	return len(text)
}

// base64 takes in the characters that a word alone determines if align bytes
// stand before it in a group of three.
func (f *forms) base64(word, align int, text, cover []byte) {
	std := coreOf(base64.RawStdEncoding, align, text, cover)
	std.word = word
	url := coreOf(base64.RawURLEncoding, align, text, cover)
	url.word, url.before.url, url.after.url = word, true, true
	for _, p := range []pattern{std, url} {
		if len(p.text) < minText {
			return
		}
		p.shared = f.shared(p.text, p.cover)
		f.pats = append(f.pats, p)
		if bytes.Equal(std.text, url.text) {
			return
		}
	}
}

// coreOf encodes a word behind align bytes and returns the characters that are
// all its own, and what of their neighbours is.
func coreOf(enc *base64.Encoding, align int, text, cover []byte) pattern {
	padded := func(b []byte) []byte {
		return append(append(make([]byte, align, align+len(b)+2), b...), 0, 0)
	}
	encode := func(b []byte) string { return enc.EncodeToString(padded(b)) }
	first := (8*align + 5) / 6 // the first character whose bits are all the word's
	end := 8 * (align + len(text)) / 6
	whole := encode(text)
	p := pattern{text: []byte(whole[first:end])}
	if cover == nil {
		return p
	}
	covered := encode(cover)
	p.cover = []byte(covered[first:end])
	bits := func(s string, i int, mask byte) byte { return byte(sextet(s[i])&0x3f) & mask }
	if n := 6*first - 8*align; n > 0 {
		mask := byte(1)<<n - 1
		p.before = edge{mask: mask, want: bits(whole, first-1, mask), put: bits(covered, first-1, mask)}
	}
	if n := 8*(align+len(text)) - 6*end; n > 0 {
		mask := (byte(1)<<n - 1) << (6 - n)
		p.after = edge{mask: mask, want: bits(whole, end, mask), put: bits(covered, end, mask)}
	}
	for _, e := range []*edge{&p.before, &p.after} {
		if e.want == e.put {
			*e = edge{}
		}
	}
	return p
}

// folded is the pattern of a word in names of fields, whose case is lost.
func (f *forms) folded(word int, text []byte) {
	low := []byte(strings.ToLower(string(text)))
	f.plain(word, low, nil)
	f.plain(word, []byte(hex.EncodeToString(text)), nil)
	for align := range 3 {
		p := coreOf(base64.RawURLEncoding, align, text, nil)
		f.plain(word, bytes.ToLower(p.text), nil)
	}
}
