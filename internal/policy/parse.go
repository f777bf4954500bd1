package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/bailey-dev/bailey"
)

// ParseRule reads an allow rule as a person writes it: host, host:port,
// *.suffix, *.suffix:port, or an IPv4 address with or without a port. A name
// may be international; it is stored as punycode. A rule that could never let
// anything through is refused, with the reason.
//
// Every error is a *bailey.Error of kind Invalid that quotes the input, says
// what is wrong and has the fix as its hint.
func ParseRule(s string) (Rule, error) {
	r, err := parseTarget(s, false)
	if err != nil {
		return Rule{}, err
	}
	if err := lintAllow(s, r); err != nil {
		return Rule{}, err
	}
	return r, nil
}

// CheckAllow is what ParseRule asks of a rule that was read by ParseTarget:
// that it can let something through, and does not let everybody in.
func CheckAllow(r Rule) error { return lintAllow(r.String(), r) }

func lintAllow(s string, r Rule) error {
	if isReserved(r.Host) {
		return bad(s, "it stands for this machine, whose services are opened one by one", "use --host-service PORT, or host-service: PORT in a policy file")
	}
	if err := lintIdle(s, r); err != nil {
		return err
	}
	return lintWildcard(s, r)
}

// dnsPort is redirected to bailey's own responder, whatever the address.
const dnsPort = 53

// lintIdle refuses an allow rule that nothing can ever pass by: its author
// would take a host for reachable that is not.
func lintIdle(s string, r Rule) error {
	switch {
	case r.Addr.Is6():
		return bad(s, "no sandbox reaches an IPv6 address yet: bailey dials by IPv4 alone", "name the host, or its IPv4 address")
	case r.Port == dnsPort:
		return bad(s, "whatever goes to port 53 is answered by bailey itself, and names are looked up without a rule for it", "leave the rule out, or name the port of something else")
	}
	return nil
}

// ParseDenyRule reads a deny rule: as ParseRule, and *.com or *.github.io are
// fine, since a deny rule cannot be too broad; nor can it be idle, so that
// IPv6 addresses (in brackets when a port follows), private ones, which mode
// full reaches, and port 53 are fine too. It may be a range of addresses, such
// as 11.0.0.0/24 or [2606:4700::/32]:443. Without a port it denies every port.
func ParseDenyRule(s string) (Rule, error) {
	if s == "*" {
		return Rule{}, bad(s, "it names every host", "use mode none for that (--net none), or name the hosts")
	}
	if r, ok, err := parseRange(s); ok || err != nil {
		return r, err
	}
	return parseTarget(s, true)
}

// parseRange reads a range of addresses, or says that s is none. Which
// addresses it holds is of no account: those that no sandbox reaches are denied
// already.
func parseRange(s string) (r Rule, ok bool, err error) {
	text, digits, port := cutRangePort(s)
	p, perr := netip.ParsePrefix(text)
	switch {
	case perr != nil:
		return Rule{}, false, nil //nolint:nilerr // it is something else
	case p.Addr().Is4In6():
		return Rule{}, false, bad(s, "it is a range of IPv4 addresses in IPv6 form", "write it in IPv4 form, such as 11.0.0.0/24")
	case p != p.Masked():
		return Rule{}, false, bad(s, "it is one address with the length of a range", "write "+p.Masked().String())
	}
	r.Range = p
	if port {
		r.Port, err = parsePort(s, digits)
	}
	if err != nil {
		return Rule{}, false, err
	}
	return r, true, nil
}

// parseTarget reads a host. private: addresses that a rule can name are fine.
func parseTarget(s string, private bool) (Rule, error) {
	if err := refuseForeign(s); err != nil {
		return Rule{}, err
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return addressRule(s, a, 0, private)
	}
	host, port, err := splitPort(s)
	if err != nil {
		return Rule{}, err
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		return bracketRule(s, strings.TrimSuffix(inner, "]"), port, private)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return addressRule(s, a, port, private)
	}
	return nameRule(s, host, port)
}

// cutRangePort takes the port off a range, and the brackets that an IPv6 one
// has in front of it.
func cutRangePort(s string) (text, digits string, port bool) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		text, rest, _ := strings.Cut(inner, "]")
		digits, port = strings.CutPrefix(rest, ":")
		if !port && rest != "" || !strings.Contains(text, ":") {
			return "", "", false
		}
		return text, digits, port
	}
	if strings.Count(s, ":") == 1 {
		return strings.Cut(s, ":")
	}
	return s, "", false
}

