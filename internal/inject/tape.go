package inject

import (
	"io"
	"slices"
)

// tape is a stream on its way past a matcher. It holds back what may be the
// beginning of a pattern, and, of a matcher that is guarded, what looks as one
// may; so what comes out does not depend on how the stream is split. Its memory
// is bounded by the longest pattern and what is written at once.
type tape struct {
	m     *matcher
	renew func() *matcher // returns the one of now; nil where it stays

	buf  []byte // as it came: what is wanted for finding, and what is held back
	from int    // of buf: before are only the beginnings of escapes
	sent int    // of buf: passed on already
	out  []byte
	open int // bytes at the end that may be the beginning of a pattern
}

// push adds to the stream and returns what may be passed on, which is of b
// itself where nothing is changed or waited, and otherwise valid until the next
// call. Nothing follows what is final. The edits are of what was found.
func (t *tape) push(b []byte, final bool) ([]byte, []edit) {
	if t.renew != nil {
		t.m = t.renew()
	}
	if len(t.buf) == 0 {
		f := t.m.find(b, 0, final)
		t.open = len(b) - f.likely
		if len(f.edits) == 0 && f.keep == len(b) {
			return b, nil
		}
		if len(f.edits) == 0 && !final { // most often: only the end waits
			off := max(0, min(f.keep, f.hold)-maxToken)
			t.buf = append(t.buf, b[off:]...)
			t.from, t.sent = f.keep-off, f.hold-off
			return b[:f.hold], nil
		}
		t.buf = append(t.buf, b...)
		return t.advance(f, final), f.edits
	}
	t.buf = append(t.buf, b...)
	f := t.m.find(t.buf, t.from, final)
	t.open = len(t.buf) - f.likely
	return t.advance(f, final), f.edits
}

// advance takes from the buffer what may be passed on.
func (t *tape) advance(f found, final bool) []byte {
	hold := max(f.hold, t.sent)
	t.out = append(t.out[:0], t.buf[t.sent:hold]...)
	patch(t.out, t.sent, f.edits)
	if final || f.keep == len(t.buf) {
		t.reset()
		return t.out
	}
	off := max(0, min(f.keep, hold)-maxToken)
	t.buf = append(t.buf[:0], t.buf[off:]...)
	t.from, t.sent = f.keep-off, hold-off
	return t.out
}

// reset forgets the stream.
func (t *tape) reset() { t.buf, t.from, t.sent = t.buf[:0], 0, 0 }

// patch edits the part of a text that begins at off. Where two edits meet, the
// longest wins.
func patch(part []byte, off int, edits []edit) {
	sortEdits(edits)
	for _, e := range slices.Backward(edits) {
		for i, c := range e.text {
			if at := e.start + i - off; 0 <= at && at < len(part) {
				part[at] = c
			}
		}
	}
}

// scrubbed returns b with every pattern covered, or b itself where there is
// none.
func (m *matcher) scrubbed(b []byte) []byte {
	f := m.find(b, 0, true)
	if len(f.edits) == 0 {
		return b
	}
	out := slices.Clone(b)
	patch(out, 0, f.edits)
	return out
}

// filter passes a stream on, past a matcher or to an error.
type filter interface {
	// pass returns what may be passed on of the stream to which b was added. It
	// may be b.
	pass(b []byte, final bool) ([]byte, error)
}

// scrub covers what is found.
type scrub struct{ tape }

func (s *scrub) pass(b []byte, final bool) ([]byte, error) {
	out, _ := s.push(b, final)
	return out, nil
}

// watch ends a stream at what is found.
type watch struct {
	tape
	loan *Loan
}

func (w *watch) pass(b []byte, final bool) ([]byte, error) {
	out, edits := w.push(b, final)
	if len(edits) > 0 {
		return nil, w.loan.refuseBody(longest(edits)[0].word)
	}
	return out, nil
}

// body is a body that goes through a filter.
type body struct {
	src   io.ReadCloser
	f     filter
	ended func() error // at the end of the stream; an error takes its place
	ready []byte       // passed, not read
	chunk []byte
	err   error
}

// readSize is how much is read at once where the reader's own memory is not
// used, in bytes.
const readSize = 32 << 10

// Read reads what passed.
func (r *body) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		if n, done := r.fill(p); done {
			return n, nil
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// fill reads once. Where all of that passes as it is, it is in p and fill is
// done; else it is ready, or there is an error.
func (r *body) fill(p []byte) (int, bool) {
	into := p
	if len(p) < readSize/16 { // many small reads would cost much
		if r.chunk == nil {
			r.chunk = make([]byte, readSize)
		}
		into = r.chunk
	}
	n, err := r.src.Read(into)
	if n == 0 && err == nil {
		return 0, false
	}
	out, bad := r.f.pass(into[:n], err == io.EOF)
	switch {
	case bad != nil:
		r.err = bad
		return 0, false
	case err == io.EOF:
		r.err = r.end()
	default:
		r.err = err
	}
	if len(out) > 0 && &out[0] == &p[0] {
		return len(out), true
	}
	r.ready = out
	return 0, false
}

// end is what is behind the last byte.
func (r *body) end() error {
	if r.ended != nil {
		if err := r.ended(); err != nil {
			return err
		}
	}
	return io.EOF
}

// Close closes the source.
func (r *body) Close() error { return r.src.Close() }
