package policy

import "strings"

// AsVariable is how a server sees the name of a field that hands fields on as
// variables (RFC 3875 §4.1.18), but for case: some put a line below in the place
// of whatever is neither letter nor digit.
func AsVariable(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			return c
		}
		return '-'
	}, name)
}

// IsOverride reports whether a field asks a server to take the request for
// another one than was judged: X-HTTP-Method-Override, X-Original-URL and their
// kin, by letters alone.
func IsOverride(name string) bool {
	l := letters(name)
	return asksMethod(l) || asksPath(l)
}

// OverridesMethod reports whether a query asks for another method. Servers part
// it at a semicolon too, and know keys by more than one spelling.
func OverridesMethod(query string) bool {
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		key, _, _ := strings.Cut(pair, "=")
		key, _, _ = strings.Cut(undoKey(key), "\x00") // where PHP ends it
		key = strings.TrimLeft(key, " ")
		if asksMethod(letters(key)) {
			return true
		}
		// The rest is the place in a list: _method[], _method[0].
		if i := strings.LastIndexByte(key, '['); i > 0 && asksMethod(letters(key[:1+strings.IndexByte(key[1:], '[')])) {
			return true
		}
	}
	return false
}

// undoKey undoes what is escaped in a key of a query, %u0041 of old too, and
// leaves what is no escape as it is, as most servers do.
func undoKey(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			c = escaped(s[i+1], s[i+2])
			i += 2
		case c == '%' && i+5 < len(s) && s[i+1] == 'u' && s[i+2:i+4] == "00" && isHex(s[i+4]) && isHex(s[i+5]):
			c = escaped(s[i+4], s[i+5])
			i += 5
		}
		out = append(out, c)
	}
	return string(out)
}

func isHex(c byte) bool { return unhex(c) >= 0 }

// letters is a name as servers know it that are generous: PHP has a line below
// in the place of a dot, a blank and an opening bracket, others drop case and
// hyphens. Only the letters are the same for all of them.
func letters(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case 'a' <= c && c <= 'z':
			return c
		}
		return -1
	}, name)
}

// qualified takes off a name, in letters, what says that it is about a request
// as it was, or as it ought to be, and reports whether there was any of that.
func qualified(l string) (noun string, ok bool) {
	noun, ok = strings.CutSuffix(strings.TrimPrefix(l, "x"), "override")
	for before := ""; before != noun; {
		before = noun
		for _, q := range [...]string{"http", "override", "original", "forwarded", "rewrite", "replaced", "request", "real", "envoy", "destination"} {
			noun = strings.TrimPrefix(noun, q)
		}
		ok = ok || noun != before
	}
	return noun, ok
}

// asksMethod reports whether a name, in letters, is one of those by which
// frameworks take another method: _method, $httpMethod, X-HTTP-Method-Override,
// X-Http-Verb. A plain verb is a parameter of OAI-PMH and others.
func asksMethod(l string) bool {
	noun, ok := qualified(l)
	return noun == "method" || noun == "verb" && (ok || l != noun)
}

// asksPath reports whether a name, in letters, is one of those by which servers
// take another target: X-Original-URL, X-Rewrite-URL, X-Forwarded-Prefix,
// X-Envoy-Original-Path; and Script-Name and Path-Info, which gateways to Python
// know as they are.
func asksPath(l string) bool {
	noun, ok := qualified(l)
	switch noun {
	case "url", "uri", "path", "prefix":
		return ok
	case "scriptname", "pathinfo":
		return true
	}
	return false
}

// Targets are what the fields of a request name besides its own target: where
// WebDAV copies and moves to (RFC 4918 §10.3), as a path if it is one of the host
// that was asked; and what stores of objects copy from or rename, for which "" is
// there, which is no path, since what it names depends on the store.
func Targets(fields map[string][]string, host string) []string {
	var out []string
	for name, values := range fields {
		switch l := letters(name); {
		case l == "destination":
			for _, v := range values {
				out = append(out, pathAt(v, host))
			}
		case namesSource(l):
			out = append(out, "")
		}
	}
	return out
}

// namesSource is for fields of S3, Google, Azure, Alibaba and their kin, and of
// Swift.
func namesSource(l string) bool {
	switch l {
	case "xcopyfrom", "xcopyfromaccount", "destinationaccount", "xobjectmanifest", "xsymlinktarget", "xsymlinktargetaccount":
		return true
	}
	return strings.HasSuffix(l, "copysource") || strings.HasSuffix(l, "renamesource")
}

// pathAt is the path of a reference (RFC 4918 §8.3) to a host, or "".
func pathAt(ref, host string) string {
	rest, ok := strings.CutPrefix(ref, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(ref, "http://")
	}
	if !ok {
		return ref // a path, or nothing that NormalizePath takes for one
	}
	i := strings.IndexByte(rest, '/')
	if i < 0 || !strings.EqualFold(rest[:i], host) {
		return ""
	}
	return rest[i:]
}
