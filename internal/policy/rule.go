package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ServiceHost is the name under which a sandbox reaches a service of the
// machine it runs on, and ServiceAddr the address that the name has inside:
// the dummy of RFC 7600, which nobody routes. Both are made up: a connection
// to them ends at the proxy like any other.
const ServiceHost = "host.bailey.internal"

// ServiceAddr is what ServiceHost resolves to inside.
func ServiceAddr() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 0, 8}) }

// Rule names a host, every host below a suffix, one address, a range of them, or
// one service of this machine, with or without a port. The zero Rule matches nothing.
type Rule struct {
	Host     string       // normalised name; of a wildcard the part after "*."
	Wildcard bool         // matches names below Host, not Host itself
	Addr     netip.Addr   // an address instead of a name
	Range    netip.Prefix // addresses instead of a name; of deny rules alone
	Port     uint16       // 0: none was written (allow: 80 and 443; deny: every port)
	Service  bool         // a service on this machine's loopback; Host is ServiceHost
	Fenced   bool         // a stranger's, within what is allowed: never opens an address of this machine, and no denied one; its name is never looked up for itself
	Narrow   *Narrow      // nil: all that Host and Port say; shared, never changed
}

// Narrow is what makes a rule speak of less than a host.
type Narrow struct {
	Addresses    []netip.Prefix // what the name may resolve to; empty: any public address. Of a deny rule: where it holds; empty: everywhere
	Methods      []string       // of HTTP requests; empty: any
	Paths        []string       // of HTTP requests, as CheckPattern takes them; empty: any
	Inspect      bool           // TLS is to be opened
	Repositories []string       // of git over HTTP: requests for these alone, as CheckRepository takes them; empty: any request
	Push         bool           // to the repositories too
	Records      []string       // DNS records that are answered besides addresses, as CheckRecord takes them: this widens
	SSH          *SSH           // git over SSH alone, with some repositories
}

// ofRequests reports whether the rule speaks of some requests alone.
func (r Rule) ofRequests() bool {
	return r.Narrow != nil && len(r.Narrow.Methods)+len(r.Narrow.Paths)+len(r.Narrow.Repositories) > 0
}

// InsideTLS reports whether the rule can be kept only by opening TLS: it asks
// for that, or speaks of requests, and not on the port of plain HTTP alone.
func (r Rule) InsideTLS() bool {
	return r.Narrow != nil && (r.Narrow.Inspect || r.ofRequests() && r.Port != 80)
}

// String returns the canonical text of the rule's host and port;
// ParseDenyRule reads it back, but for a service's.
func (r Rule) String() string {
	var host string
	switch {
	case r.Range.IsValid() && r.Range.Addr().Is6() && r.Port != 0:
		host = "[" + r.Range.String() + "]"
	case r.Range.IsValid():
		host = r.Range.String()
	case r.Addr.IsValid() && r.Addr.Is6():
		host = "[" + r.Addr.String() + "]"
	case r.Addr.IsValid():
		host = r.Addr.String()
	case r.Wildcard:
		host = "*." + r.Host
	default:
		host = r.Host
	}
	if r.Port == 0 {
		return host
	}
	return host + ":" + strconv.FormatUint(uint64(r.Port), 10)
}

// Text returns the whole rule for a person: String, and what narrows it.
func (r Rule) Text() string {
	parts := []string{r.String()}
	if r.Service {
		parts = []string{"host-service " + strconv.FormatUint(uint64(r.Port), 10)}
	}
	if r.Narrow != nil {
		parts = append(parts, r.Narrow.texts()...)
	}
	return strings.Join(parts, " ")
}

// Brief is Text with an end: for a sentence, not to compare.
func (r Rule) Brief() string { return brief(r.Text()) }

func brief(text string) string {
	const longest = 160 // bytes
	if len(text) > longest {
		return text[:longest] + "…" // names, methods and paths are ASCII
	}
	return text
}

