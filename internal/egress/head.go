package egress

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey/internal/policy"
)

const (
	maxFields        = 200
	maxMethod        = 32 // bytes; the longest registered one has 17
	reasonBadRequest = policy.ReasonBadRequest
)

// head is what the guard has to know of a request to frame it.
type head struct {
	chunked   bool
	length    int64
	webSocket bool
}

// parseHead judges a request's line and fields, from its first byte to the
// empty line, by the strict grammar of RFC 9112. Every error is a *badRequestError.
func parseHead(b []byte) (head, error) {
	if err := checkLineEnds(b); err != nil {
		return head{}, err
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\r\n\r\n"), "\r\n")
	method, target, proto, err := parseRequestLine(lines[0])
	if err != nil {
		return head{}, err
	}
	fields, err := parseFields(lines[1:])
	if err != nil {
		return head{}, err
	}
	if err := checkHost(target, fields["Host"]); err != nil {
		return head{}, err
	}
	h, err := parseFraming(proto, fields)
	if err != nil {
		return head{}, err
	}
	_, h.webSocket = webSocketKey(method, proto, fields)
	if h.webSocket && (h.chunked || h.length > 0) {
		return head{}, malformed("an upgrade has a body")
	}
	return h, nil
}

func malformed(format string, args ...any) error {
	return &badRequestError{reasonBadRequest, fmt.Sprintf(format, args...)}
}

// checkLineEnds refuses a carriage return or line feed without the other:
// some servers end a line there and others do not.
func checkLineEnds(b []byte) error {
	for i, c := range b {
		switch {
		case c == '\n' && (i == 0 || b[i-1] != '\r'),
			c == '\r' && i+1 < len(b) && b[i+1] != '\n':
			return malformed("a line ends in a bare carriage return or line feed")
		case c == 0:
			return malformed("the head holds a NUL byte")
		}
	}
	return nil
}

func parseRequestLine(line string) (method, target, proto string, err error) {
	method, rest, ok := strings.Cut(line, " ")
	target, proto, ok2 := strings.Cut(rest, " ")
	switch {
	case !ok || !ok2 || !isToken(method) || len(method) > maxMethod:
		return "", "", "", malformed("the request line is not METHOD TARGET VERSION")
	case proto != "HTTP/1.1" && proto != "HTTP/1.0":
		return "", "", "", malformed("%q is not HTTP/1.1", printable(proto))
	case method == http.MethodConnect:
		return "", "", "", malformed("CONNECT is refused: connect to the host itself, no proxy is needed")
	case method == http.MethodTrace:
		return "", "", "", malformed("TRACE is refused")
	case method == "PRI":
		return "", "", "", malformed("HTTP/2 without TLS is refused")
	case target == "*" && method == http.MethodOptions:
	case !strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "http://"):
		return "", "", "", malformed("the request target is neither a path nor an http URL")
	}
	if err := checkTargetBytes(target); err != nil {
		return "", "", "", err
	}
	return method, target, proto, nil
}

// checkTargetBytes refuses what no target holds, and goes on to checkTarget.
func checkTargetBytes(target string) error {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return malformed("the request target holds the byte %q", c)
		}
	}
	return checkTarget(target)
}

// checkTarget refuses a target that net/http would refuse without a reason,
// and one that cannot be passed on as it is written (setTarget).
func checkTarget(target string) error {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return malformed("the request target cannot be read: a percent sign is not followed by two hexadecimal digits, or its host is none")
	}
	if path, _, _ := strings.Cut(originForm(target), "?"); strings.HasPrefix(path, "//") && u.EscapedPath() != path {
		return malformed("the path begins with // and holds a byte that a URL has only in escaped form")
	}
	return nil
}

func parseFields(lines []string) (map[string][]string, error) {
	if len(lines) > maxFields {
		return nil, malformed("the request has more than %d header fields", maxFields)
	}
	fields := map[string][]string{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return nil, malformed("a header field has no proper name")
		}
		for i := range len(value) {
			if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
				return nil, malformed("the header field %s holds a control byte", printable(name))
			}
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		fields[key] = append(fields[key], strings.Trim(value, " \t"))
	}
	return fields, nil
}

// checkHost wants Host once, and a target in absolute form to name the same
// host: RFC 9112 §3.2.2 lets the target win, so a proxy that reads one and a
// server that reads the other would disagree.
func checkHost(target string, hosts []string) error {
	if len(hosts) != 1 || hosts[0] == "" {
		return &badRequestError{policy.ReasonNoName, "the request does not name its host exactly once (Host)"}
	}
	for i := range len(hosts[0]) {
		if c := hosts[0][i]; !isHostByte(c) {
			return &badRequestError{policy.ReasonInvalidName, fmt.Sprintf("Host holds the byte %q", c)}
		}
	}
	rest, absolute := strings.CutPrefix(target, "http://")
	if !absolute {
		return nil
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority = rest[:i]
	}
	if !strings.EqualFold(authority, hosts[0]) {
		return &badRequestError{policy.ReasonNameMismatch, "the request target and Host name different hosts"}
	}
	return nil
}

// isHostByte reports whether a byte can be part of a Host at all; what
// it makes of a name is NormalizeName's business.
func isHostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-.:[]%*,_", c) >= 0
}

// parseFraming settles how long the body is, or refuses (RFC 9112 §6).
func parseFraming(proto string, fields map[string][]string) (head, error) {
	te, cl := fields["Transfer-Encoding"], fields["Content-Length"]
	var h head
	switch {
	case len(te) > 0 && len(cl) > 0:
		return head{}, malformed("the request has both Content-Length and Transfer-Encoding")
	case len(te) > 1 || len(te) == 1 && (!strings.EqualFold(te[0], "chunked") || proto == "HTTP/1.0"):
		return head{}, malformed("Transfer-Encoding is other than chunked, once, in HTTP/1.1")
	case len(te) == 1:
		h.chunked = true
	case len(cl) > 1:
		return head{}, malformed("the request has several Content-Length fields")
	case len(cl) == 1:
		n, err := strconv.ParseUint(cl[0], 10, 63)
		if err != nil || strings.Trim(cl[0], "0123456789") != "" {
			return head{}, malformed("Content-Length is not a number")
		}
		h.length = int64(n) // 63 bits
	}
	if e := fields["Expect"]; len(e) > 1 || len(e) == 1 && !strings.EqualFold(e[0], "100-continue") {
		return head{}, malformed("Expect is other than 100-continue")
	}
	return h, nil
}

// webSocketKey returns the key of a well-formed WebSocket handshake
// (RFC 6455 §4.1), the one upgrade that is passed on. The guard and the
// handler both ask it, of the same fields.
func webSocketKey(method, proto string, fields map[string][]string) (key string, ok bool) {
	one := func(name string) string {
		if v := fields[name]; len(v) == 1 {
			return v[0]
		}
		return ""
	}
	key = one("Sec-Websocket-Key")
	nonce, err := base64.StdEncoding.DecodeString(key)
	upgrade := false
	for option := range strings.SplitSeq(one("Connection"), ",") {
		upgrade = upgrade || strings.EqualFold(strings.Trim(option, " \t"), "upgrade")
	}
	ok = method == http.MethodGet && proto == "HTTP/1.1" && upgrade && err == nil && len(nonce) == 16 &&
		strings.EqualFold(one("Upgrade"), "websocket") && one("Sec-Websocket-Version") == "13"
	return key, ok
}

// isToken reports whether s is a token (RFC 9110 §5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || bytes.IndexByte([]byte(`"(),/:;<=>?@[\]{}`), c) >= 0 {
			return false
		}
	}
	return s != ""
}
