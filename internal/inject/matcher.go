package inject

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// pattern is one form in which a word stands in a stream.
type pattern struct {
	text   []byte // what is looked for, minText bytes or more
	cover  []byte // what takes its place, as long; nil where finding is all
	word   int    // which of the words: an index of the one who made it
	shared int    // leading bytes that may pass before the rest is there
	before edge   // base64: what the character before text holds of the word
	after  edge   // and the one behind it
}

// span is how many bytes a match covers, with its edges.
func (p *pattern) span() (before, after int) {
	if p.before.mask != 0 {
		before = 1
	}
	if p.after.mask != 0 {
		after = 1
	}
	return before, after
}

const (
	minText = 8  // bytes of the shortest pattern
	maxStep = 24 // bytes between two looks at a text
	block   = 4  // bytes of one look

	minSieve  = 17 // bits of a hash: 16 KiB
	maxSieve  = 22
	perBlock  = 16 // bits for each block that is known, so that few others are taken for one
	tailBits  = 13
	hashPrime = 0x9E3779B1 // Knuth's, for multiplicative hashing
)

// matcher finds many patterns at once. Whatever the text, it looks at 4 bytes
// in every step bytes, as no pattern fits between two such looks: of each
// pattern's last window every 4 bytes are known. That is the idea of Wu and
// Manber ("A fast algorithm for multi-pattern searching", 1994) with a step that
// does not depend on what was seen, so that one look does not wait for the other.
//
// It is not changed after it was made, and safe for concurrent use.
type matcher struct {
	pats     []pattern
	step     int
	shift    int               // of a block's hash, for the sieve
	longest  int               // bytes of the longest pattern, edges included
	least    int               // the least shared of all
	sieve    []uint64          // a bit for each hash of a block that is known
	blocks   map[uint32][]spot // where a block stands in windows
	heads    []uint64          // a bit for each hash of the first block of a pattern
	begins   map[uint32][]int  // patterns by their first block
	short    map[uint32][]int  // and by their first one to three bytes, see shortKey
	grams    grams             // all blocks of all patterns
	first    [256]bool         // bytes that a pattern begins with
	edges    [256]bool         // characters that may hold a few bits of a word, whose pattern then follows
	alphabet [256]bool         // bytes of all patterns
	guarded  bool              // what it looks for is not to be found out by watching it; see run
	opens    [256]kinds        // what escapes have behind their sign
	dull     [256]bool         // what behind a backslash makes an escape for a byte that is in none
}

// spot is a place in a pattern.
type spot struct{ pat, off int }

// match is a pattern in a text.
type match struct {
	pat   *pattern
	start int
}

func hashTail(x uint32) uint32 { return x * hashPrime >> (32 - tailBits) }

// shortKey tells beginnings of one to three bytes apart.
func shortKey(b []byte) uint32 {
	k := uint32(len(b) & 0xff)
	for _, c := range b {
		k = k<<8 | uint32(c)
	}
	return k
}

// newMatcher makes a matcher of patterns, none of which is shorter than minText.
func newMatcher(pats []pattern) *matcher {
	m := &matcher{
		pats: pats, step: maxStep,
		heads:  make([]uint64, 1<<tailBits/64),
		grams:  make(grams, 1<<gramBits/64),
		blocks: map[uint32][]spot{}, begins: map[uint32][]int{}, short: map[uint32][]int{},
	}
	for i := range pats {
		m.step = min(m.step, len(pats[i].text)-block+1)
		if i == 0 {
			m.least = pats[i].shared
		}
		m.least = min(m.least, pats[i].shared)
	}
	m.sieve = make([]uint64, (1<<m.bits())/64)
	for i := range pats {
		m.learn(i)
	}
	for _, c := range []byte(`"'/bfnrt`) {
		t, _ := lex([]byte{'\\', c}, 0, true)
		m.dull[c] = !m.alphabet[t.text[0]]
	}
	m.opens = openings()
	return m
}

// bits is how many bits of a hash the sieve goes by, for how much is in it.
func (m *matcher) bits() int {
	n := minSieve
	for n < maxSieve && 1<<n < perBlock*len(m.pats)*m.step {
		n++
	}
	m.shift = 32 - n
	return n
}

// learn enters a pattern into the tables.
func (m *matcher) learn(i int) {
	p := &m.pats[i]
	before, after := p.span()
	m.longest = max(m.longest, before+len(p.text)+after)
	for off := len(p.text) - block - m.step + 1; off <= len(p.text)-block; off++ {
		x := binary.LittleEndian.Uint32(p.text[off:])
		h := x * hashPrime >> (m.shift & 31)
		m.sieve[h/64] |= 1 << (h % 64)
		m.blocks[x] = append(m.blocks[x], spot{i, off})
	}
	x := binary.LittleEndian.Uint32(p.text)
	h := hashTail(x)
	m.heads[h/64] |= 1 << (h % 64)
	m.begins[x] = append(m.begins[x], i)
	for n := 1; n < block; n++ {
		k := shortKey(p.text[:n])
		m.short[k] = append(m.short[k], i)
	}
	m.grams.learn(p.text)
	m.first[p.text[0]] = true
	for _, c := range p.text {
		m.alphabet[c] = true
	}
	if before > 0 {
		for c := range m.edges {
			m.edges[c] = m.edges[c] || p.before.fits(byte(c))
		}
	}
}

