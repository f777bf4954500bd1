package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"time"
)

// MaxLife bounds how long a root, and every leaf of it, is valid.
const MaxLife = 7 * 24 * time.Hour

// skew is how long before its making a root is valid: clocks inside a sandbox
// are the machine's, those of virtual machines step.
const skew = time.Hour

// MaxScope is how many names and addresses a root names; one for more hosts is
// not constrained to any.
const MaxScope = 256

// Scope is what a root may speak for: names with all below them, and single
// addresses. The zero Scope is nothing, Everything apart.
type Scope struct {
	Names      []string // normalised
	Addrs      []netip.Addr
	Everything bool // no constraint: there are too many hosts to name
}

// NewScope returns a Scope for some names and addresses.
func NewScope(names []string, addrs []netip.Addr) Scope {
	if len(names)+len(addrs) > MaxScope {
		return Scope{Names: nil, Addrs: nil, Everything: true}
	}
	return Scope{Names: names, Addrs: addrs, Everything: false}
}

// Root is a certificate authority of one sandbox. It is not changed after it
// was made, and safe for concurrent use.
type Root struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewRoot makes the root of a sandbox, valid until life after now. Its scope
// stands in it as name constraints (RFC 5280 §4.2.1.10), and no authority can
// be made below it.
func NewRoot(sandbox string, scope Scope, now time.Time, life time.Duration) (*Root, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of root: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{organization}, CommonName: CommonName(sandbox)},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(min(life, MaxLife)),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	scope.constrain(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign root: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read root back: %w", err)
	}
	return &Root{cert, key}, nil
}

const organization = "bailey"

// CommonName is the name that the root of a sandbox has, at most 64 bytes
// (RFC 5280, ub-common-name).
func CommonName(sandbox string) string {
	const most = 64
	name := "bailey root of sandbox " + sandbox
	return name[:min(len(name), most)]
}

// constrain writes the scope into a certificate: what is of a kind that has no
// name in it is excluded, since a kind that a certificate does not speak of is
// free.
func (s Scope) constrain(c *x509.Certificate) {
	if s.Everything {
		return
	}
	c.PermittedDNSDomainsCritical = true
	c.PermittedDNSDomains = s.Names
	if len(s.Names) == 0 {
		c.ExcludedDNSDomains = []string{""} // every name
	}
	for _, a := range s.Addrs {
		bits := a.BitLen()
		c.PermittedIPRanges = append(c.PermittedIPRanges, &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, bits)})
	}
	if len(s.Addrs) == 0 {
		c.ExcludedIPRanges = []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 8*net.IPv4len)},
			{IP: net.IPv6zero, Mask: net.CIDRMask(0, 8*net.IPv6len)},
		}
	}
}

// Speaks reports whether the root may speak for a host: a normalised name, or
// an address as text.
func (r *Root) Speaks(host string) bool {
	c := r.cert
	if !c.PermittedDNSDomainsCritical {
		return true
	}
	if a, err := netip.ParseAddr(host); err == nil {
		for _, n := range c.PermittedIPRanges {
			if n.Contains(a.AsSlice()) {
				return true
			}
		}
		return false
	}
	for _, name := range c.PermittedDNSDomains {
		if host == name || strings.HasSuffix(host, "."+name) {
			return true
		}
	}
	return false
}

// DER returns the certificate, which is public.
func (r *Root) DER() []byte { return r.cert.Raw }

// PEM returns the certificate as text.
func (r *Root) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: nil, Bytes: r.cert.Raw})
}

// Sealed is a Root on its way from one process to another, through a pipe and
// nothing else: Key is its private key.
type Sealed struct {
	Cert []byte `json:"cert"` // DER
	Key  []byte `json:"key"`  // SEC 1
}

// String keeps the key from being printed.
func (Sealed) String() string { return "(a private root)" }

// GoString keeps %#v from printing the key.
func (s Sealed) GoString() string { return s.String() }

// Seal returns the root in the form for Open.
func (r *Root) Seal() (*Sealed, error) {
	key, err := x509.MarshalECPrivateKey(r.key)
	if err != nil {
		return nil, fmt.Errorf("write key of root: %w", err)
	}
	return &Sealed{r.cert.Raw, key}, nil
}

// Open returns the root that was sealed.
func (s *Sealed) Open() (*Root, error) {
	cert, err := x509.ParseCertificate(s.Cert)
	if err != nil {
		return nil, fmt.Errorf("read root: %w", err)
	}
	key, err := x509.ParseECPrivateKey(s.Key)
	if err != nil {
		return nil, errors.New("read root: its key cannot be read") // the error could quote it
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("read root: the key is another one's")
	}
	return &Root{cert, key}, nil
}

func newSerial() (*big.Int, error) {
	const bits = 127 // positive, and within the 20 octets of RFC 5280 §4.1.2.2
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return n, nil
}
