package inject

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"
)

// A host chooses how far back its compressed answer refers, and all of that has
// to be held while the answer passes.
const (
	maxWindow     = 8 << 20 // bytes, of zstd: RFC 9659 §3 has servers keep to it
	maxWindowBits = 22      // of brotli, which is 4 MiB: what its encoders take unless told otherwise

	// What one holds at most, with its tables. Those of gzip and deflate, with
	// their 32 KiB, are as any other buffer.
	brotliRoom = 8 << 20
	zstdRoom   = 10 << 20
	allRoom    = 256 << 20 // of the process
)

// room is what decoders take together: a process has one Lender. One that finds
// none waits until another has ended. The zero room is empty.
type room struct {
	once sync.Once
	left *semaphore.Weighted
}

// take waits for room, and returns what gives it back. Who takes none does not
// stand in line for it.
func (r *room) take(ctx context.Context, n int64) (leave func(), err error) {
	if n == 0 {
		return func() {}, nil
	}
	r.once.Do(func() { r.left = semaphore.NewWeighted(allRoom) })
	if err := r.left.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("wait until fewer compressed answers are under way: %w", err)
	}
	leave = sync.OnceFunc(func() { r.left.Release(n) })
	context.AfterFunc(ctx, leave) // whoever forgets to
	return leave, nil
}

var (
	errBehind = errors.New("the answer goes on behind the end of its compressed body")
	errTwice  = errors.New("the answer is compressed more than once, one coding on top of the other, which is not undone here")
	errWindow = fmt.Errorf("the answer is compressed by brotli with a window of more than %d MiB, which is not undone here", 1<<(maxWindowBits-20))
)

// codingsOf returns the codings of a body, in the order in which they were
// applied.
func codingsOf(h http.Header) []string {
	var all []string
	for _, line := range h["Content-Encoding"] {
		for c := range strings.SplitSeq(line, ",") {
			if c = strings.ToLower(strings.TrimSpace(c)); c != "" && c != "identity" {
				all = append(all, c)
			}
		}
	}
	return all
}

// decode undoes the coding of an answer as its body is read. What it holds at a
// time does not depend on how long the body is, or becomes.
func (l *Loan) decode(codings []string, src io.ReadCloser) (io.ReadCloser, error) {
	if len(codings) != 1 {
		return nil, errTwice
	}
	open, takes := opener(codings[0])
	if open == nil {
		return nil, errors.New("the answer is compressed in a way that is not known here, so values of secrets could not be seen in it")
	}
	return &decoded{
		ctx: l.asked.Context(), room: &l.lender.room, takes: takes,
		src: bufio.NewReaderSize(src, readSize), below: src, open: open,
	}, nil
}

// opener returns what begins to undo a coding, or nil, and what that takes of
// the room.
func opener(coding string) (open func(*bufio.Reader) (io.Reader, error), takes int64) {
	switch coding {
	case "gzip", "x-gzip":
		return func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }, 0
	case "deflate":
		return inflate, 0
	case "br":
		return unbrotli, brotliRoom
	case "zstd":
		return func(r *bufio.Reader) (io.Reader, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}, zstdRoom
	}
	return nil, 0
}

// unbrotli reads brotli whose window is not too large.
func unbrotli(r *bufio.Reader) (io.Reader, error) {
	b, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if windowBits(b[0]) > maxWindowBits {
		return nil, errWindow
	}
	return brotli.NewReader(r), nil
}

// windowBits is the binary logarithm of brotli's window, by the first byte of
// the stream (RFC 7932 §9.1: bits are read from the lowest on).
func windowBits(b byte) int {
	const large = 62 // RFC 9841 §5: the next byte says how large, up to this
	high, low := int(b>>1&7), int(b>>4&7)
	switch {
	case b&1 == 0:
		return 16
	case high > 0:
		return 17 + high
	case low == 0:
		return 17
	case low == 1:
		return large
	}
	return 8 + low
}

// inflate reads zlib, which is what "deflate" means (RFC 9110 §8.4.1.2), or bare
// deflate, which some servers take it for.
func inflate(r *bufio.Reader) (io.Reader, error) {
	const method, header = 8, 31 // RFC 1950 §2.2
	b, err := r.Peek(2)
	if err == nil && b[0]&15 == method && (int(b[0])<<8|int(b[1]))%header == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// decoded is a body without its coding, for one reader, who closes it too. It
// reads nothing, and takes no room, before it is read.
type decoded struct {
	ctx   context.Context //nolint:containedctx // a Read has none, and may have to wait
	room  *room
	takes int64
	leave func()

	src   *bufio.Reader
	below io.Closer
	open  func(*bufio.Reader) (io.Reader, error)
	r     io.Reader
	err   error
}

// Read reads what was coded.
func (d *decoded) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if d.r == nil {
		if d.err = d.begin(); d.err != nil {
			d.drop()
			return 0, d.err
		}
	}
	n, err := d.r.Read(p)
	if err == io.EOF {
		if _, more := d.src.Peek(1); more == nil {
			err = errBehind
		} else if !errors.Is(more, io.EOF) {
			err = more
		}
	}
	if d.err = err; err != nil {
		d.drop()
	}
	return n, err
}

// begin opens the decoder when there is something to decode, and room.
func (d *decoded) begin() error {
	if _, err := d.src.Peek(1); err != nil { // an empty body, which some servers say to be compressed
		return err
	}
	leave, err := d.room.take(d.ctx, d.takes)
	if err != nil {
		return err
	}
	d.leave = leave
	r, err := d.open(d.src)
	if err != nil {
		return err
	}
	d.r = r
	return nil
}

// drop lets go of the decoder.
func (d *decoded) drop() {
	if c, ok := d.r.(io.Closer); ok {
		_ = c.Close()
	}
	d.r = nil
	if d.leave != nil {
		d.leave()
	}
}

// Close closes the body.
func (d *decoded) Close() error {
	if d.err == nil {
		d.err = http.ErrBodyReadAfterClose
	}
	d.drop()
	return d.below.Close()
}
