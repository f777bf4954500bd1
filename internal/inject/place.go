package inject

import (
	"encoding/base64"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/bailey-dev/bailey/internal/secret"
)

const cookieField = "Cookie"

// put is a value in its place.
type put struct {
	word  int
	class string // of the path
	place secret.Place
	field string // canonical name of the field; "" for the query
	index int    // of its values
	pair  int    // of the query's pairs, or of the cookies
}

// head is the head of a request, and what of it is taken: that is where values
// will stand.
type head struct {
	r      *http.Request
	target string
	taken  []put
	buf    *headBuffers
}

// headBuffers is memory in which heads are looked at.
type headBuffers struct{ text, names []byte }

func newHead(r *http.Request, pool *sync.Pool) *head {
	target := r.RequestURI
	if target == "" {
		target = r.URL.RequestURI()
	}
	b, ok := pool.Get().(*headBuffers)
	if !ok {
		b = new(headBuffers)
	}
	return &head{r: r, target: target, buf: b}
}

// words are the placeholders in what is not taken, the longest first, each once.
func (h *head) words(s *set) []int {
	h.write()
	var words []int
	add := func(edits []edit) {
		for _, e := range longest(edits) {
			if !slices.Contains(words, e.word) {
				words = append(words, e.word)
			}
		}
	}
	add(s.names.find(h.buf.names, 0, true).edits)
	add(s.asked.find(h.buf.text, 0, true).edits)
	return words
}

// write writes down what is not taken, zeros between the parts.
func (h *head) write() {
	text, names := h.buf.text[:0], h.buf.names[:0]
	text = append(append(text, h.r.Method...), 0)
	text = append(append(text, h.r.Host...), 0)
	names = append(appendLower(names, h.r.Host), 0)
	text = append(append(text, h.leftOfTarget()...), 0)
	for name, values := range h.r.Header {
		names = append(appendLower(names, name), 0)
		for i, v := range values {
			text = append(append(text, h.leftOf(name, i, v)...), 0)
		}
	}
	for name := range h.r.Trailer {
		names = append(appendLower(names, name), 0)
	}
	h.buf.text, h.buf.names = text, names
}

func appendLower(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// leftOfTarget is the target without what is taken of its query.
func (h *head) leftOfTarget() string {
	target := h.target
	for _, p := range h.taken {
		if p.place.Kind == secret.Query {
			path, query, _ := strings.Cut(target, "?")
			target = path + "?" + withPair(query, "&", p.pair, "")
		}
	}
	return target
}

// leftOf is one value of a field without what is taken of it.
func (h *head) leftOf(name string, i int, v string) string {
	for _, p := range h.taken {
		switch {
		case p.field != name || p.index != i:
		case p.place.Kind == secret.Cookie:
			v = withPair(v, ";", p.pair, "")
		default:
			return ""
		}
	}
	return v
}

// take takes a place. What stands there is judged; two values in one field
// are not.
func (h *head) take(p *put) { h.taken = append(h.taken, *p) }

// find finds a placeholder in a place, as a whole token.
func (h *head) find(p secret.Place, placeholder string) (*put, bool) {
	out := &put{place: p}
	switch p.Kind {
	case secret.Header:
		out.field = textproto.CanonicalMIMEHeaderKey(p.Name)
		out.index = slices.IndexFunc(h.r.Header[out.field], func(v string) bool { return isForm(v, p.Format, placeholder) })
	case secret.Basic:
		out.field = "Authorization"
		out.index = slices.IndexFunc(h.r.Header[out.field], func(v string) bool { return isBasic(v, placeholder) })
	case secret.Cookie:
		out.field = cookieField
		out.index, out.pair = findCookie(h.r.Header[out.field], p.Name, placeholder)
	case secret.Query:
		_, query, _ := strings.Cut(h.target, "?")
		out.index = findPair(query, p.Name, placeholder)
		out.pair = out.index
	default:
		return nil, false
	}
	// Of one field only one value stays, so only one secret can stand in it; of
	// cookies and the query several can.
	several := p.Kind == secret.Cookie || p.Kind == secret.Query
	return out, out.index >= 0 && (several || !slices.ContainsFunc(h.taken, func(t put) bool { return t.field == out.field }))
}

// isForm reports whether a field's value is the format with a placeholder in it,
// the placeholder, or the placeholder behind a scheme (RFC 9110 §11.4).
func isForm(v, format, placeholder string) bool {
	if v == placeholder || v == fill(format, placeholder) {
		return true
	}
	scheme, ok := strings.CutSuffix(v, " "+placeholder)
	return ok && httpguts.ValidHeaderFieldName(scheme)
}

// fill puts a value into a format.
func fill(format, value string) string { return strings.Replace(format, "{}", value, 1) }

// maxUser is how long the user of Basic authentication may be that is replaced,
// in bytes.
const maxUser = 256

// isBasic reports whether a field's value is Basic authentication (RFC 7617) as
// it is written in one way only, with a placeholder for its password.
func isBasic(v, placeholder string) bool {
	encoded, ok := strings.CutPrefix(v, "Basic ")
	if !ok || len(encoded) > base64.StdEncoding.EncodedLen(maxUser+1+len(placeholder)) {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || base64.StdEncoding.EncodeToString(b) != encoded {
		return false
	}
	user, password, ok := strings.Cut(string(b), ":")
	return ok && password == placeholder && !strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// findCookie returns the field and the pair of the cookie of a name, if there is
// none of that name which is no placeholder; or -1.
func findCookie(fields []string, name, placeholder string) (field, pair int) {
	field = -1
	for i, f := range fields {
		for j, c := range strings.Split(f, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(c), "=")
			switch {
			case strings.TrimSpace(key) != name:
			case key != name || value != placeholder: // or there are two
				return -1, 0
			default:
				field, pair = i, j
			}
		}
	}
	return field, pair
}

// findPair returns the pair of a key of a query, if there is none of that key
// whose value does not stand for a placeholder; or -1.
func findPair(query, key, placeholder string) int {
	found := -1
	for i, pair := range strings.Split(query, "&") {
		k, v, ok := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(k)
		if err != nil || plain != key {
			continue
		}
		value, err := url.QueryUnescape(v)
		if k != key || !ok || err != nil || value != placeholder {
			return -1
		}
		found = i
	}
	return found
}

// withPair returns pairs with another value in one of them.
func withPair(pairs, sep string, i int, value string) string {
	all := strings.Split(pairs, sep)
	if i < len(all) {
		k, _, _ := strings.Cut(all[i], "=")
		all[i] = k + "=" + value
	}
	return strings.Join(all, sep)
}
