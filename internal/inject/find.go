package inject

import "bytes"

// found is what there is in a text, of which more may come.
type found struct {
	edits []edit
	tail
	likely int // text from here on is the beginning of a pattern, as far as it goes
}

// search is one look at a text.
type search struct {
	m     *matcher
	b     []byte
	from  int  // nothing that begins before is looked for: it is there for escapes to be read right
	final bool // nothing more comes
	found
	view view
}

// find looks for the patterns in a text, as it is and with escapes undone.
func (m *matcher) find(b []byte, from int, final bool) found {
	s := search{m: m, b: b, from: from, final: final}
	s.tail, s.likely = tail{len(b), len(b)}, len(b)
	if len(m.pats) == 0 {
		return s.found
	}
	m.each(b, s.raw)
	if !final {
		s.join(m.open(b, from))
	}
	var seen kinds
	for _, k := range []kinds{percent, backslash, entity, quoted} {
		if s.escapes(k) {
			seen |= k
		}
	}
	if seen &= allKinds; seen&(seen-1) != 0 { // more than one of them
		s.escapes(allKinds)
	}
	s.likely = s.hold
	if m.guarded && !final {
		at := max(from, m.run(b))
		s.join(tail{at, at})
	}
	for _, e := range s.edits {
		if e.end > s.hold {
			s.keep = min(s.keep, e.start)
		}
	}
	return s.found
}

// join takes in what is open.
func (s *search) join(t tail) {
	s.hold, s.keep = min(s.hold, t.hold), min(s.keep, t.keep)
}

// raw takes in a pattern that stands in the text as it is.
func (s *search) raw(m match) {
	if m.start < s.from {
		return
	}
	start, end := m.start, m.start+len(m.pat.text)
	e := edit{word: m.pat.word, start: start, end: end, size: len(m.pat.text)}
	if m.pat.cover != nil {
		e.start, e.end = s.reach(m.pat, s.b, start, end)
		e.text = make([]byte, 0, e.end-e.start)
		e.text = append(e.text, s.b[e.start:start]...)
		e.text = append(e.text, m.pat.cover...)
		e.text = append(e.text, s.b[end:min(e.end, len(s.b))]...)
		s.edges(m.pat, e.text, start-e.start)
	}
	s.edits = append(s.edits, e)
}

// reach widens a match by the characters beside it that hold some of the word.
// The one behind it may be yet to come.
func (s *search) reach(p *pattern, b []byte, start, end int) (from, to int) {
	if p.before.mask != 0 && start > 0 && p.before.fits(b[start-1]) {
		start--
	}
	if p.after.mask != 0 && (end < len(b) && p.after.fits(b[end]) || end == len(b) && !s.final) {
		end++
	}
	return start, end
}

// edges puts the bits of the cover into the characters beside it.
func (*search) edges(p *pattern, text []byte, skip int) {
	if skip > 0 {
		text[0] = p.before.change(text[0])
	}
	if end := skip + len(p.text); end < len(text) {
		text[end] = p.after.change(text[end])
	}
}

// escapes looks at the text with the escapes of some kinds undone, where they
// could make a difference, and reports whether they could.
func (s *search) escapes(which kinds) bool {
	var (
		r    region
		seen bool
		last int // where the last escape ended that is in no pattern: no pattern goes across
	)
	signs := newMarks(s.b, which)
	for i := signs.next(0); i < len(s.b); {
		if end, dull := s.skip(&r, i); end > 0 {
			if dull {
				s.look(&r, which, i)
				last = end
			}
			i = signs.next(end)
			continue
		}
		t, l := lex(s.b, i, s.final)
		switch {
		case l == literal:
			i = signs.next(max(i+1, endOfRun(s.b, i)))
			continue
		case l == whole && !s.matters(t):
			s.look(&r, which, t.start)
			last = t.end
		case s.apart(&r, t, l, which):
			seen = true
		default:
			seen = true
			if from := max(last, t.start-s.m.longest); !r.open || from > r.to {
				s.look(&r, which, len(s.b))
				r = region{open: true, from: from}
			}
			r.to = t.end + s.m.longest
		}
		if l == cut {
			r.cut, r.to = true, t.start
			break
		}
		i = signs.next(t.end)
	}
	s.look(&r, which, len(s.b))
	return seen
}

