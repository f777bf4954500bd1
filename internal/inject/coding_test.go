package inject_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/bailey-dev/bailey/internal/inject"
)

func brotliOf(t testing.TB, bits int, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := brotli.NewWriterOptions(&b, brotli.WriterOptions{Quality: 1, LGWin: bits})
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstdOf(t testing.TB, window int, single bool, s string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithSingleSegment(single))
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(s), nil))
}

// coded is the body of an answer that is compressed.
func coded(t testing.TB, ctx context.Context, l *inject.Lender, coding, body string) io.ReadCloser { //nolint:revive // as testing has it
	t.Helper()
	r := ask(http.MethodGet, "/") //nolint:contextcheck // it gets one
	loan, err := l.Lend(r.WithContext(ctx), to("inj.test"))
	if err != nil {
		t.Fatal(err)
	}
	res := answer(http.StatusOK, body)
	res.Header.Set("Content-Encoding", coding)
	if err := loan.Answer(res); err != nil {
		t.Fatal(err)
	}
	return res.Body
}

// How far back an answer refers is bounded, for brotli by what its first bits
// say (RFC 7932 §9.1), before any of it is decoded.
func TestAnswer_BoundsWindows(t *testing.T) {
	t.Parallel()
	l := lender(t)
	plain := strings.Repeat("abc ", 1000) + value
	for bits := 10; bits <= 24; bits++ {
		got, err := io.ReadAll(coded(t, t.Context(), l, "br", brotliOf(t, bits, plain)))
		if good := bits <= 22; (err == nil) != good || good && string(got) != strings.ReplaceAll(plain, value, ph) || !good && len(got) > 0 {
			t.Errorf("brotli with a window of 2^%d: %d bytes, %v", bits, len(got), err)
		}
	}
	if got, err := io.ReadAll(coded(t, t.Context(), l, "br", "\x11\x16"+strings.Repeat("\x00", 100))); err == nil || !strings.Contains(err.Error(), "window") {
		t.Errorf("a large window of RFC 9841: %d bytes, %v", len(got), err)
	}
	long := strings.Repeat("x", 9<<20)
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"8 MiB":                {zstdOf(t, 8<<20, false, long), nil},
		"16 MiB":               {zstdOf(t, 16<<20, false, long), zstd.ErrWindowSizeExceeded},
		"one segment":          {zstdOf(t, 1<<20, true, long[:1<<20]), nil},
		"one segment, 9 MiB":   {zstdOf(t, 16<<20, true, long), zstd.ErrDecoderSizeExceeded},
		"16 MiB, second frame": {zstdOf(t, 1<<20, false, "x") + zstdOf(t, 16<<20, false, long), zstd.ErrWindowSizeExceeded},
	} {
		if _, err := io.Copy(io.Discard, coded(t, t.Context(), l, "zstd", c.body)); !errors.Is(err, c.want) {
			t.Errorf("zstd, %s: %v", name, err)
		}
	}
}

// What decoders take together is bounded. One more waits for another's end, or
// for that of its request; those without a window do not wait.
func TestAnswer_BoundsDecoders(t *testing.T) {
	t.Parallel()
	for coding, c := range map[string]struct {
		body string
		most int
	}{"br": {brotliOf(t, 22, "more\n"+value), 32}, "zstd": {zstdOf(t, 1<<20, false, "more\n"+value), 25}} {
		synctest.Test(t, func(t *testing.T) {
			l := lender(t)
			begin := func(ctx context.Context) (io.ReadCloser, chan error) {
				body, read := coded(t, ctx, l, coding, c.body), make(chan error, 1)
				go func() {
					_, err := io.ReadFull(body, make([]byte, 1))
					read <- err
				}()
				synctest.Wait()
				return body, read
			}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			var open []io.ReadCloser
			for range c.most {
				body, read := begin(ctx)
				if open = append(open, body); len(read) == 0 {
					t.Fatalf("%s: number %d waits", coding, len(open))
				}
			}
			late, read := begin(t.Context())
			gone, leave := context.WithCancel(t.Context())
			_, refused := begin(gone)
			if len(read) > 0 || len(refused) > 0 {
				t.Fatalf("%s: number %d does not wait", coding, c.most+1)
			}
			leave()
			if err := <-refused; !errors.Is(err, context.Canceled) {
				t.Error("a request that has ended:", err)
			}
			if got, err := io.ReadAll(coded(t, t.Context(), l, "gzip", compressors(t)["gzip"](value))); string(got) != ph || err != nil {
				t.Errorf("gzip beside them: %q, %v", got, err)
			}
			if err := errors.Join(open[0].Close(), open[0].Close()); err != nil {
				t.Error(err)
			}
			if err := <-read; err != nil {
				t.Error("after another has ended:", err)
			}
			if _, err := io.ReadAll(late); err != nil { // at the end of a body there is room too
				t.Error(err)
			}
			if _, read := begin(t.Context()); len(read) == 0 {
				t.Error("after a body's end: it waits")
			}
			end() // of all requests whose bodies nobody closed
			for range c.most - 1 {
				if _, read := begin(t.Context()); len(read) == 0 {
					t.Fatal("after the requests' end: it waits")
				}
			}
		})
	}
}