// refuseForeign catches what people paste instead of a host, to say which it is.
func refuseForeign(s string) error {
	for _, c := range s {
		if c <= ' ' || c == 0x7f {
			return bad(s, "it holds a space or a control byte", "write one host per rule, each of them in one of its own")
		}
	}
	if _, rest, ok := strings.Cut(s, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		return bad(s, "it is a URL", fmt.Sprintf("write the bare host: %q", host[strings.LastIndexByte(host, '@')+1:])) // no name, no password
	}
	if isRange(s) {
		return bad(s, "it is a range of addresses, and a rule is one host", "write one rule an address; mode open (--net open) is for every public one, and deny rules may be ranges")
	}
	switch {
	case s == "":
		return bad(s, "it is empty", "name a host, such as example.com")
	case s == "*":
		return bad(s, "it would allow every host", "use mode open for that (--net open), or name the hosts")
	case strings.Contains(s, "@"):
		return bad(s, "it holds a user name", "write the host alone, after the @")
	case strings.Contains(s, ","):
		return bad(s, "it holds a comma, and a rule is one host", "write one host per rule, each of them in one of its own")
	case strings.Contains(s, "/"):
		host, bits, _ := strings.Cut(s, "/")
		if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
			return bad(s, fmt.Sprintf("%q is not the length of a range of addresses", bits), fmt.Sprintf("write a number up to %d, such as %s/%d in a deny rule, or the address alone", a.BitLen(), a, a.BitLen()))
		}
		return bad(s, "it holds a path, and a rule is one host", fmt.Sprintf("write the bare host: %q", host))
	case strings.ContainsAny(s, `?#\`):
		return bad(s, "it is not a host name", "write a host such as example.com")
	case strings.Contains(s, "%"):
		return bad(s, "it holds a percent sign: neither zones nor escapes are part of a host", "write the plain host or address")
	}
	return nil
}

// isRange reports whether s is a range of addresses, with or without a port.
func isRange(s string) bool {
	_, err := netip.ParsePrefix(s)
	if i := strings.LastIndexByte(s, ':'); i >= 0 && err != nil {
		_, err = netip.ParsePrefix(s[:i])
	}
	return err == nil
}

// splitPort takes the port off; no port is 0. IPv6 addresses without brackets
// never come here whole.
func splitPort(s string) (host string, port uint16, err error) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", 0, bad(s, "its bracket is not closed", "write [2606:4700::1111]:443")
		}
		if end == len(s)-1 {
			return s, 0, nil
		}
		if s[end+1] != ':' {
			return "", 0, bad(s, "something other than a port follows the bracket", "write [2606:4700::1111]:443")
		}
		port, err = parsePort(s, s[end+2:])
		return s[:end+1], port, err
	}
	switch strings.Count(s, ":") {
	case 0:
		return s, 0, nil
	case 1:
		host, digits, _ := strings.Cut(s, ":")
		port, err = parsePort(s, digits)
		return host, port, err
	}
	return "", 0, bad(s, "it has several colons and is not an IPv6 address", "write host:port; a deny rule for an IPv6 address has brackets: [2606:4700::1111]:443")
}

func parsePort(s, digits string) (uint16, error) {
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] < '1' || digits[0] > '9' {
		return 0, bad(s, fmt.Sprintf("its port %q is not a number from 1 to 65535", digits), "write host:443, or leave the port out for 80 and 443")
	}
	return uint16(n), nil
}

func bracketRule(s, inner string, port uint16, private bool) (Rule, error) {
	a, err := netip.ParseAddr(inner)
	if err != nil || !a.Is6() {
		return Rule{}, bad(s, "brackets are for IPv6 addresses alone", "write host:port without brackets")
	}
	return addressRule(s, a, port, private)
}

func addressRule(s string, a netip.Addr, port uint16, private bool) (Rule, error) {
	c := Classify(a)
	if c == ClassLoopback {
		return Rule{}, bad(s, fmt.Sprintf("%s is %s, and no sandbox reaches those", a, c), hostServiceHint(port))
	}
	if c.Special() && (!private || !c.nameable()) {
		if !c.nameable() || a.Is6() {
			return Rule{}, bad(s, fmt.Sprintf("%s is %s, and no sandbox reaches those", a, c), "leave the rule out, or name a public host")
		}
		ports := ""
		if port != 0 {
			ports = fmt.Sprintf(", ports: [%d]", port)
		}
		return Rule{}, bad(s, fmt.Sprintf("%s is %s, which its number alone does not open", a, c),
			fmt.Sprintf("write it into a policy file with its addresses: {host: %s%s, addresses: [%s]}", a, ports, a))
	}
	return Rule{Host: "", Wildcard: false, Addr: a, Port: port}, nil
}

func nameRule(s, host string, port uint16) (Rule, error) {
	base, wildcard := strings.CutPrefix(host, "*.")
	switch {
	case host == "":
		return Rule{}, bad(s, "it has no host", "name a host, such as example.com")
	case strings.Contains(base, "*") && isOfNumbers(base):
		return Rule{}, bad(s, "it is no way to write a range of addresses", rangeHint)
	case strings.Contains(base, "*"):
		return Rule{}, bad(s, "a star may only stand for everything below a host", "write *.example.com, or name the hosts one by one")
	}
	name, err := OperatorName(base)
	if err != nil && strings.Contains(base, "-") && isOfNumbers(base) {
		return Rule{}, bad(s, err.Error(), rangeHint)
	}
	if err != nil {
		return Rule{}, bad(s, err.Error(), "write a host such as example.com, or an IP address in its usual form")
	}
	if IsLocalhost(name) {
		return Rule{}, bad(s, "it names this machine's own services, and no sandbox reaches those by that name", hostServiceHint(port))
	}
	if !strings.Contains(name, ".") && !wildcard {
		return Rule{}, bad(s, "a host has a dot in it", "write the whole name, such as github.com")
	}
	return Rule{Host: name, Wildcard: wildcard, Addr: netip.Addr{}, Port: port}, nil
}

// hostServiceHint says how a service of this machine is reached.
func hostServiceHint(port uint16) string {
	p := "PORT"
	if port != 0 {
		p = strconv.Itoa(int(port))
	}
	return fmt.Sprintf("--host-service %s (in a file: host-service: %s) has one port of this machine in reach, at host.bailey.internal:%s; or run the service inside the sandbox", p, p, p)
}

// rangeHint is for those who write a range in another way than the rules do.
const rangeHint = "a deny rule takes a range such as 203.0.113.0/24, an allow rule one host or address"

// isOfNumbers reports whether a host is made of what addresses and ranges of
// them are written with.
func isOfNumbers(host string) bool { return strings.Trim(host, "0123456789.-*") == "" }

// OperatorName maps a name that a person wrote to its wire form. Only here is
// IDNA applied, never to what a sandbox says; and what comes out is judged
// again, since the mapping can produce an address or a dot (CVE-2026-39821:
// idna returns a usable string together with an error, so the error decides).
//
// A name whose last label begins with a digit is refused: no top-level domain
// does (RFC 3696 §2), and what is written so is meant for addresses, such as
// 203.0.113.5-9. As a deny rule it would deny nothing.
func OperatorName(s string) (string, error) {
	name, err := wireName(s)
	if err != nil {
		return "", err
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; '0' <= last[0] && last[0] <= '9' {
		return "", fmt.Errorf("%w: %q ends in %q, and no domain begins with a digit", ErrNotHostname, s, last)
	}
	return name, nil
}

func wireName(s string) (string, error) {
	if isPlainASCII(s) && !strings.Contains(lowerASCII(s), "xn--") {
		return NormalizeName(s)
	}
	for label := range strings.SplitSeq(lowerASCII(s), ".") {
		if strings.HasPrefix(label, "xn--") && !isPlainASCII(label) {
			return "", fmt.Errorf("%w: the label %q is half punycode", ErrNotHostname, label) // idna repairs it silently
		}
	}
	mapped, err := idna.Lookup.ToASCII(s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotHostname, err)
	}
	if again, err := idna.Lookup.ToASCII(mapped); err != nil || again != mapped {
		return "", fmt.Errorf("%w: %q has no stable punycode form", ErrNotHostname, s) // such as invalid UTF-8
	}
	return NormalizeName(mapped)
}

func isPlainASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func bad(rule, problem, hint string) error {
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("network rule %q: %s", rule, problem), hint)
}
