package inject_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/bailey-dev/bailey/internal/inject"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
)

func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: "200 OK", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func text(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func loanFor(t testing.TB, l *inject.Lender, method, at string) *inject.Loan {
	t.Helper()
	loan, err := l.Lend(ask(method, "/"), to(at))
	if err != nil {
		t.Fatal(err)
	}
	return loan
}

// B042, B050: fields.
func TestAnswer_CoversValuesInFields(t *testing.T) {
	t.Parallel()
	l := lender(t)
	theirs := answer(302, "")
	theirs.Header.Set("Location", "https://inj.test/?token="+value)
	if err := loanFor(t, l, "GET", "allow.test").Answer(theirs); err != nil || theirs.Header.Get("Location") != "https://inj.test/?token="+value {
		t.Errorf("of a host that the secret is not for: %v, %v", theirs.Header, err)
	}
	for name, c := range map[string]struct{ field, v, want string }{
		"B042 echo":         {"X-Request-Headers", `{"Authorization":"Bearer ` + value + `"}`, `{"Authorization":"Bearer ` + ph + `"}`},
		"B050 Location":     {"Location", "https://inj.test/?token=" + value + "&a", "https://inj.test/?token=" + ph + "&a"},
		"Location, escaped": {"Location", "https://inj.test/?token=" + percents(value), "https://inj.test/?token=" + percents(ph)},
		"B050 Set-Cookie":   {"Set-Cookie", "t=" + value + "; Path=/", "t=" + ph + "; Path=/"},
		"WWW-Authenticate":  {"Www-Authenticate", `Basic realm="` + value + `"`, `Basic realm="` + ph + `"`},
		"Link":              {"Link", "<https://inj.test/" + value + ">; rel=next", "<https://inj.test/" + ph + ">; rel=next"},
		"base64":            {"X-Echo", "Basic " + basicOf("x-access-token:"+value), "Basic " + basicOf("x-access-token:"+ph)},
		"hex":               {"X-Echo", hex.EncodeToString([]byte(value)), hex.EncodeToString([]byte(ph))},
		"-bin":              {"Grpc-Status-Details-Bin", basicOf("\x08\x10" + value), basicOf("\x08\x10" + ph)},
		"name":              {http.CanonicalHeaderKey("X-" + strings.ReplaceAll(value, "_", "-") + "-" + value), "1", ""},
		"twin":              {"X-Request-Id", "ghp_16C7e42F292c6912E7710c838347", "ghp_16C7e42F292c6912E7710c838347"},
	} {
		res := answer(302, "")
		res.Header[c.field] = []string{"first", c.v}
		res.Status = "302 " + value
		if err := loanFor(t, l, "GET", "inj.test").Answer(res); err != nil {
			t.Error(name, err)
		}
		if got := res.Header[c.field]; c.want == "" && got != nil || c.want != "" && (len(got) != 2 || got[1] != c.want) {
			t.Errorf("%s: %q", name, got)
		}
		if res.Status != "302 "+ph {
			t.Error(res.Status)
		}
	}
}

// B042: bodies, of every status, and their lengths. What another host says is
// passed on as it is: it has no value to show, and could show guesses.
func TestAnswer_CoversValuesInBodies(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for _, status := range []int{200, 206, 400, 401, 500} {
		for at, shown := range map[string][2]string{"inj.test": {ph, ph}, "allow.test": {value, value}, "query.test": {value, value}} {
			res := answer(status, "your token "+value+" and "+basicOf("a:"+value)+" are wrong")
			res.Header.Set("Content-Length", "1")
			if err := loanFor(t, l, "GET", at).Answer(res); err != nil {
				t.Fatal(err)
			}
			if got, want := text(t, res), "your token "+shown[0]+" and "+basicOf("a:"+shown[1])+" are wrong"; got != want || res.ContentLength != int64(len(want)) || res.Header.Get("Content-Length") == "" {
				t.Errorf("B042, %d of %s: %q of %d", status, at, got, res.ContentLength)
			}
		}
	}
}

// guesses are texts that end as the value begins, by so many bytes, each with
// one that does not.
func guesses() (out [][2]string) {
	for n := 5; n < len(value); n++ {
		wrong := []byte(value[:n])
		if wrong[n-1] = 'a'; value[n-1] == 'a' {
			wrong[n-1] = 'b'
		}
		out = append(out, [2]string{value[:n], string(wrong)})
	}
	return out
}

func utf16Of(s, form string) string {
	var b strings.Builder
	for _, c := range s {
		_, _ = fmt.Fprintf(&b, form, c)
	}
	return b.String()
}

// asks is a body of two parts, that notes when it was asked for the second.
type asks struct {
	parts []string
	gone  func()
}

func (a *asks) Read(p []byte) (int, error) {
	if len(a.parts) == 0 {
		return 0, io.EOF
	}
	if len(a.parts) == 1 {
		a.gone()
	}
	n := copy(p, a.parts[0])
	a.parts = a.parts[1:]
	return n, nil
}

func (*asks) Close() error { return nil }

// reads is how much of a text arrives before any more is said.
func reads(t *testing.T, l *inject.Lender, at, said string) int {
	t.Helper()
	got, before := 0, -1
	res := answer(200, "")
	res.Body, res.ContentLength = &asks{parts: []string{said, "\n"}, gone: func() { before = got }}, -1
	if err := loanFor(t, l, "POST", at).Answer(res); err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 4096); ; {
		n, err := res.Body.Read(b)
		if got += n; err != nil {
			break
		}
	}
	if got != len(said)+1 {
		t.Errorf("%d bytes of %q", got, said)
	}
	return before
}

