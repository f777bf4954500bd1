package policy_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/policy"
)

func TestNormalizeName_Accepts(t *testing.T) {
	t.Parallel()
	label63 := strings.Repeat("a", 63)
	name253 := strings.Join([]string{label63, label63, label63, strings.Repeat("b", 61)}, ".")
	for in, want := range map[string]string{
		"allow.test":           "allow.test",
		"ALLOW.TEST":           "allow.test", // A013
		"AlLoW.TeSt.":          "allow.test", // A014, A090
		"a-b.c--d.test":        "a-b.c--d.test",
		"localhost":            "localhost",
		"1.a":                  "1.a",
		"3com.test":            "3com.test",
		"0x.test":              "0x.test",
		"xn--bcher-kva.test":   "xn--bcher-kva.test", // A050: punycode stays as it is
		"XN--BCHER-KVA.test":   "xn--bcher-kva.test",
		label63 + ".test":      label63 + ".test",
		name253:                name253,
		name253 + ".":          name253,
		"deadbeef":             "deadbeef",
		"a.0xg":                "a.0xg",
		"4.3.2.1.in-addr.arpa": "4.3.2.1.in-addr.arpa",
	} {
		got, err := policy.NormalizeName(in)
		if err != nil || got != want {
			t.Errorf("NormalizeName(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestNormalizeName_Refuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", ".", "..", "allow.test..", ".allow.test", "a..test", // A014, A050c
		"11.0.0.10", "::1", "[::1]", "fe80::1%eth0", "1.2.3.4.", // A009, A062
		"allow.test:443", " allow.test", "allow.test ", "*.allow.test", "evil.test/allow.test", // A010
		"evil.test\x00.allow.test", "evil.test%00.allow.test", "%2e", "a\tb.test", "a\nb.test", // A034, A089
		`evil\.allow.test`, "user@allow.test", "a,b.test", "a\xff.test", "a\x7f.test",
		"bücher.test", "ａllow.test", "allow。test", "al\u00adlow.test", "al\u200dlow.test", // A050
		"ſ.test", "\u212a.test", "①②⑦.⓪.⓪.①", "аllow.test", "xn--が-.test",
		"xn--allow-.test", "XN--ALLOW-.test", // A050b
		strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 126) + "ab", // A050c
		"_dmarc.allow.test", "a_b.test", "-a.test", "a-.test", "a.-b.test",
		"1.1", "0x7f.1", "2130706433", "017700000001", "0177.0.0.1", "127.1", "127.000.000.001", // A050e, A060
		"a.0x", "a.0x7F", "a.0X7f", "evil.1", "a.09", "::ffff:127.0.0.1",
	} {
		got, err := policy.NormalizeName(in)
		if !errors.Is(err, policy.ErrNotHostname) || got != "" {
			t.Errorf("A050c and its kin: NormalizeName(%q) = %q, %v; want an ErrNotHostname", in, got, err)
			continue
		}
		for _, c := range err.Error() {
			if c < ' ' || c > 0x7e && c < 0xa0 {
				t.Errorf("NormalizeName(%q): control byte in error %q", in, err)
			}
		}
	}
}

func FuzzNormalizeName(f *testing.F) {
	for _, s := range []string{"allow.test", "A.b.", "1.2.3.4", "a\x00.b", "xn--a-.test", "0x7f.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := policy.NormalizeName(in)
		if err != nil {
			return
		}
		if again, err := policy.NormalizeName(got); err != nil || again != got {
			t.Errorf("%q: not idempotent: %q, %v", got, again, err)
		}
		if !strings.EqualFold(strings.TrimSuffix(in, "."), got) {
			t.Errorf("%q became another name: %q", in, got)
		}
		if strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || len(got) > 253 {
			t.Errorf("%q has foreign bytes or is too long", got)
		}
		if _, err := netip.ParseAddr(got); err == nil {
			t.Errorf("%q is an address", got)
		}
	})
}
