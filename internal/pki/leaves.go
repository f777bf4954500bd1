package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// maxLeaves is how many leaves are kept: below a wildcard a sandbox can ask for
// any number of names.
const maxLeaves = 1024

// Leaves mints the leaf certificates of a root and keeps some of them. It is
// safe for concurrent use. All leaves have one key, which never leaves it.
type Leaves struct {
	root *Root
	key  *ecdsa.PrivateKey

	mu   sync.Mutex
	kept map[string]*tls.Certificate
}

// NewLeaves returns the leaves of a root; none is made yet.
func NewLeaves(root *Root) (*Leaves, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of leaves: %w", err)
	}
	return &Leaves{root: root, key: key, kept: make(map[string]*tls.Certificate)}, nil
}

// Root returns whose leaves these are.
func (l *Leaves) Root() *Root { return l.root }

// For returns the certificate for one host, a normalised name or an address as
// text, which is all that stands in it.
func (l *Leaves) For(host string) (*tls.Certificate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.kept[host]; c != nil {
		return c, nil
	}
	c, err := l.mint(host)
	if err != nil {
		return nil, err
	}
	for old := range l.kept { // any one
		if len(l.kept) < maxLeaves {
			break
		}
		delete(l.kept, old)
	}
	l.kept[host] = c
	return c, nil
}

func (l *Leaves) mint(host string) (*tls.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	root := l.root.cert
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{organization}},
		NotBefore:             root.NotBefore,
		NotAfter:              root.NotAfter,
		BasicConstraintsValid: true, // and no authority
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if a, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = []net.IP{a.AsSlice()}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, root, &l.key.PublicKey, l.root.key)
	if err != nil {
		return nil, fmt.Errorf("sign leaf for %s: %w", host, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read leaf for %s back: %w", host, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, root.Raw}, PrivateKey: l.key, Leaf: leaf}, nil
}
