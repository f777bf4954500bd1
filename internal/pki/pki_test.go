package pki_test

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/pki"
)

func newRoot(t *testing.T, scope pki.Scope) *pki.Root {
	t.Helper()
	r, err := pki.NewRoot("box", scope, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func leaf(t *testing.T, r *pki.Root, host string) *x509.Certificate {
	t.Helper()
	l, err := pki.NewLeaves(r)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.For(host)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

func verify(t *testing.T, r *pki.Root, host string, at time.Time) error {
	t.Helper()
	cert, err := x509.ParseCertificate(r.DER())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	_, err = leaf(t, r, host).Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: at})
	return err
}

// A169: what a root signs is worth nothing for another host, nor later.
func TestRoot_SpeaksForItsHostsAlone(t *testing.T) {
	t.Parallel()
	r := newRoot(t, pki.NewScope([]string{"allow.test", "wild.test"}, []netip.Addr{netip.MustParseAddr("11.0.0.10")}))
	for host, good := range map[string]bool{
		"allow.test": true, "a.wild.test": true, "11.0.0.10": true,
		"evil.test": false, "evilallow.test": false, "11.0.0.11": false, "2600:11::10": false,
	} {
		if err := verify(t, r, host, time.Now()); (err == nil) != good {
			t.Errorf("A169, %s: %v", host, err)
		}
		if r.Speaks(host) != good {
			t.Errorf("Speaks(%s) is %v", host, !good)
		}
	}
	for _, at := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		if verify(t, r, "allow.test", time.Now().Add(at)) == nil {
			t.Errorf("it is valid in %v", at)
		}
	}
	names := newRoot(t, pki.NewScope([]string{"allow.test"}, nil))
	addrs := newRoot(t, pki.NewScope(nil, []netip.Addr{netip.MustParseAddr("2600:11::10")}))
	if verify(t, names, "11.0.0.10", time.Now()) == nil || verify(t, addrs, "allow.test", time.Now()) == nil || names.Speaks("11.0.0.10") || addrs.Speaks("allow.test") {
		t.Error("a kind of which nothing is named is free")
	}
	if err := verify(t, addrs, "2600:11::10", time.Now()); err != nil {
		t.Error(err)
	}
	many := newRoot(t, pki.NewScope(make([]string, pki.MaxScope+1), nil))
	if err := verify(t, many, "any.test", time.Now()); err != nil || !many.Speaks("any.test") {
		t.Errorf("a root for many hosts: %v", err)
	}
}

func TestRoot_IsShortLivedAndHasNoAuthorityBelow(t *testing.T) {
	t.Parallel()
	long, err := pki.NewRoot(strings.Repeat("x", 200), pki.NewScope([]string{"a.test"}, nil), time.Now(), 1000*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(long.DER())
	if err != nil {
		t.Fatal(err)
	}
	if c.NotAfter.After(time.Now().Add(pki.MaxLife)) || !c.IsCA || c.MaxPathLen != 0 || !c.MaxPathLenZero || len(c.Subject.CommonName) > 64 {
		t.Errorf("until %v, CA %v, path %d, %s", c.NotAfter, c.IsCA, c.MaxPathLen, c.Subject.CommonName)
	}
	got := leaf(t, long, "a.test")
	if len(got.DNSNames) != 1 || got.DNSNames[0] != "a.test" || len(got.IPAddresses) != 0 || got.IsCA || len(got.AuthorityKeyId) == 0 {
		t.Errorf("names %v %v, CA %v", got.DNSNames, got.IPAddresses, got.IsCA)
	}
}

func TestLeaves_AreKeptWithinABound(t *testing.T) {
	t.Parallel()
	l, err := pki.NewLeaves(newRoot(t, pki.NewScope([]string{"a.test"}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	first, _ := l.For("a.test")
	if again, _ := l.For("a.test"); again != first {
		t.Error("the same host has two leaves")
	}
	for i := range 2 * pki.MaxLeaves {
		if _, err := l.For(fmt.Sprintf("%d.a.test", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Kept(); n > pki.MaxLeaves {
		t.Errorf("%d are kept", n)
	}
}

func TestSealed_IsReadBack(t *testing.T) {
	t.Parallel()
	r := newRoot(t, pki.NewScope([]string{"a.test"}, nil))
	s, err := r.Seal()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(*s), fmt.Sprintf("%v %+v %#v", s, *s, *s)} {
		if len(text) > 100 {
			t.Errorf("it prints its key: %s", text)
		}
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var got pki.Sealed
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	back, err := got.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t, back, "a.test", time.Now()); err != nil {
		t.Error(err)
	}
	other, _ := newRoot(t, pki.NewScope(nil, nil)).Seal()
	got.Key = other.Key
	if _, err := got.Open(); err == nil {
		t.Error("a root with another one's key opens")
	}
	got.Key = nil
	if _, err := got.Open(); err == nil {
		t.Error("a root without a key opens")
	}
}
