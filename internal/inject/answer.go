package inject

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

var (
	errMessage   = errors.New("a message of the answer is compressed, though that was not asked for, or is none, and values of secrets could not be seen in it")
	errUnasked   = errors.New("the host has sent a part of its answer to a request that carried a secret's value and asked for none")
	errPart      = errors.New("the host has sent a part of a compressed answer, in which values of secrets could not be seen")
	errSealed    = errors.New("the host has become one of a secret's, and a compressed answer of it was under way, in which values could not be seen")
	errExtension = errors.New("the host uses an extension of WebSocket that was not offered to it")
	errUpgrade   = errors.New("the host's connection was upgraded and cannot be written to")
)

// Answer takes values out of an answer's fields and body, undoing compression
// where need be; an upgraded connection's too, in both directions, whose Read
// and Write fail with a *Refusal. It returns an error where that cannot be done,
// and then nothing of the answer may be passed on.
//
// Every answer a sandbox gets is to go through it: a value that one request
// carried may come back with another. Informational answers (1xx) do not come
// by here: they are to be dropped, but for 101.
func (l *Loan) Answer(res *http.Response) error {
	s := l.set
	if now := l.lender.now.Load(); !now.empty() {
		s = now // it has former values too
	}
	if s.empty() {
		return nil
	}
	if l.set.empty() { // nothing was lent
		l.set = s
	}
	if len(l.puts) > 0 && inBytes(res) {
		return errUnasked // it went by something else of the request, and could be asked byte by byte (B046)
	}
	k := s.kept(l.to.Host)
	k.scrubFields(res.Header)
	k.scrubFields(res.Trailer) // of which the names are there already, and are announced
	res.Status = string(k.values.scrubbed([]byte(res.Status)))
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		return l.upgrade(res)
	case res.Body == nil || res.Body == http.NoBody:
		return nil
	}
	if sealed, err := l.uncode(res, s); sealed || err != nil {
		return err
	}
	var f filter = &scrub{l.tape()}
	if _, odd := l.lender.odd.Load(l.to.Host); !odd && isFramed(res.Header) {
		t := l.tape()
		f = &framed{scrub: &t, strict: s.of(l.to.Host), odd: func() { l.lender.odd.Store(l.to.Host, true) }}
	}
	res.Body = &body{src: res.Body, f: f, ended: func() error {
		l.kept().scrubFields(res.Trailer)
		return nil
	}}
	return nil
}

// uncode undoes the coding of a body. One of a host that was sent no value stays
// sealed.
func (l *Loan) uncode(res *http.Response, s *set) (stays bool, err error) {
	codings := codingsOf(res.Header)
	switch {
	case len(codings) == 0 || !hasBody(l.method, res.StatusCode): // what has none has trailers nevertheless, over HTTP/2
		return false, nil
	case !s.of(l.to.Host):
		res.Body = &body{src: res.Body, f: &sealed{l}}
		return true, nil
	case res.StatusCode == http.StatusPartialContent:
		return false, errPart
	}
	plain, err := l.decode(codings, res.Body)
	if err != nil {
		return false, err
	}
	res.Body = plain
	forgetCoding(res)
	return false, nil
}

// kept is what is kept out of the answer now: what was adopted since it began
// is too.
func (l *Loan) kept() *kept {
	s := l.lender.now.Load()
	if s.empty() {
		s = l.set
	}
	return s.kept(l.to.Host)
}

// tape is for what the host says.
func (l *Loan) tape() tape {
	var of *set
	var m *matcher
	return tape{renew: func() *matcher {
		if now := l.lender.now.Load(); m == nil || now != of {
			of, m = now, l.kept().values
		}
		return m
	}}
}

// sealed passes on what cannot be looked into, as long as the host is none of a
// secret's: one that was edited may name it meanwhile.
type sealed struct{ l *Loan }

func (s *sealed) pass(b []byte, _ bool) ([]byte, error) {
	if now := s.l.lender.now.Load(); !now.empty() && now.of(s.l.to.Host) {
		return nil, errSealed
	}
	return b, nil
}

// inBytes reports whether an answer is a part that is counted in bytes. There
// are hosts that answer 206 to say that a list goes on.
func inBytes(res *http.Response) bool {
	if res.StatusCode != http.StatusPartialContent {
		return false
	}
	of := strings.ToLower(strings.Join(res.Header.Values("Content-Range"), ","))
	return strings.Contains(of, "bytes") || strings.Contains(strings.ToLower(res.Header.Get("Content-Type")), "byteranges")
}

// Cover takes values out of a text of our own about an answer that was none: an
// error of net/http quotes what it could not read (B049).
func (l *Loan) Cover(text string) string {
	s := l.lender.now.Load()
	if s.empty() {
		return text
	}
	return string(s.kept(l.to.Host).values.scrubbed([]byte(text)))
}

// hasBody reports whether an answer has a body (RFC 9112 §6.3).
func hasBody(method string, status int) bool {
	return method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified
}

// scrubFields covers values in fields, and drops fields whose names hold one.
func (k *kept) scrubFields(h http.Header) {
	if len(h) == 0 {
		return
	}
	var text, names []byte
	for name, values := range h {
		names = append(appendLower(names, name), 0)
		for _, v := range values {
			text = append(append(text, v...), 0)
		}
	}
	if len(k.echoed.find(names, 0, true).edits) > 0 {
		for name := range h {
			if len(k.echoed.find(appendLower(nil, name), 0, true).edits) > 0 {
				delete(h, name)
			}
		}
	}
	if len(k.values.find(text, 0, true).edits) == 0 {
		return
	}
	for _, values := range h {
		for i, v := range values {
			values[i] = string(k.values.scrubbed([]byte(v)))
		}
	}
}

// forgetCoding takes off fields that are of the coded body.
func forgetCoding(res *http.Response) {
	for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges"} {
		res.Header.Del(name)
	}
	if tag := res.Header.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		res.Header.Set("Etag", "W/"+tag)
	}
	res.ContentLength = -1
}

// upgrade has the frames of a WebSocket looked at.
func (l *Loan) upgrade(res *http.Response) error {
	conn, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		return errUpgrade
	}
	if res.Header.Get("Sec-Websocket-Extensions") != "" {
		return errExtension
	}
	res.Body = newWebSocket(conn, l)
	return nil
}