// What no value is made of does not wait.
func TestAnswer_WhatDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"two words. ", "{\"a\":[1,2]}", "a line\n", strings.Repeat("\x00", 50), "<p>"} {
		if n := reads(t, lender(t), "inj.test", said); n != len(said) {
			t.Errorf("%d bytes of %q arrive", n, said)
		}
	}
}

// Whoever has a host show guesses at a value does not see by what waits which
// of them are right.
func TestAnswer_WhatWaitsTellsNothing(t *testing.T) {
	t.Parallel()
	for _, form := range []func(string) string{
		func(s string) string { return "token: " + s },
		func(s string) string { return "token: " + basicOf("a:" + s)[:4+len(s)] },
		func(s string) string { return "token: " + hex.EncodeToString([]byte(s)) },
		func(s string) string { return "token: " + percents(s) },
		func(s string) string { return `{"token":"` + strings.ReplaceAll(s, "_", `\u005f`) },
		func(s string) string { return "{}&amp; <" + strings.ReplaceAll(s, "_", "&#95;") },
		func(s string) string { return "'" + strings.ReplaceAll(s, "_", `\u{5f}`) },
		func(s string) string { return "'" + strings.ReplaceAll(s, "_", `\x{00005f}`) + `\u{6` },
		func(s string) string { return "'" + strings.ReplaceAll(s, "_", `\137`) },
		func(s string) string { return "a mail: " + strings.ReplaceAll(s, "_", "=\r\n=5F") + "=\r\n" },
		func(s string) string { return "a mail: " + strings.ReplaceAll(s, "_", "=\n_") + "=\r" },
		func(s string) string { return "\x00\x00 " + utf16Of(s, "%c\x00") },
		func(s string) string { return "\x00\x00 " + utf16Of(s, "\x00%c") + "\x00" },
		func(s string) string { return strings.Repeat("x", 1000) + s },
	} {
		l := lender(t)
		for _, g := range guesses() {
			right, wrong := reads(t, l, "inj.test", form(g[0])), reads(t, l, "inj.test", form(g[1]))
			if right != wrong {
				t.Errorf("%q: %d bytes arrive, and %d of %q", form(g[0]), right, wrong, form(g[1]))
			}
			if all := reads(t, l, "allow.test", form(g[0])); all != len(form(g[0])) {
				t.Errorf("of a host of no secret %d bytes of %q arrive", all, form(g[0]))
			}
		}
	}
}