// skip is for what most escapes are, and what only looks like one: it returns
// where they end, or 0, and whether they stand for something that is in no
// pattern.
func (s *search) skip(r *region, i int) (end int, dull bool) {
	if i+1 == len(s.b) {
		return 0, false
	}
	c := s.b[i+1]
	switch sign := s.b[i]; {
	case !s.m.opens[c].mark(sign):
		return i + 1, false
	case sign == '\\' && s.m.dull[c]:
		return i + 2, true
	case sign == '=':
		return s.skipQuoted(r, i, c)
	}
	return 0, false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// matters reports whether an escape stands for something that is in a pattern.
func (s *search) matters(t token) bool {
	for _, c := range t.text[:t.size] {
		if s.m.alphabet[c] {
			return true
		}
	}
	return t.size == 0 // between any two
}

// region is a part of a text in which escapes make a difference.
type region struct {
	open     bool
	from, to int
	cut      bool // what is behind it may be an escape
}

// look looks at a region, which ends at limit, and closes it.
func (s *search) look(r *region, which kinds, limit int) {
	if !r.open {
		return
	}
	to := min(r.to, limit, len(s.b))
	v := &s.view
	v.look(s.b, r.from, to, which)
	s.m.each(v.b, s.seen)
	if !s.final && (r.cut || to == len(s.b)) {
		s.openView(r)
	}
	*r = region{}
}

// openView finds what the end of a view leaves open.
func (s *search) openView(r *region) {
	v := &s.view
	n := len(v.b)
	from := 0
	for ; from < n; from++ { // a few bytes at most
		if at, _ := v.source(from); at >= s.from {
			break
		}
	}
	t := s.m.open(v.b, from)
	if t.keep < n {
		at, _ := v.source(t.keep)
		s.keep = min(s.keep, at)
	}
	switch {
	case t.hold < n:
		at, _ := v.source(t.hold)
		s.hold = min(s.hold, at)
	case r.cut && (t.keep < n || s.m.least == 0):
		s.hold = min(s.hold, r.to)
	}
	if r.cut {
		s.keep = min(s.keep, r.to)
	}
}

// seen takes in a pattern that stands in the view.
func (s *search) seen(m match) {
	v, p := &s.view, m.pat
	start, end := m.start, m.start+len(p.text)
	e := edit{word: p.word, size: len(p.text)}
	e.start, _ = v.source(start)
	_, e.end = v.source(end - 1)
	if e.start < s.from {
		return
	}
	if p.cover != nil {
		first, behind := s.reach(p, v.b, start, end)
		seen := make([]byte, 0, behind-first)
		seen = append(seen, v.b[first:start]...)
		seen = append(seen, p.cover...)
		seen = append(seen, v.b[end:min(behind, len(v.b))]...)
		s.edges(p, seen, start-first)
		s.writeBack(&e, seen, first)
		if behind > len(v.b) {
			e.end++ // so that it is looked for again when there is more
		}
	}
	s.edits = append(s.edits, e)
}

// writeBack makes of what the view ought to show what the text ought to be.
func (s *search) writeBack(e *edit, seen []byte, first int) {
	v := &s.view
	e.start, _ = v.source(first)
	_, e.end = v.source(first + len(seen) - 1)
	e.text = bytes.Clone(s.b[e.start:e.end])
	for i, c := range seen {
		if c != v.b[first+i] {
			from, to := v.source(first + i)
			rewrite(e.text[from-e.start:to-e.start], c)
		}
	}
}
