package inject

import (
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Apply puts the values on the request that goes out, a copy of the one that
// was judged, and wraps its body: a placeholder in it ends it with a *Refusal
// from Read, before more than its first few bytes went out.
//
// It has answers come as they can be looked at: no compression from hosts of
// secrets, no extensions of WebSocket; and if it carries a value, no part of an
// answer, which could be asked for byte by byte (B046), and no field that asks to
// take the request for another one.
func (l *Loan) Apply(out *http.Request) {
	if l.set.empty() {
		return
	}
	out.Header.Del("Sec-Websocket-Extensions")
	if l.set.of(l.to.Host) {
		plainAnswers(out.Header)
	}
	if len(l.puts) > 0 {
		maps.DeleteFunc(out.Header, func(name string, values []string) bool {
			return policy.IsOverride(name) || asksPart(out.Method, name, values)
		})
	}
	for i := range l.puts {
		l.put(out, &l.puts[i])
	}
	if out.Body == nil || out.Body == http.NoBody {
		return
	}
	var f filter = &watch{tape: tape{m: l.set.asked}, loan: l}
	if isFramed(out.Header) {
		f = &framed{watch: f}
	}
	out.Body = &body{src: out.Body, f: f, ended: l.checkTrailer}
	out.GetBody = nil
}

// asksPart reports whether a field could ask for a part of the answer: servers
// know Request-Range, X-Ms-Range and more besides Range and If-Range. Those stay
// that say which part of a whole the body is (RFC 9110 §14.4), and which part of
// another object is to be copied: without that all of it would be.
func asksPart(method, name string, values []string) bool {
	v := policy.AsVariable(name)
	switch {
	case !strings.HasSuffix(strings.ReplaceAll(v, "-", ""), "range"), strings.HasSuffix(v, "-source-range"):
		return false
	case name != "Content-Range":
		return true
	}
	upload := method == http.MethodPut || method == http.MethodPost || method == http.MethodPatch
	return !upload || len(values) != 1 || !isUploadRange(values[0])
}

// isUploadRange reports whether a Content-Range is that of a request: bytes
// first-last/length, where first-last or the length may be a star, which the
// protocols for uploads in parts have for what is not known.
func isUploadRange(v string) bool {
	span, ok := strings.CutPrefix(v, "bytes ")
	span, length, ok2 := strings.Cut(span, "/")
	first, last, ok3 := strings.Cut(span, "-")
	return ok && ok2 && (length == "*" || isNumber(length)) && (span == "*" || ok3 && isNumber(first) && isNumber(last))
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// plainAnswers asks a host not to compress.
func plainAnswers(h http.Header) {
	h.Set("Accept-Encoding", "identity")
	for _, name := range []string{"Grpc-Accept-Encoding", "Connect-Accept-Encoding"} {
		if h.Get(name) != "" {
			h.Set(name, "identity")
		}
	}
	for _, name := range []string{"A-Im", "Available-Dictionary", "Dictionary-Id"} { // RFC 3229, RFC 9842
		h.Del(name)
	}
}

// put puts one value on.
func (l *Loan) put(out *http.Request, p *put) {
	value := string(reveal(l.set.secrets[p.word].Value))
	set := func(v string) {
		maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return policy.AsVariable(name) == policy.AsVariable(p.field) })
		out.Header[p.field] = []string{v}
	}
	switch p.place.Kind {
	case secret.Header:
		set(fill(p.place.Format, value))
	case secret.Basic:
		set("Basic " + base64.StdEncoding.EncodeToString([]byte(p.place.User+":"+value)))
	case secret.Cookie:
		lines := out.Header[cookieField]
		if i, pair := findCookie(lines, p.place.Name, l.set.secrets[p.word].Placeholder); i >= 0 {
			lines[i] = withPair(lines[i], ";", pair, value)
		}
	case secret.Query:
		if i := findPair(out.URL.RawQuery, p.place.Name, l.set.secrets[p.word].Placeholder); i >= 0 {
			out.URL.RawQuery = withPair(out.URL.RawQuery, "&", i, url.QueryEscape(value))
		}
	}
}

// checkTrailer refuses placeholders in the fields behind a body.
func (l *Loan) checkTrailer() error {
	for name, values := range l.asked.Trailer {
		text := []byte(strings.Join(values, "\x00"))
		words := longest(append(l.set.asked.find(text, 0, true).edits, l.set.names.find(appendLower(nil, name), 0, true).edits...))
		if len(words) > 0 {
			return l.refuseBody(words[0].word)
		}
	}
	return nil
}

var _ io.ReadCloser = (*body)(nil)

// isFramed reports whether a body is one of messages behind five bytes: gRPC,
// gRPC-Web and Connect.
func isFramed(h http.Header) bool {
	kind := h.Get("Content-Type")
	for _, k := range []string{"application/grpc", "application/grpc-web", "application/connect"} {
		if rest, ok := strings.CutPrefix(kind, k); ok && (rest == "" && k != "application/connect" || rest != "" && (rest[0] == '+' || rest[0] == ';')) {
			return true
		}
	}
	return false
}
