package secret

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// ID names one secret for ever: "sec_" and 16 hex digits.
type ID string

// Definition is all of a secret but its value.
type Definition struct {
	ID       ID        `json:"id"`
	Name     string    `json:"name"`               // what a person calls it
	Owner    string    `json:"owner"`              // whose it is: "uid:1000" in a vault of one user
	Template string    `json:"template,omitempty"` // that the rules were made from
	Gateway  bool      `json:"gateway,omitempty"`  // for the model gateway alone: it has no rules
	Var      string    `json:"var"`                // the variable that holds its placeholder
	Keep     int       `json:"keep,omitempty"`     // leading bytes that the placeholder shares with the value, such as of "ghp_"
	Rules    []Rule    `json:"rules,omitempty"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	Revision uint64    `json:"revision"` // of the value and the rules, from 1
}

// Hash is of what a value is bound to besides its id, owner and revision.
func (d Definition) Hash() [sha256.Size]byte {
	b, err := json.Marshal(struct {
		Gateway bool
		Keep    int
		Rules   []Rule
	}{d.Gateway, d.Keep, d.Rules})
	if err != nil {
		panic(err) // unreachable: nothing of it can fail
	}
	return sha256.Sum256(b)
}

// Rule is where a value may go, and how.
type Rule struct {
	Hosts   []Host   `json:"hosts"`             // at least one
	Methods []string `json:"methods,omitempty"` // as policy.CheckMethod takes them; empty: any
	Paths   []string `json:"paths,omitempty"`   // prefixes of whole segments: /api is for /api and /api/x, not /apix; empty: any
	Place   Place    `json:"place"`
}

// Host is a name, or every name below one, and a port of HTTPS.
type Host struct {
	Name     string // normalised; of a wildcard the part after "*."
	Wildcard bool
	Port     uint16 // 443 unless another was written
}

// PlaceKind is where on a request a value stands.
type PlaceKind string

// The places.
const (
	Header PlaceKind = "header" // Name, and Format with {} for the value
	Basic  PlaceKind = "basic"  // Authorization: Basic, for User; what a client says for a user is replaced
	Query  PlaceKind = "query"  // the value of the key Name
	Cookie PlaceKind = "cookie" // the value of the cookie Name
)

// Place is the one place of a rule.
type Place struct {
	Kind   PlaceKind `json:"kind"`
	Name   string    `json:"name,omitempty"`
	Format string    `json:"format,omitempty"`
	User   string    `json:"user,omitempty"`
}

const (
	valueMark = "{}"
	httpsPort = 443
)

// ParseHost reads HOST, *.HOST, HOST:PORT.
func ParseHost(s string) (Host, error) {
	r, err := policy.ParseRule(s)
	switch {
	case isAddress(s):
		return Host{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is an address, and a value goes to hosts by their names alone", s), "name the host, such as api.example.com: it gets the value only after its certificate has proved that name")
	case err != nil:
		return Host{}, bailey.NewError(bailey.Invalid, strings.Replace(err.Error(), "network rule", "host", 1), "name a host, such as api.example.com, or *.api.example.com where all names below are of whom the value is for")
	case r.Port == 80:
		return Host{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q: no value goes out over plain HTTP", s), "name the port of HTTPS, or none for 443")
	case r.Service || r.Host == policy.ServiceHost:
		return Host{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is this machine, which no certificate proves", s), "name a host")
	case r.Port == 0:
		r.Port = httpsPort
	}
	return Host{r.Host, r.Wildcard, r.Port}, nil
}

// isAddress reports whether somebody wrote an address or a range of them,
// whether or not a sandbox could reach it, with or without port and brackets.
func isAddress(s string) bool {
	host := s
	if h, _, err := net.SplitHostPort(s); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, notOne := netip.ParseAddr(host)
	_, notRange := netip.ParsePrefix(host)
	return notOne == nil || notRange == nil
}

// String is what ParseHost reads.
func (h Host) String() string {
	s := h.Name
	if h.Wildcard {
		s = "*." + s
	}
	if h.Port != httpsPort {
		s += ":" + strconv.FormatUint(uint64(h.Port), 10)
	}
	return s
}

// MarshalText writes String.
func (h Host) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Host) UnmarshalText(b []byte) (err error) {
	*h, err = ParseHost(string(b))
	return err
}

// Matches reports whether the host speaks of a normalised name and a port.
func (h Host) Matches(name string, port uint16) bool {
	if port != h.Port || name == "" {
		return false
	}
	if !h.Wildcard {
		return name == h.Name
	}
	below, ok := strings.CutSuffix(name, "."+h.Name)
	return ok && below != ""
}

// Of reports whether the rule speaks of a host and port at all.
func (r Rule) Of(name string, port uint16) bool {
	return slices.ContainsFunc(r.Hosts, func(h Host) bool { return h.Matches(name, port) })
}

// Covers reports whether the rule speaks of a request to one of its hosts, by
// its method and its path as it came, without query. A path that servers may
// read in two ways is covered only where the rule names no paths.
func (r Rule) Covers(method, path string) bool {
	if len(r.Methods) > 0 && !slices.Contains(r.Methods, method) {
		return false
	}
	_, ok := r.Class(path)
	return ok
}

// Class returns the prefix of the rule that a path is below, "/" where the
// rule names none: what of a path is worth a line in a record.
func (r Rule) Class(path string) (string, bool) {
	if len(r.Paths) == 0 {
		return "/", true
	}
	path, err := policy.NormalizePath(path)
	if err != nil {
		return "", false
	}
	for _, p := range r.Paths {
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(p, "/")); ok && (below == "" || below[0] == '/') {
			return p, true
		}
	}
	return "", false
}

// Check refuses a rule that says nothing, too much, or what cannot be kept.
func (r Rule) Check() error {
	if len(r.Hosts) == 0 {
		return bailey.NewError(bailey.Invalid, "the rule names no host", "--host says where the value may go")
	}
	for _, m := range r.Methods {
		if err := policy.CheckMethod(m); err != nil {
			return err
		}
	}
	for _, p := range r.Paths {
		if n, err := policy.NormalizePath(p); err != nil || n != p {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is no path", p), "a path prefix begins with a slash, such as /api/v1")
		}
	}
	return r.Place.Check()
}

// Check refuses a place that is none.
func (p Place) Check() error {
	bad := func(problem, hint string) error { return bailey.NewError(bailey.Invalid, problem, hint) }
	switch p.Kind {
	case Header:
		switch {
		case !httpguts.ValidHeaderFieldName(p.Name):
			return bad(fmt.Sprintf("%q is no header's name", p.Name), "such as --header Authorization")
		case isForbiddenHeader(p.Name):
			return bad(fmt.Sprintf("no value is put into the header %s", p.Name), "it says how a request is read; name another")
		case strings.Count(p.Format, valueMark) != 1 || !httpguts.ValidHeaderFieldValue(p.Format) || strings.TrimSpace(p.Format) != p.Format:
			return bad(fmt.Sprintf("the format %q does not say where the value stands", p.Format), "it holds {} once, such as 'Bearer {}'")
		}
	case Basic:
		if strings.ContainsFunc(p.User, func(c rune) bool { return c == ':' || c < ' ' || c == 0x7f }) {
			return bad(fmt.Sprintf("the user %q cannot stand in Basic authentication", p.User), "RFC 7617 leaves out colons and control characters")
		}
	case Query, Cookie:
		if !isKey(p.Name) {
			return bad(fmt.Sprintf("%q is no key", p.Name), "use letters, digits, '-', '_' and '.'")
		}
	default:
		return bad(fmt.Sprintf("unknown place %q", p.Kind), "header, basic, query or cookie")
	}
	return nil
}

// Narrowing says for a person what of the requests to its hosts a rule is for,
// such as ", for GET, below /api"; "" for all.
func (r Rule) Narrowing() string {
	out := ""
	if len(r.Methods) > 0 {
		out += ", for " + strings.Join(r.Methods, ", ")
	}
	if len(r.Paths) > 0 {
		out += ", below " + strings.Join(r.Paths, ", ")
	}
	return out
}

// HostNames are the hosts, as they are written.
func (r Rule) HostNames() []string {
	names := make([]string, 0, len(r.Hosts))
	for _, h := range r.Hosts {
		names = append(names, h.String())
	}
	return names
}

// String is the rule on one line, for a person.
func (r Rule) String() string {
	return strings.Join(r.HostNames(), ", ") + ": " + r.Place.String() + r.Narrowing()
}

// isForbiddenHeader holds the fields that say how a request is read, where it
// goes, or that a hop takes off.
func isForbiddenHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate",
		"Te", "Trailer", "Upgrade", "Expect", "Content-Encoding", "Content-Type", "Accept-Encoding", "Range", "If-Range", "Cookie", "Date", "Via", "Origin":
		return true
	}
	return strings.HasPrefix(http.CanonicalHeaderKey(name), "Sec-")
}

func isKey(s string) bool {
	const longest = 64
	return s != "" && len(s) <= longest && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// String says the place for a person.
func (p Place) String() string {
	switch p.Kind {
	case Header:
		return p.Name + ": " + p.Format
	case Basic:
		return "Basic authentication as " + strconv.Quote(p.User)
	case Query:
		return "query key " + p.Name
	case Cookie:
		return "cookie " + p.Name
	}
	return string(p.Kind)
}
