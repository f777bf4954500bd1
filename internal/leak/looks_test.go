package leak_test

import (
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/leak"
	"github.com/bailey-dev/bailey/internal/secret"
)

func TestLooksLike_TellsEveryKnownPrefix(t *testing.T) {
	t.Parallel()
	for _, k := range secret.KnownPrefixes() {
		value := k.Prefix + mixed36
		for _, v := range []string{value, value + "\n", " " + value, k.Prefix + "qWeRtYuIoPaSdFgHjKlZxCvBnMqWeRtYuI"} {
			if kind, ok := leak.LooksLike(v); !ok || kind != k.Kind {
				t.Errorf("%q: %q %v, want %q", v, kind, ok, k.Kind)
			}
		}
		for _, none := range []string{
			k.Prefix, k.Prefix + "short1", k.Prefix + strings.Repeat("x", 36), k.Prefix + "your-token-goes-in-here", k.Prefix + mixed36[:10] + " " + mixed36,
		} {
			if kind, ok := leak.LooksLike(none); ok {
				t.Errorf("%q is taken for a %s", none, kind)
			}
		}
	}
}

func TestLooksLike_TellsFormsWithoutAPrefix(t *testing.T) {
	t.Parallel()
	jwt := "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + mixed36
	key := "-----BEGIN OPENSSH PRIVATE KEY-----\n" + mixed36 + mixed36 + "\n-----END OPENSSH PRIVATE KEY-----\n"
	for value, want := range map[string]string{
		jwt: "JSON web token", key: "private key",
		jwt[:40]: "", strings.Replace(jwt, ".", ",", 1): "", strings.Replace(key, "PRIVATE", "PUBLIC", 2): "", "-----BEGIN PRIVATE KEY-----": "",
	} {
		if kind, _ := leak.LooksLike(value); kind != want {
			t.Errorf("%.40q: %q, want %q", value, kind, want)
		}
	}
}

func TestLooksLike_LeavesTheUsualAlone(t *testing.T) {
	t.Parallel()
	for _, v := range []string{
		"", "1", "true", "C.UTF-8", "/usr/local/bin:/usr/bin:/bin", "https://api.example.com/v1?x=1", "xterm-256color", "sk-learn", "sk-SK.UTF-8",
		"sk-spinner-with-20-circles-and-more-of-them", "npm_config_registry", "hf_hub_offline_mode", "user@example.com", "2026-11-30T16:00:00Z",
		"3f2a8c1e-1234-4abc-9def-0123456789ab", hex40, "SG.example.com",
	} {
		if kind, ok := leak.LooksLike(v); ok {
			t.Errorf("%q is taken for a %s", v, kind)
		}
	}
}
