package policy_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/bailey-dev/bailey/internal/policy"
)

func TestClassify_Table(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]policy.Class{
		"8.8.8.8": policy.ClassPublic, "11.0.0.10": policy.ClassPublic, "1.1.1.1": policy.ClassPublic,
		"9.255.255.255": policy.ClassPublic, "11.0.0.0": policy.ClassPublic, "100.63.255.255": policy.ClassPublic,
		"100.128.0.0": policy.ClassPublic, "172.15.255.255": policy.ClassPublic, "172.32.0.0": policy.ClassPublic,
		"192.0.1.0": policy.ClassPublic, "198.17.255.255": policy.ClassPublic, "198.20.0.0": policy.ClassPublic,
		"223.255.255.255": policy.ClassPublic, "2606:4700:4700::1111": policy.ClassPublic, "2600:11::10": policy.ClassPublic,
		"2001:200::": policy.ClassPublic, "2003::1": policy.ClassPublic, "3ffe::1": policy.ClassPublic,

		"0.0.0.0": policy.ClassThisNetwork, "0.255.255.255": policy.ClassThisNetwork, "::": policy.ClassThisNetwork, // A061
		"127.0.0.1": policy.ClassLoopback, "127.255.255.255": policy.ClassLoopback, "::1": policy.ClassLoopback,
		"10.0.0.0": policy.ClassPrivate, "10.255.255.255": policy.ClassPrivate, "172.16.0.0": policy.ClassPrivate,
		"172.31.255.255": policy.ClassPrivate, "192.168.255.255": policy.ClassPrivate, "fc00::": policy.ClassPrivate, "fd12::1": policy.ClassPrivate,
		"100.64.0.0": policy.ClassShared, "100.127.255.255": policy.ClassShared,
		"169.254.169.254": policy.ClassLinkLocal, "fe80::1": policy.ClassLinkLocal, "febf::1": policy.ClassLinkLocal,
		"fec0::1": policy.ClassSiteLocal, "224.0.0.251": policy.ClassMulticast, "239.255.255.250": policy.ClassMulticast, "ff02::1": policy.ClassMulticast,
		"255.255.255.255": policy.ClassBroadcast, "240.0.0.1": policy.ClassReserved, "4000::1": policy.ClassReserved, "1::1": policy.ClassReserved,
		"192.0.0.1": policy.ClassProtocol, "192.0.0.170": policy.ClassProtocol, "192.31.196.1": policy.ClassProtocol, "192.52.193.1": policy.ClassProtocol,
		"192.88.99.1": policy.ClassProtocol, "192.175.48.1": policy.ClassProtocol, "2001:1::1": policy.ClassProtocol, "2001:3::1": policy.ClassProtocol,
		"2001:4:112::1": policy.ClassProtocol, "2001:20::1": policy.ClassProtocol, "2001:30::1": policy.ClassProtocol, "100::1": policy.ClassProtocol,
		"100:0:0:1::1": policy.ClassProtocol, "5f00::1": policy.ClassProtocol, "2620:4f:8000::1": policy.ClassProtocol,
		"198.18.0.0": policy.ClassBenchmarking, "198.19.255.255": policy.ClassBenchmarking, "2001:2::1": policy.ClassBenchmarking,
		"192.0.2.1": policy.ClassDocumentation, "198.51.100.1": policy.ClassDocumentation, "203.0.113.255": policy.ClassDocumentation,
		// What clouds answer their own machines on.
		"168.63.129.16": policy.ClassCloud, "100.100.100.199": policy.ClassShared, "fd20:ce::255": policy.ClassPrivate, "168.63.129.15": policy.ClassPublic, "168.63.129.17": policy.ClassPublic,
		"100.100.100.200": policy.ClassCloud, "192.0.0.192": policy.ClassProtocol, "169.254.170.2": policy.ClassLinkLocal,
		"fd00:ec2::254": policy.ClassCloud, "fd20:ce::254": policy.ClassCloud, "fd00:42::42": policy.ClassPrivate,

		"2001:db8::1": policy.ClassDocumentation, "3fff:fff::1": policy.ClassDocumentation,

		"::ffff:127.0.0.1": policy.ClassLoopback, "::ffff:a9fe:a9fe": policy.ClassLinkLocal, "::ffff:8.8.8.8": policy.ClassTranslated, // A052
		"::ffff:10.0.0.1": policy.ClassTranslated, "::ffff:100.64.0.1": policy.ClassTranslated, "::ffff:168.63.129.16": policy.ClassCloud,
		"::127.0.0.1": policy.ClassTranslated, "::ffff:0:7f00:1": policy.ClassTranslated, // A053
		"64:ff9b::a9fe:a9fe": policy.ClassTranslated, "64:ff9b::7f00:1": policy.ClassTranslated, "64:ff9b::808:808": policy.ClassTranslated, // A054
		"64:ff9b:1::7f00:1": policy.ClassTranslated,
		"2002:7f00:1::":     policy.ClassTranslated, "2002:a9fe:a9fe::": policy.ClassTranslated, // A057
		"2001:0:4136:e378:8000:63bf:5601:5601": policy.ClassTranslated,                                                                    // A058
		"fe80::1%eth0":                         policy.ClassInvalid, "::1%lo": policy.ClassInvalid, "2606:4700::1%x": policy.ClassInvalid, // A062
	} {
		if got := policy.Classify(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Classify(%s) = %v, want %v", addr, got, want)
		}
	}
	if got := policy.Classify(netip.Addr{}); got != policy.ClassInvalid {
		t.Errorf("Classify of the zero address = %v", got)
	}
	if !policy.Class(0).Special() || !policy.Class(200).Special() || policy.Class(200).String() != "an invalid address" {
		t.Error("an unknown class is not special")
	}
}

// Every address that the oracle refuses is special here too, and nothing
// public to the oracle is special here but what this test names.
func TestClassify_AgreesWithOracle(t *testing.T) {
	t.Parallel()
	refusedBy := func(a netip.Addr) bool {
		for _, p := range append(ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes...) {
			if p.Contains(a) {
				return true
			}
		}
		return a.Is6() && !ssrf.IPv6GlobalUnicast.Contains(a)
	}
	check := func(a netip.Addr) {
		if got, want := policy.Classify(a).Special(), refusedBy(a); got != want {
			t.Fatalf("Classify(%s) special = %v, the oracle says %v", a, got, want)
		}
	}
	for _, p := range append(ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes...) {
		first, last := p.Masked().Addr(), lastOf(p)
		for _, a := range []netip.Addr{first, last, first.Prev(), last.Next()} {
			if a.IsValid() {
				check(a)
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		v := rng.Uint32()
		check(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}))
		var b [16]byte
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if a := netip.AddrFrom16(b); !a.Is4In6() {
			check(a)
		}
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
