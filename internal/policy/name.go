package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Limits of a host name in its text form without the final dot (RFC 1035 §2.3.4).
const (
	maxName  = 253
	maxLabel = 63
)

// ErrNoAddress says that a name has no IPv4 address, as opposed to nobody
// having answered.
var ErrNoAddress = errors.New("no such host")

// ErrManyNames says that a name is not looked up, since a sandbox asked for too
// many different ones.
var ErrManyNames = errors.New("too many different names in a short time")

// ErrNotHostname is in the chain of every error of NormalizeName.
var ErrNotHostname = errors.New("not a host name")

// NormalizeName brings a name that came over the wire (DNS question, SNI,
// Host) into the one form that rules are compared in: lower-case ASCII
// letters, digits and inner hyphens, labels of 1 to 63 bytes, 253 bytes in
// all, no final dot (one is taken off).
//
// It refuses everything else instead of repairing it, so that no two parties
// can read two names out of one: non-ASCII (a wire name is already punycode;
// mapping it here would turn full-width digits into an address), control
// bytes, ports, brackets, wildcards, IP literals and any name whose last
// label is a number, which some resolvers read as an IPv4 address (WHATWG URL
// "ends in a number"). The underscore is refused too: no host name has one
// (RFC 952, RFC 1123 §2.1), only service records that are never served here.
//
// Every error has ErrNotHostname in its chain and quotes the input safely.
func NormalizeName(wire string) (string, error) {
	name := strings.TrimSuffix(wire, ".")
	switch {
	case name == "":
		return "", fmt.Errorf("%w: the name is empty", ErrNotHostname)
	case len(name) > maxName:
		return "", fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrNotHostname, len(name), maxName)
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return "", fmt.Errorf("%w: %q is an IP address", ErrNotHostname, name)
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return "", fmt.Errorf("%w: %q: %w", ErrNotHostname, name, err)
		}
		last = label
	}
	if isNumber(last) {
		return "", fmt.Errorf("%w: %q ends in a number and could be read as an IP address", ErrNotHostname, name)
	}
	return lowerASCII(name), nil
}

// IsLocalhost reports whether a normalised name is for the machine's own
// loopback wherever it is asked for (RFC 6761 §6.3).
func IsLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// IsMetadata reports whether a normalised name is that of a cloud's metadata
// service, which lies at a link-local address and hands out keys. A rule may
// name it, and opens nothing by that.
func IsMetadata(name string) bool {
	switch name {
	case "metadata.google.internal", "metadata.goog", "instance-data.ec2.internal", "metadata.tencentyun.com":
		return true
	}
	return false
}

func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("a label is empty")
	case len(label) > maxLabel:
		return fmt.Errorf("a label has %d bytes, at most %d are allowed", len(label), maxLabel)
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("a label begins or ends with a hyphen")
	}
	for i := range len(label) {
		if c := label[i]; !isAlnum(c) && c != '-' {
			return fmt.Errorf("byte %q is not a letter, digit or hyphen", c)
		}
	}
	return nil
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isNumber reports whether a label reads as a decimal, octal or hexadecimal
// number (WHATWG URL standard, "ends-in-a-number checker").
func isNumber(label string) bool {
	hex := len(label) >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X')
	if hex {
		return strings.Trim(label[2:], "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// lowerASCII is strings.ToLower without its Unicode folding, which would turn
// the Kelvin sign into a k.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
