package inject

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	maxCodings = 3       // one on top of the other
	maxWindow  = 8 << 20 // bytes: RFC 9659 §3 has servers keep to it
)

var errBehind = errors.New("the answer goes on behind the end of its compressed body")

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

// decode undoes codings as the body is read. What it holds at a time does not
// depend on how long the body is, or becomes.
func decode(codings []string, src io.ReadCloser) (io.ReadCloser, error) {
	if len(codings) > maxCodings {
		return nil, fmt.Errorf("the answer is compressed %d times", len(codings))
	}
	out := src
	for _, coding := range slices.Backward(codings) {
		open := opener(coding)
		if open == nil {
			return nil, errors.New("the answer is compressed in a way that is not known here, so values of secrets could not be seen in it")
		}
		out = &decoded{src: bufio.NewReaderSize(out, readSize), below: out, open: open}
	}
	return out, nil
}

// opener returns what begins to undo a coding, or nil.
func opener(coding string) func(*bufio.Reader) (io.Reader, error) {
	switch coding {
	case "gzip", "x-gzip":
		return func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		return inflate
	case "br":
		return func(r *bufio.Reader) (io.Reader, error) { return brotli.NewReader(r), nil }
	case "zstd":
		return func(r *bufio.Reader) (io.Reader, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}
	}
	return nil
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

// decoded is a body without its coding. It reads nothing before it is read.
type decoded struct {
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
		if _, err := d.src.Peek(1); err != nil { // an empty body, which some servers say to be compressed
			d.err = err
			return 0, err
		}
		if d.r, d.err = d.open(d.src); d.err != nil {
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
	d.err = err
	return n, err
}

// Close closes the body.
func (d *decoded) Close() error {
	if c, ok := d.r.(io.Closer); ok {
		_ = c.Close()
	}
	return d.below.Close()
}
