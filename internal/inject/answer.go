package inject

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

var (
	errMessage   = errors.New("a message of the answer is compressed, though that was not asked for, or is none, and values of secrets could not be seen in it")
	errPart      = errors.New("the host has sent a part of a compressed answer, in which values of secrets could not be seen")
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
	s.scrubFields(res.Header)
	s.scrubFields(res.Trailer) // of which the names are there already, and are announced
	res.Status = string(s.values.scrubbed([]byte(res.Status)))
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		return l.upgrade(res, s)
	case res.Body == nil || res.Body == http.NoBody:
		return nil
	}
	codings := codingsOf(res.Header)
	// What has no body has trailers nevertheless, over HTTP/2.
	if len(codings) > 0 && hasBody(l.method, res.StatusCode) {
		if !s.of(l.to.Host) {
			return nil // no value was sent to it, and so none comes from it
		}
		if res.StatusCode == http.StatusPartialContent {
			return errPart
		}
		plain, err := decode(codings, res.Body)
		if err != nil {
			return err
		}
		res.Body = plain
		forgetCoding(res)
	}
	var f filter = &scrub{tape{m: s.values}}
	if isFramed(res.Header) {
		f = &framed{scrub: &tape{m: s.values}, strict: s.of(l.to.Host)}
	}
	res.Body = &body{src: res.Body, f: f, ended: func() error {
		s.scrubFields(res.Trailer)
		return nil
	}}
	return nil
}

// Cover takes values out of a text of our own about an answer that was none: an
// error of net/http quotes what it could not read (B049).
func (l *Loan) Cover(text string) string {
	s := l.lender.now.Load()
	if s.empty() {
		return text
	}
	return string(s.values.scrubbed([]byte(text)))
}

// hasBody reports whether an answer has a body (RFC 9112 §6.3).
func hasBody(method string, status int) bool {
	return method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified
}

// scrubFields covers values in fields, and drops fields whose names hold one.
func (s *set) scrubFields(h http.Header) {
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
	if len(s.echoed.find(names, 0, true).edits) > 0 {
		for name := range h {
			if len(s.echoed.find(appendLower(nil, name), 0, true).edits) > 0 {
				delete(h, name)
			}
		}
	}
	if len(s.values.find(text, 0, true).edits) == 0 {
		return
	}
	for _, values := range h {
		for i, v := range values {
			values[i] = string(s.values.scrubbed([]byte(v)))
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
func (l *Loan) upgrade(res *http.Response, s *set) error {
	conn, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		return errUpgrade
	}
	if res.Header.Get("Sec-Websocket-Extensions") != "" {
		return errExtension
	}
	res.Body = newWebSocket(conn, l, s)
	return nil
}
