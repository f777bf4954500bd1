package secret

import (
	"bytes"
	"crypto/rand"
	"math"
	"strings"
)

// What every placeholder has.
const (
	minPlaceholder = 20  // bytes
	minRandomBits  = 100 // so that nobody guesses one, and no two are the same
	minHiddenBits  = 64  // of the value, where its separators are shown
	maxKept        = 32  // bytes of a prefix
)

// The alphabets of a placeholder's places.
const (
	digits   = "0123456789"
	lower    = "abcdefghijklmnopqrstuvwxyz"
	upper    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowerHex = digits + "abcdef"
	upperHex = digits + "ABCDEF"
	alphanum = digits + lower + upper
)

// NewPlaceholder returns a random stand-in for a value that passes for one of
// its kind: as long, small letters, capitals and digits where the value has
// them, hexadecimal where the value is, any other character of ASCII as it
// stands, and the first keep bytes the value's own. A keep of 0 keeps a prefix
// that is known (PrefixOf), a negative one nothing; never is more kept than half
// of the value.
//
// A placeholder has 100 bits of randomness and 20 bytes at least. Where the
// value's letters and digits are too few for that, they are drawn from all the
// kinds that the run they stand in has (GitLab's twenty are), and if that is not
// enough the placeholder is longer; where they are fewer than 64 bits, the other
// characters are a good part of the secret and do not stand in it. The value is
// read and not kept, and what of it comes behind the prefix does not stand
// behind the placeholder's.
func NewPlaceholder(value []byte, keep int) string {
	kept := keptOf(value, keep)
	rest := value[kept:]
	shape := append(fixed(value[:kept]), shapeOf(rest, alphabet)...)
	if randomBits(shape) < minRandomBits {
		shape = append(fixed(value[:kept]), shapeOf(rest, ofRun)...)
	}
	for randomBits(shape) < minRandomBits || len(shape) < minPlaceholder {
		shape = append(shape, alphanum)
	}
	for {
		p := draw(shape)
		if len(rest) == 0 || !bytes.Contains(p[kept:], rest) {
			return string(p) // a shape has places to be other than the value, so this comes soon
		}
	}
}

// keptOf is how many leading bytes a placeholder shares with the value.
func keptOf(value []byte, keep int) int {
	half := len(value) / 2
	if keep == 0 {
		if keep = len(PrefixOf(value)); keep > half {
			return 0 // a part of a known prefix is none
		}
	}
	kept := max(0, min(keep, half, maxKept))
	if n := bytes.IndexFunc(value[:kept], func(r rune) bool { return r < '!' || r > '~' }); n >= 0 {
		return n
	}
	return kept
}

// fixed is the shape of bytes that stay as they are.
func fixed(b []byte) []string {
	shape := make([]string, 0, max(len(b), minPlaceholder))
	for _, c := range b {
		shape = append(shape, string(rune(c)))
	}
	return shape
}

// shapeOf gives for each byte the alphabet that its stand-in is drawn from, of
// letters and digits that of their kind or of the run. It has a place with a
// choice, unless it is empty.
func shapeOf(value []byte, of func(c byte, run string) string) []string {
	shape := make([]string, 0, len(value))
	whole := hexOf(value, "-") // such as a UUID, some groups of which could be anything
	for i := 0; i < len(value); {
		n := runLength(value[i:])
		if n == 0 {
			shape = append(shape, separator(value[i]))
			i++
			continue
		}
		shape = append(shape, runShape(string(value[i:i+n]), whole, of)...)
		i += n
	}
	if randomBits(shape) < minHiddenBits {
		for i, a := range shape {
			if len(a) == 1 {
				shape[i] = alphanum
			}
		}
	}
	keepVersion(shape, value, whole)
	return shape
}

// runShape is the shape of letters and digits that stand together, hexadecimal
// ones if all of the value is.
func runShape(run, hex string, of func(c byte, run string) string) []string {
	if hex == "" {
		hex = hexOf([]byte(run), "")
	}
	shape := make([]string, 0, len(run))
	for i := range len(run) {
		if hex != "" {
			shape = append(shape, hex)
		} else {
			shape = append(shape, of(run[i], run))
		}
	}
	return shape
}

// runLength is the number of letters and digits that b begins with.
func runLength(b []byte) int {
	if n := bytes.IndexFunc(b, func(r rune) bool { return r >= 0x80 || !strings.ContainsRune(alphanum, r) }); n >= 0 {
		return n
	}
	return len(b)
}

// separator is the shape of what is no letter or digit.
func separator(c byte) string {
	if c >= ' ' && c <= '~' {
		return string(rune(c))
	}
	return alphanum
}

// alphabet is of the kind that a letter or digit is.
func alphabet(c byte, _ string) string {
	switch {
	case strings.IndexByte(digits, c) >= 0:
		return digits
	case strings.IndexByte(lower, c) >= 0:
		return lower
	}
	return upper
}

// ofRun is of all the kinds that a run of letters and digits has.
func ofRun(_ byte, run string) string {
	var all strings.Builder
	for _, kind := range []string{digits, lower, upper} {
		if strings.ContainsAny(run, kind) {
			all.WriteString(kind)
		}
	}
	return all.String()
}

// hexOf returns the digits of a run that is a hexadecimal number, of one case,
// long enough not to be one by chance; else "". Bytes of between may stand in
// it.
func hexOf(run []byte, between string) string {
	const shortest = 8
	text := string(run)
	if len(run) < shortest || !strings.ContainsAny(text, digits) {
		return ""
	}
	for _, set := range []string{lowerHex, upperHex} {
		if strings.ContainsAny(text, set[len(digits):]) && within(text, set+between) {
			return set
		}
	}
	return ""
}

// within reports whether every byte of s is in set.
func within(s, set string) bool {
	for i := range len(s) {
		if strings.IndexByte(set, s[i]) < 0 {
			return false
		}
	}
	return true
}

// keepVersion leaves a UUID (RFC 9562 4) one: some clients check.
func keepVersion(shape []string, value []byte, hex string) {
	const version, variant = 14, 19
	if hex == "" || len(value) != 36 || value[8] != '-' || value[13] != '-' || value[18] != '-' || value[23] != '-' {
		return
	}
	variants := "89" + hex[10:12]
	if strings.IndexByte(variants, value[variant]) < 0 || strings.IndexByte("12345678", value[version]) < 0 {
		return
	}
	shape[version], shape[variant] = string(rune(value[version])), variants
}

// randomBits is how many bits of randomness a shape has.
func randomBits(shape []string) float64 {
	bits := 0.0
	for _, a := range shape {
		bits += math.Log2(float64(len(a)))
	}
	return bits
}

// draw fills a shape, every byte of an alphabet as likely as another.
func draw(shape []string) []byte {
	out := make([]byte, len(shape))
	var d dice
	for i, a := range shape {
		out[i] = a[d.below(len(a))]
	}
	return out
}

// dice are random numbers out of random bytes.
type dice struct {
	bytes [64]byte
	left  int
}

// below returns a number from 0 to n-1, for n up to 256. Bytes that would make
// some of them likelier are thrown away.
func (d *dice) below(n int) int {
	for fair := 256 - 256%n; ; {
		if d.left == 0 {
			_, _ = rand.Read(d.bytes[:]) // it never fails (crypto/rand)
			d.left = len(d.bytes)
		}
		d.left--
		if b := int(d.bytes[d.left]); b < fair {
			return b % n
		}
	}
}
