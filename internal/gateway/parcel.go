package gateway

import (
	"io"
	"sync"
)

// parcel is the body of a request to the provider, kept as long as it may have
// to be sent: until all of it was sent and the answer has begun. What net/http
// holds on to during an answer, which may take minutes, is the parcel and not
// its bytes.
type parcel struct {
	size int64

	mu   sync.Mutex
	b    []byte
	sent bool // all of it was read by who sends it
	done bool // it is not sent again
}

// answered says that it is not sent again.
func (p *parcel) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	p.drop()
}

func (p *parcel) drop() {
	if p.sent && p.done {
		p.b = nil
	}
}

// open returns a reader from its beginning.
func (p *parcel) open() io.ReadCloser { return &sending{p: p} }

// sending reads a parcel once.
type sending struct {
	p  *parcel
	at int64
}

// Read reads.
func (s *sending) Read(b []byte) (int, error) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.at < p.size && s.at >= int64(len(p.b)) {
		return 0, io.ErrClosedPipe // it is opened after all is over
	}
	n := 0
	if s.at < p.size {
		n = copy(b, p.b[s.at:])
		s.at += int64(n)
	}
	if s.at < p.size {
		return n, nil
	}
	p.sent = true
	p.drop()
	return n, io.EOF
}

// Close does nothing: who closes it may be another than who reads it.
func (s *sending) Close() error { return nil }
