package secret_test

import (
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/secret"
)

func TestNewID_IsValidAndNew(t *testing.T) {
	t.Parallel()
	seen := map[secret.ID]bool{}
	for range 100 {
		id := secret.NewID()
		if !id.Valid() || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
	for _, bad := range []secret.ID{"", "sec_", "sec_0123456789abcde", "sec_0123456789abcdef0", "sec_0123456789abcdeF", "sbx_0123456789abcdef", " sec_0123456789abcdef"} {
		if bad.Valid() {
			t.Errorf("%q is valid", bad)
		}
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "1", "github", "ci-token", "a.b_c-d", "0x", strings.Repeat("a", 64)} {
		if err := secret.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "A", "-a", "a-", ".a", "a.", "_a", "a_", "a b", "a/b", "..", "\u00e4", "a\n", "a\x00", "ghp_Canary", strings.Repeat("a", 65)} {
		err := secret.CheckName(bad)
		if bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
		if len(bad) > 3 && strings.Contains(err.Error(), bad) { // it may be a value
			t.Errorf("%q is repeated: %v", bad, err)
		}
	}
}

// TestVariable_OfEveryNameIsOne.
func TestVariable_OfEveryNameIsOne(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"github": "GITHUB", "ci-token.v2_x": "CI_TOKEN_V2_X", "2fa": "_2FA", strings.Repeat("9", 64): "_" + strings.Repeat("9", 64)} {
		got := secret.Variable(name)
		if err := secret.CheckVariable(got); got != want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "1A", "A-B", "A B", "A=B", "\u00c4", "A\x00", strings.Repeat("A", 129)} {
		if err := secret.CheckVariable(bad); bailey.KindOf(err) != bailey.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