// each calls found for every pattern that stands whole in b.
func (m *matcher) each(b []byte, found func(match)) {
	step := m.step
	for p := 0; p+block <= len(b); p += step {
		x := binary.LittleEndian.Uint32(b[p:])
		if h := x * hashPrime >> (m.shift & 31); m.sieve[h/64]&(1<<(h%64)) != 0 {
			m.verify(b, p, x, found)
		}
	}
}

// verify compares what a known block at p may be part of.
func (m *matcher) verify(b []byte, p int, x uint32, found func(match)) {
	for _, s := range m.blocks[x] {
		pat := &m.pats[s.pat]
		start := p - s.off
		if start >= 0 && start+len(pat.text) <= len(b) && bytes.Equal(b[start:start+len(pat.text)], pat.text) {
			found(match{pat, start})
		}
	}
}

// tail is what the end of a text leaves open: text from hold on may be part of
// a pattern that goes on beyond it, and so may not be passed on; text from keep
// on is wanted for finding it. Both are the length of the text where nothing is
// open.
type tail struct{ hold, keep int }

// open finds what the end of b leaves open, of what begins at from or behind.
func (m *matcher) open(b []byte, from int) tail {
	n := len(b)
	t := tail{n, n}
	if n > 0 && m.edges[b[n-1]] {
		t = tail{n - 1, n - 1}
	}
	for v := max(from, n-m.longest+1); v < n; v++ {
		for _, i := range m.beginning(b[v:]) {
			p := &m.pats[i]
			if len(p.text) <= n-v || !bytes.Equal(b[v:], p.text[:n-v]) {
				continue
			}
			t.add(p, b, v)
		}
	}
	return t
}

// run is where the bytes at the end of b begin that look as the beginning of a
// pattern may: letters, digits, what escapes are written with, and all that
// patterns are made of, no more of them than the longest pattern has.
//
// That is more than has to be held back, and it is on purpose. Whoever makes a
// host show text of its own would see guesses at a value arrive unless they are
// right, byte by byte, if only a true beginning waited. So what waits depends on
// the kinds of a value's characters and on its length, and on nothing else.
func (m *matcher) run(b []byte) int {
	most, escaped := m.longest-1, false
	at := len(b)
	for at > 0 && len(b)-at < most && m.looks(b[:at]) {
		at--
		if allKinds.mark(b[at]) || quoted.mark(b[at]) && at+1 < len(b) {
			escaped = true
		}
		if escaped {
			most = m.longest * maxToken
		}
	}
	return at
}

// looks reports whether the last byte of b looks as one of a pattern may, or of
// an escape.
func (m *matcher) looks(b []byte) bool {
	c := b[len(b)-1]
	switch {
	case c == 0: // of UTF-16, in which there are no two of them
		return len(b) < 2 || b[len(b)-2] != 0
	case isAlphanumeric(c) || m.alphabet[c]:
		return true
	}
	switch c {
	case '%', '\\', '&', '#', ';', '=', '+', '/', '-', '_':
		return true
	case '{': // \u{67}
		return endsWith(b, "\\u{", "\\x{")
	case '}':
		open := bytes.LastIndexByte(b, '{')
		return open >= 0 && len(b)-open <= maxToken && endsWith(b[:open+1], "\\u{", "\\x{")
	case '\r':
		return endsWith(b, "=\r")
	case '\n':
		return endsWith(b, "=\n", "=\r\n")
	}
	return false
}

func endsWith(b []byte, any ...string) bool {
	return slices.ContainsFunc(any, func(s string) bool { return bytes.HasSuffix(b, []byte(s)) })
}

// uncommon is how many bytes of a value no message ends with by chance: fewer of
// a short one, of which each is worth more.
func (m *matcher) uncommon() int {
	const least, most, part = 3, 8, 4
	n := most
	for i := range m.pats {
		n = min(n, max(least, len(m.pats[i].text)/part))
	}
	return n
}

// add takes in a pattern that begins at v.
func (t *tail) add(p *pattern, b []byte, v int) {
	t.keep = min(t.keep, v)
	t.hold = min(t.hold, v+p.shared)
	if v > 0 && p.before.mask != 0 && p.before.fits(b[v-1]) {
		t.keep = min(t.keep, v-1)
		t.hold = min(t.hold, v-1)
	}
}

// beginning returns patterns that may begin as b does.
func (m *matcher) beginning(b []byte) []int {
	if !m.first[b[0]] {
		return nil
	}
	if len(b) < block {
		return m.short[shortKey(b)]
	}
	x := binary.LittleEndian.Uint32(b)
	if h := hashTail(x); m.heads[h/64]&(1<<(h%64)) == 0 {
		return nil
	}
	return m.begins[x]
}

// edit is what a match does to a text.
type edit struct {
	word  int
	start int    // in the text
	end   int    // in it
	size  int    // of the pattern: the longest goes first
	text  []byte // what takes the place of text[start:end]; nil where finding is all
}

// sortEdits brings the longest to the front (B040), and of equals the first.
func sortEdits(edits []edit) {
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.start, b.start))
	})
}

// maxEdits is how many edits are compared with each other: whoever writes more
// placeholders than that is told of the longest.
const maxEdits = 256

// longest drops edits that lie within longer ones.
func longest(edits []edit) []edit {
	sortEdits(edits)
	edits = edits[:min(len(edits), maxEdits)]
	var out []edit
	for _, e := range edits {
		if !slices.ContainsFunc(out, func(o edit) bool { return o.start <= e.start && e.end <= o.end && o.size > e.size }) {
			out = append(out, e)
		}
	}
	return out
}