func (n *Narrow) texts() []string {
	var parts []string
	if len(n.Methods) > 0 {
		parts = append(parts, strings.Join(n.Methods, ","))
	}
	if len(n.Paths) > 0 {
		parts = append(parts, strings.Join(n.Paths, ","))
	}
	if len(n.Repositories) > 0 {
		verb := "git fetch "
		if n.Push {
			verb = "git fetch and push "
		}
		parts = append(parts, verb+strings.Join(n.Repositories, ","))
	}
	if len(n.Addresses) > 0 {
		parts = append(parts, "at "+join(n.Addresses))
	}
	if n.Inspect {
		parts = append(parts, "inspected")
	}
	if len(n.Records) > 0 {
		parts = append(parts, "dns "+strings.Join(n.Records, ","))
	}
	if n.SSH != nil {
		parts = append(parts, n.SSH.text())
	}
	return parts
}

func join(list []netip.Prefix) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, ",")
}

// wireRule is a rule's form between processes when it is more than its text.
type wireRule struct {
	Host      string         `json:"host,omitempty"`
	Service   uint16         `json:"host-service,omitempty"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	Methods   []string       `json:"methods,omitempty"`
	Paths     []string       `json:"paths,omitempty"`
	Inspect   bool           `json:"inspect,omitempty"`
	Records   []string       `json:"dns,omitempty"`
	Git       *wireGit       `json:"git,omitempty"`
	SSH       *SSH           `json:"ssh,omitempty"`
	Fenced    bool           `json:"fenced,omitempty"`
}

// wireGit is the form of Narrow.Repositories between processes.
type wireGit struct {
	Repositories []string `json:"repositories"`
	Write        bool     `json:"write,omitempty"`
}

// MarshalJSON writes the canonical text, or an object for a rule that is more.
func (r Rule) MarshalJSON() ([]byte, error) {
	if !r.Service && !r.Fenced && r.Narrow == nil {
		return json.Marshal(r.String())
	}
	w := wireRule{Host: r.String(), Fenced: r.Fenced}
	if r.Service {
		w.Host, w.Service = "", r.Port
	}
	if n := r.Narrow; n != nil {
		w.Addresses, w.Methods, w.Paths, w.Inspect, w.Records, w.SSH = n.Addresses, n.Methods, n.Paths, n.Inspect, n.Records, n.SSH
		if len(n.Repositories) > 0 {
			w.Git = &wireGit{n.Repositories, n.Push}
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote. It checks the form but not how
// broad the rule is: that was ParseRule's business, once, at the edge.
func (r *Rule) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		v, err := ParseDenyRule(text)
		if err == nil {
			*r = v
		}
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var w wireRule
	if err := dec.Decode(&w); err != nil {
		return fmt.Errorf("read rule: %w", err)
	}
	v, err := w.rule()
	if err == nil {
		*r = v
	}
	return err
}

func (w wireRule) rule() (Rule, error) {
	if w.Service != 0 && w.Host == "" {
		return ServiceRule(w.Service)
	}
	r, err := ParseDenyRule(w.Host)
	if len(w.Addresses) > 0 {
		r, err = ParseTarget(w.Host, w.Addresses)
	}
	if err != nil {
		return Rule{}, err
	}
	r.Fenced = w.Fenced
	n := Narrow{Addresses: w.Addresses, Methods: w.Methods, Paths: w.Paths, Inspect: w.Inspect, Records: w.Records, SSH: w.SSH}
	if w.Git != nil {
		if len(w.Git.Repositories) == 0 {
			return Rule{}, fmt.Errorf("read rule %s: git without repositories", w.Host)
		}
		n.Repositories, n.Push = w.Git.Repositories, w.Git.Write
	}
	return r.With(n)
}

// byAddress reports whether a deny rule about a name holds only where that
// resolves to some addresses.
func (r Rule) byAddress() bool { return r.Narrow != nil && len(r.Narrow.Addresses) > 0 }

// matchesHost reports whether the rule speaks of this normalised name.
func (r Rule) matchesHost(name string) bool {
	switch {
	case r.Host == "" || name == "" || r.Addr.IsValid():
		return false
	case r.Wildcard:
		below, ok := strings.CutSuffix(name, r.Host)
		return ok && len(below) > 1 && below[len(below)-1] == '.'
	}
	return name == r.Host
}

// allowsPort is the port test of an allow rule.
func (r Rule) allowsPort(port uint16) bool {
	if r.Port == 0 {
		return port == 80 || port == 443
	}
	return port == r.Port
}

// deniesPort is the port test of a deny rule. Port 0 is the question whether
// a name may be resolved: a rule for one port leaves the others, so it says no
// only when it names no port.
func (r Rule) deniesPort(port uint16) bool { return r.Port == 0 || r.Port == port }
