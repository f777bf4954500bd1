package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/bailey-dev/bailey/internal/linux/nonblock"
)

// parcel is the body of a request to the provider, kept as long as it may have
// to be sent: until all of it was sent and the answer has begun. What net/http
// holds on to during an answer, which may take minutes, is the parcel and not
// its bytes.
type parcel struct {
	size int64
	free func([]byte) // takes the bytes back; nil: nobody wants them

	mu   sync.Mutex
	b    []byte
	lent int  // writes that read b
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
	if !p.sent || !p.done || p.lent > 0 {
		return
	}
	if p.free != nil && p.b != nil {
		p.free(p.b)
	}
	p.b = nil
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

// writeTo writes at most so many bytes at once. Others go on meanwhile.
func (s *sending) writeTo(w io.Writer, most int64) (int64, error) {
	p := s.p
	p.mu.Lock()
	if s.at >= int64(len(p.b)) {
		p.mu.Unlock()
		return 0, nil // it has ended, which Read says
	}
	piece := p.b[s.at:min(int64(len(p.b)), s.at+most)]
	p.lent++
	p.mu.Unlock()
	n, err := w.Write(piece)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.at += int64(n)
	p.lent--
	p.sent = p.sent || s.at == p.size
	p.drop()
	return int64(n), err //nolint:wrapcheck // a writer
}

// Close does nothing: who closes it may be another than who reads it.
func (s *sending) Close() error { return nil }

// upward is a connection to the provider. What is left of a parcel when the head
// is out goes out in one piece where it is not encrypted: net/http copies it in
// several.
type upward struct {
	*net.TCPConn

	quick *nonblock.Conn // the same
}

// dialUpward is for http.Transport.
func dialUpward(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialWait}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err //nolint:wrapcheck // net/http's
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, nil
	}
	quick, err := nonblock.New(tcp)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return upward{tcp, quick}, nil
}

// Read reads.
func (u upward) Read(b []byte) (int, error) {
	return u.quick.Read(b) //nolint:wrapcheck // a reader
}

// Write writes.
func (u upward) Write(b []byte) (int, error) {
	return u.quick.Write(b) //nolint:wrapcheck // a writer
}

// ReadFrom is what net/http sends a body by.
func (u upward) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if s, ok := limited.R.(*sending); ok {
			n, err := s.writeTo(u.quick, limited.N)
			limited.N -= n
			return n, err
		}
	}
	return io.Copy(struct{ io.Writer }{u.quick}, r) //nolint:wrapcheck // a writer
}