func compressors(t *testing.T) map[string]func(string) string {
	t.Helper()
	with := func(open func(io.Writer) io.WriteCloser) func(string) string {
		return func(s string) string {
			var b bytes.Buffer
			w := open(&b)
			if _, err := io.WriteString(w, s); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
	}
	all := map[string]func(string) string{
		"gzip": with(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"br":   with(func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }),
		"zstd": with(func(w io.Writer) io.WriteCloser {
			e, err := zstd.NewWriter(w, zstd.WithWindowSize(1<<20))
			if err != nil {
				t.Fatal(err)
			}
			return e
		}),
		"deflate": with(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		" Deflate": with(func(w io.Writer) io.WriteCloser {
			f, err := flate.NewWriter(w, 5)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}),
	}
	return all
}

// B044: a host that compresses all the same.
func TestAnswer_UndoesCompression(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for coding, compress := range compressors(t) {
		for _, n := range []int{0, 1, 40, 100_000} {
			plain := strings.Repeat("abc ", n) + value + strings.Repeat(" xyz", n)
			res := answer(200, compress(plain))
			for name, v := range map[string]string{"Content-Encoding": coding, "Content-Length": "1", "Etag": `"x"`, "Digest": "x", "Accept-Ranges": "bytes"} {
				res.Header.Set(name, v)
			}
			if err := loanFor(t, l, "GET", "inj.test").Answer(res); err != nil {
				t.Fatal(coding, err)
			}
			if got := text(t, res); got != strings.ReplaceAll(plain, value, ph) {
				t.Errorf("B044, %s, %d: %d bytes", coding, n, len(got))
			}
			if len(res.Header) != 1 || res.Header.Get("Etag") != `W/"x"` || res.ContentLength != -1 {
				t.Errorf("%s: %v, %d", coding, res.Header, res.ContentLength)
			}
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAnswer_LeavesOtherHostsAndEmptyBodiesAlone(t *testing.T) {
	t.Parallel()
	l := lender(t)
	packed := compressors(t)["gzip"](value)
	for name, c := range map[string]struct {
		method, at, coding string
		status             int
	}{
		"a host of no secret":     {"GET", "allow.test", "gzip", 200},
		"unknown, of no secret":   {"GET", "allow.test", "dcb", 200},
		"HEAD":                    {"HEAD", "inj.test", "gzip", 200},
		"not modified":            {"GET", "inj.test", "gzip", 304},
		"none":                    {"GET", "inj.test", "gzip", 204},
		"unknown, but for a HEAD": {"HEAD", "inj.test", "dcb", 200},
	} {
		res := answer(c.status, packed)
		res.Header.Set("Content-Encoding", c.coding)
		if err := loanFor(t, l, c.method, c.at).Answer(res); err != nil {
			t.Fatal(name, err)
		}
		if res.Header.Get("Content-Encoding") != c.coding || text(t, res) != packed {
			t.Errorf("%s: %v", name, res.Header)
		}
	}
	empty := answer(200, "")
	empty.Header.Set("Content-Encoding", "gzip")
	if err := loanFor(t, l, "GET", "inj.test").Answer(empty); err != nil || text(t, empty) != "" {
		t.Error("an empty body", err)
	}
}

// B044: what cannot be looked at does not pass.
func TestAnswer_FailsClosed(t *testing.T) {
	t.Parallel()
	l := lender(t)
	gz := compressors(t)["gzip"]
	for name, c := range map[string]struct {
		status int
		coding string
	}{
		"unknown":          {200, "dcb"},
		"one is unknown":   {200, "gzip, exi"},
		"two":              {200, "gzip, br"},
		"twice the same":   {200, "gzip, gzip"},
		"B046 a part":      {206, "gzip"},
		"a part, unknown":  {206, "dcz"},
		"unknown of error": {500, "compress"},
	} {
		res := answer(c.status, gz(value))
		res.Header.Set("Content-Encoding", c.coding)
		if err := loanFor(t, l, "GET", "inj.test").Answer(res); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	for name, c := range map[string][2]string{
		"not compressed": {"gzip", value + value}, "cut": {"gzip", gz(value)[:30]}, "more behind": {"gzip", gz("x") + value},
		"deflate, more behind": {"deflate", compressors(t)["deflate"]("x") + value},
		"br, more behind":      {"br", compressors(t)["br"]("x") + value},
	} {
		res := answer(200, c[1])
		res.Header.Set("Content-Encoding", c[0])
		if err := loanFor(t, l, "GET", "inj.test").Answer(res); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err == nil || strings.Contains(string(b), value) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// B046: a part that was not asked for does not pass where the request carried a
// value, and does where it carried none.
func TestAnswer_PartsThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	l := lender(t)
	with, err := l.Lend(ask("GET", "/", "Authorization: Bearer "+ph), to("inj.test"))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{"Content-Range": "bytes 0-7/40", "Content-Type": "multipart/byteranges; boundary=x"} {
		part := answer(206, value[:8])
		part.Header.Set(name, v)
		if err := with.Answer(part); err == nil {
			t.Errorf("B046, %s: it passes", name)
		}
	}
	list := answer(206, "a list that goes on")
	list.Header.Set("Content-Range", "id a..b/40")
	if err := with.Answer(list); err != nil {
		t.Error("twin:", err)
	}
	if err := with.Answer(answer(200, value[:8])); err != nil {
		t.Error(err)
	}
	if err := loanFor(t, l, "GET", "inj.test").Answer(answer(206, "part")); err != nil {
		t.Error(err)
	}
}

// A bomb passes as a stream, and takes no memory for it.
func TestAnswer_BombsAreStreams(t *testing.T) {
	t.Parallel()
	l := lender(t)
	const size = 32 << 20
	for _, coding := range []string{"gzip", "br", "zstd"} {
		res := answer(200, compressors(t)[coding](strings.Repeat("\x00", size)))
		res.Header.Set("Content-Encoding", coding)
		if err := loanFor(t, l, "GET", "inj.test").Answer(res); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, res.Body); err != nil || n != size {
			t.Errorf("%s: %d, %v", coding, n, err)
		}
	}
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	res := answer(200, b.String())
	res.Header.Set("Content-Encoding", "zstd")
	if err := loanFor(t, l, "GET", "inj.test").Answer(res); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("a window of 16 MiB: %v", err)
	}
}

// B064: fields behind a body, which are there when it has ended.
func TestAnswer_CoversTrailers(t *testing.T) {
	t.Parallel()
	l := lender(t)
	res := answer(200, "x")
	if err := loanFor(t, l, "POST", "inj.test").Answer(res); err != nil {
		t.Fatal(err)
	}
	res.Trailer = http.Header{"Grpc-Message": {"bad token " + percents(value)}, "Grpc-Status": {"16"}}
	_ = text(t, res)
	if got := res.Trailer.Get("Grpc-Message"); got != "bad token "+percents(ph) || res.Trailer.Get("Grpc-Status") != "16" {
		t.Error("B064:", res.Trailer)
	}
}

// B064: the names of the fields behind a body are announced before it; and an
// answer that has no body has such fields nevertheless, over HTTP/2.
func TestAnswer_CoversTrailersThatAreAnnouncedOrAlone(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for _, status := range []int{200, 204, 304} {
		res := answer(status, "")
		res.Header.Set("Content-Type", "application/grpc")
		named := http.CanonicalHeaderKey(value)
		res.Trailer = http.Header{named: nil, "Grpc-Message": nil}
		if err := loanFor(t, l, "POST", "inj.test").Answer(res); err != nil {
			t.Fatal(err)
		}
		if _, there := res.Trailer[named]; there || len(res.Trailer) != 1 {
			t.Errorf("%d: announced: %v", status, res.Trailer)
		}
		res.Trailer["Grpc-Message"] = []string{"bad token " + value}
		_ = text(t, res)
		if got := res.Trailer.Get("Grpc-Message"); got != "bad token "+ph {
			t.Errorf("%d: %s", status, got)
		}
	}
}

// B044: whoever was sent a value may keep it, and give it out compressed when no
// rule names it any more.
func TestAnswer_HostsOfRulesBefore(t *testing.T) {
	t.Parallel()
	packed := compressors(t)["gzip"](value)
	l := lender(t)
	early := loanFor(t, l, "GET", "inj.test")
	h := held(t)
	h[0].Rules = []secret.Rule{{Hosts: []secret.Host{host(t, "else.test")}, Place: h[0].Rules[0].Place}}
	for range 2 { // they are not forgotten one change later
		if _, err := l.Adopt(h[:1]); err != nil {
			t.Fatal(err)
		}
		h = nil
		h = append(h, held(t)[1])
	}
	for _, loan := range []*inject.Loan{early, loanFor(t, l, "GET", "inj.test"), loanFor(t, l, "GET", "else.test")} {
		res := answer(200, packed)
		res.Header.Set("Content-Encoding", "gzip")
		if err := loan.Answer(res); err != nil {
			t.Fatal(err)
		}
		if got := text(t, res); got != ph {
			t.Errorf("%q", got)
		}
	}
	out := ask("GET", "/", "Accept-Encoding: gzip")
	loanFor(t, l, "GET", "inj.test").Apply(out)
	if got := out.Header.Get("Accept-Encoding"); got != "identity" {
		t.Errorf("it is asked for %s", got)
	}
}

// A change between judging a request and noting it can be seen.
func TestLoan_Stale(t *testing.T) {
	t.Parallel()
	l := lender(t)
	loan := loanFor(t, l, "GET", "inj.test")
	if err := loan.Answer(answer(200, "")); err != nil || loan.Stale() {
		t.Error("stale at once", err)
	}
	if _, err := l.Adopt(held(t)[1:]); err != nil || !loan.Stale() {
		t.Error("not stale", err)
	}
	if none := loanFor(t, &inject.Lender{}, "GET", "inj.test"); none.Stale() {
		t.Error("none was adopted")
	}
}

// B049: what an error quotes of an answer.
func TestLoan_CoversErrors(t *testing.T) {
	t.Parallel()
	loan := loanFor(t, lender(t), "GET", "inj.test")
	if got := loan.Cover("malformed HTTP status code \"" + value + "\""); got != "malformed HTTP status code \""+ph+"\"" {
		t.Error("B049:", got)
	}
	none := loanFor(t, &inject.Lender{}, "GET", "inj.test")
	if got := none.Cover(value); got != value {
		t.Error(got)
	}
}

// message is one of gRPC.
func message(flags byte, s string) string {
	b := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(s)))
	return string(b) + s
}

// pipe is a body whose other end a test holds.
func pipe(t *testing.T, l *inject.Lender, at, kind string) (*http.Response, *io.PipeWriter) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	res := answer(200, "")
	res.Body = r
	res.Header.Set("Content-Type", kind)
	if err := loanFor(t, l, "POST", at).Answer(res); err != nil {
		t.Fatal(err)
	}
	return res, w
}

// T18: an event goes out when it is there, and a message of gRPC too, even if it
// ends with what could be the beginning of a value.
func TestAnswer_HoldsNoEventAndNoMessageBack(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for kind, parts := range map[string][]string{
		"text/event-stream":     {"data: {\"t\":\"a\"}\n\n", "data: " + value + "\n\n", ": ping\n\n", "data: ghp_16\n\n"},
		"application/grpc+json": {message(0, "ghp_16C7"), message(0, value), message(0, ""), message(0, "e")},
	} {
		res, w := pipe(t, l, "inj.test", kind)
		for _, p := range parts {
			go func() { _, _ = io.WriteString(w, p) }()
			b := make([]byte, len(p))
			if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != strings.ReplaceAll(p, value, ph) {
				t.Errorf("%s: %q became %q, %v", kind, p, b, err)
			}
		}
	}
}

func TestAnswer_CompressedMessages(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for at, good := range map[string]bool{"inj.test": false, "allow.test": true} {
		res, w := pipe(t, l, at, "application/grpc")
		go func() {
			_, _ = io.WriteString(w, message(0, "plain")+message(1, "compressed"))
			w.Close()
		}()
		b, err := io.ReadAll(res.Body)
		if (err == nil) != good || good && string(b) != message(0, "plain")+message(1, "compressed") {
			t.Errorf("%s: %q, %v", at, b, err)
		}
	}
}

// A host may be made to say a length that ends within a value. It is believed
// once: from then on its answers are not taken for messages.
func TestAnswer_MessagesThatAreNone(t *testing.T) {
	t.Parallel()
	for n := range len(value) - 1 {
		l := lender(t)
		whole := message(0, "your token "+value)
		whole = message(0, whole[5:5+11+n])[:5] + whole[5:]
		for again := range 3 {
			res := answer(200, whole)
			res.Header.Set("Content-Type", "application/grpc")
			if err := loanFor(t, l, "POST", "inj.test").Answer(res); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			if (err == nil) != (again > 0) || strings.Contains(string(b), value[:4+9]) || strings.Contains(string(b), value[30:]) || again > 0 && !strings.HasSuffix(string(b), ph) {
				t.Errorf("%d: %q, %v", n, b, err)
			}
		}
	}
}

// Messages that end with guesses tell one of them at most.
func TestAnswer_MessagesThatGuess(t *testing.T) {
	t.Parallel()
	l := lender(t)
	told := 0
	for _, g := range guesses() {
		for _, end := range g {
			res := answer(200, message(0, "you said "+end)+message(0, "and more"))
			res.Header.Set("Content-Type", "application/grpc+proto")
			if err := loanFor(t, l, "POST", "inj.test").Answer(res); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(res.Body); err != nil {
				told++
			} else if want := message(0, "you said "+end) + message(0, "and more"); string(b) != want {
				t.Errorf("%q became %q", want, b)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d guesses were told from others", told)
	}
}

// What is rotated while a host speaks is kept out of what it says from then on.
func TestAnswer_RotatedMeanwhile(t *testing.T) {
	t.Parallel()
	l := lender(t)
	h := held(t)
	res, w := pipe(t, l, "inj.test", "text/event-stream")
	const rotated = "ghp_99999999999999999999999999999999abcd"
	for _, v := range []string{value, rotated} {
		h[0].Value = seal.NewSecret([]byte(v))
		if _, err := l.Adopt(h); err != nil {
			t.Fatal(err)
		}
		event := "data: " + v + "\n\n"
		go func() { _, _ = io.WriteString(w, event) }()
		b := make([]byte, len(event))
		if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != "data: "+ph+"\n\n" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// A host that becomes one of a secret's while it sends what cannot be looked
// into is cut short.
func TestAnswer_CompressedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, edited := range []bool{false, true} {
		l := lender(t)
		r, w := io.Pipe()
		res := answer(200, "")
		res.Body, res.ContentLength = r, -1
		res.Header.Set("Content-Encoding", "gzip")
		if err := loanFor(t, l, "GET", "allow.test").Answer(res); err != nil {
			t.Fatal(err)
		}
		h := held(t)
		if edited {
			h[0].Rules[0].Hosts = append(h[0].Rules[0].Hosts, host(t, "allow.test"))
		}
		if _, err := l.Adopt(h); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(w, "opaque")
			_ = w.Close()
		}()
		b, err := io.ReadAll(res.Body)
		if (err != nil) != edited || (string(b) == "opaque") == edited {
			t.Errorf("edited %v: %q, %v", edited, b, err)
		}
	}
}

// A value that is short has a placeholder that is longer; lengths stay all the
// same, and no value is there.
func TestAnswer_ShortValuesKeepLengths(t *testing.T) {
	t.Parallel()
	h := held(t)
	h[0].Value = seal.NewSecret([]byte("pa55-w0rd"))
	l := &inject.Lender{}
	if _, err := l.Adopt(h); err != nil {
		t.Fatal(err)
	}
	res := answer(200, "<pa55-w0rd>")
	if err := loanFor(t, l, "GET", "inj.test").Answer(res); err != nil {
		t.Fatal(err)
	}
	if got := text(t, res); got != "<ghp_ZqXwV>" {
		t.Error(got)
	}
}

// T17: bodies of every size pass, and memory is flat: the source makes no more
// than is asked for.
func TestApply_BodiesOfEverySize(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for _, size := range []int64{0, 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 64<<20 + 1} {
		for _, end := range []string{"", ph} {
			r := ask("POST", "/", "Authorization: Bearer "+ph)
			loan, err := l.Lend(r, to("inj.test"))
			if err != nil {
				t.Fatal(err)
			}
			out := r.Clone(context.Background())
			out.Body = io.NopCloser(io.MultiReader(io.LimitReader(letters{}, size), strings.NewReader(end)))
			loan.Apply(out)
			n, err := io.Copy(io.Discard, out.Body)
			if _, refused := errors.AsType[*inject.Refusal](err); n > size || refused != (end != "") || end == "" && (n != size || err != nil) {
				t.Errorf("%d bytes and %q: %d, %v", size, end, n, err)
			}
		}
	}
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "abcdefgh"[i&7]
	}
	return len(p), nil
}

func BenchmarkExchange(b *testing.B) {
	l := lender(b)
	for b.Loop() {
		r := ask("GET", "/repos/x/y?page=2", "Authorization: Bearer "+ph, "Accept: application/json", "User-Agent: test/1.0 (x)", "Accept-Encoding: gzip")
		loan, err := l.Lend(r, to("inj.test"))
		if err != nil {
			b.Fatal(err)
		}
		out := r.Clone(b.Context())
		loan.Apply(out)
		res := answer(200, `{"ok":true,"items":[1,2,3],"next":"https://inj.test/x?page=3"}`)
		res.Header.Set("Content-Type", "application/json")
		res.Header.Set("Date", "Mon, 30 Nov 2026 00:00:00 GMT")
		if err := loan.Answer(res); err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			b.Fatal(err)
		}
	}
}
