package secret_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/secret"
)

// samples are values in the forms of well-known tokens, with letters and digits
// made up.
func samples() map[string]string {
	return map[string]string{
		"ghp_":          "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
		"github_pat_":   "github_pat_" + "11ABCDEFG0abcdefghijkl_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8c9D",
		"glpat-":        "glpat-" + "x9Yz8W7v6U5t4S3r2Q1p",
		"sk-proj-":      "sk-proj-" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1f",
		"sk-ant-api03-": "sk-ant-api03-" + "aB3-dE5_fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1fAA",
		"AIza":          "AIza" + "SyA0b1C2d3E4f5G6h7I8j9K0l1M2n3O4p5Q",
		"npm_":          "npm_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
		"pypi-":         "pypi-" + "AgEIcHlwaS5vcmcCJGE1YjZjN2Q4LWU5ZjAtMTIzNC01Njc4",
		"hf_":           "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
		"xoxb-":         "xoxb-" + "123456789012-1234567890123-a1B2c3D4e5F6g7H8i9J0k1L2",
		"sk_live_":      "sk_live_" + "a1B2c3D4e5F6g7H8i9J0k1L2",
		"SG.":           "SG." + "a1B2c3D4e5F6g7H8i9J0k1" + "." + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V",
		"dop_v1_":       "dop_v1_" + "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
		"":              "0123456789abcdef0123456789abcdef01234567",
	}
}

func class(c byte) string {
	switch {
	case c >= '0' && c <= '9':
		return "digit"
	case c >= 'a' && c <= 'z':
		return "lower"
	case c >= 'A' && c <= 'Z':
		return "upper"
	}
	return string(rune(c))
}

// classes maps a value to its shape, hexadecimal digits being one class.
func classes(s, hex string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(hex, s[i]) >= 0 {
			b.WriteString("h")
		} else {
			b.WriteString(class(s[i])[:1])
		}
	}
	return b.String()
}

func TestNewPlaceholder_HasTheShapeOfTheValue(t *testing.T) {
	t.Parallel()
	for prefix, value := range samples() {
		hex := ""
		if prefix == "" || prefix == "dop_v1_" {
			hex = "0123456789abcdef"
		}
		got := secret.NewPlaceholder([]byte(value), 0)
		if len(got) != len(value) {
			t.Errorf("%s: %d bytes for %d: %s", prefix, len(got), len(value), got)
		}
		if !strings.HasPrefix(got, prefix) {
			t.Errorf("%s: %s", prefix, got)
		}
		few := prefix == "glpat-" || prefix == "sk_live_" // kinds are mixed, for 100 bits
		if a, b := classes(value[len(prefix):], hex), classes(got[len(prefix):], hex); a != b && !few {
			t.Errorf("%s: the classes of %s are\n%s, those of the value\n%s", prefix, got, b, a)
		}
		if got == value || strings.Contains(got, value[len(prefix):]) {
			t.Errorf("%s: the placeholder has the value in it", prefix)
		}
		if again := secret.NewPlaceholder([]byte(value), 0); again == got {
			t.Errorf("%s: the same twice", prefix)
		}
	}
}

func TestNewPlaceholder_KeepsForms(t *testing.T) {
	t.Parallel()
	const (
		lower = "0123456789abcdef"
		upper = "0123456789ABCDEF"
	)
	for _, c := range []struct{ value, hex, want string }{
		{"0f1e2d3c4b5a69788796a5b4c3d2e1f0", lower, strings.Repeat("h", 32)},
		{"0F1E2D3C4B5A69788796A5B4C3D2E1F0", upper, strings.Repeat("h", 32)},
		{"12345678901234567890123456789012345", "", strings.Repeat("d", 35)}, // of digits alone
		{"3f2a8c1e-1234-4abc-9def-0123456789ab", lower, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"},
		{"abcdefghijk.lmnopqrstuv.wxyzabcdefg", "", "lllllllllll.lllllllllll.lllllllllll"},
		{"user:0f1e2d3c4b5a69788796a5b4c3d2e1f0==", lower + "", "llll:" + "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh=="},
	} {
		for range 50 {
			got := secret.NewPlaceholder([]byte(c.value), -1)
			have := classes(got, c.hex)
			if strings.HasPrefix(c.value, "user:") { // its letters may be hexadecimal digits by chance
				have = "llll" + have[4:]
			}
			if have != c.want {
				t.Fatalf("%s gave %s: %s, want %s", c.value, got, have, c.want)
			}
		}
	}
}

func TestNewPlaceholder_AUUIDStaysOne(t *testing.T) {
	t.Parallel()
	for range 200 {
		got := secret.NewPlaceholder([]byte("3f2a8c1e-1234-4abc-9def-0123456789ab"), 0)
		if got[14] != '4' || !strings.Contains("89ab", got[19:20]) {
			t.Fatalf("%s is no UUID of version 4", got)
		}
	}
}

// TestNewPlaceholder_ShowsNothingOfAPassword: of a token, separators are its
// form; of a short password they are a good part of it.
func TestNewPlaceholder_ShowsNothingOfAPassword(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"p@ss!w0rd#", "a!@#$%^&*(b", "correct horse"} {
		if got := secret.NewPlaceholder([]byte(value), -1); strings.ContainsAny(got, "!@#$%^&*( ") {
			t.Errorf("%s: %s", value, got)
		}
	}
	if got := secret.NewPlaceholder([]byte("correct horse, battery: staple"), -1); classes(got, "") != "lllllll lllll, lllllll: llllll" {
		t.Error(got)
	}
}

func TestNewPlaceholder_ShortOrGuessableGetsLonger(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{
		"":                       20,
		"x":                      20,
		"hunter2":                20,
		"----------":             20,     // separators alone are the secret
		"a1B2c3D4e5F6g7H8i9":     18 + 2, // 18 of 62 are 107 bits
		"1234567890123456789012": 27,     // 22 digits are 73 bits
		"abcdefghijklmnopqrstu":  22,     // 21 letters are 98.7
		"abcdefghijklmnopqrstuv": 22,     // 22 are 103.4: no longer than the value
	} {
		got := secret.NewPlaceholder([]byte(value), -1)
		if len(got) != want {
			t.Errorf("%q: %d bytes, want %d: %s", value, len(got), want, got)
		}
	}
}

func TestNewPlaceholder_KeepsWhatItIsTold(t *testing.T) {
	t.Parallel()
	value := []byte("acme!live_a1B2c3D4e5F6g7H8i9J0k1L2m3N4")
	for keep, want := range map[int]string{10: "acme!live_", 4: "acme", 1000: string(value[:len(value)/2])} {
		if got := secret.NewPlaceholder(value, keep); !strings.HasPrefix(got, want) || got[len(want):] == string(value[len(want):]) {
			t.Errorf("keep %d: %s", keep, got)
		}
	}
	none := 0
	for range 20 {
		if strings.HasPrefix(secret.NewPlaceholder([]byte(samples()["ghp_"]), -1), "ghp_") {
			none++
		}
	}
	if none == 20 {
		t.Error("a negative keep keeps the known prefix")
	}
	if got := secret.NewPlaceholder([]byte("github_pat_abcdefgh"), 0); strings.Contains(got, "abcdefgh") {
		t.Errorf("a prefix that is most of the value: %s", got)
	}
}

// TestNewPlaceholder_IsUniform draws many and counts what stands at each place.
// A fair place of n characters is off by more than six standard deviations once
// in 500 million times.
func TestNewPlaceholder_IsUniform(t *testing.T) {
	t.Parallel()
	const draws = 20_000
	value := "a0Z-0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	counts := make([]map[byte]int, len(value))
	for i := range counts {
		counts[i] = map[byte]int{}
	}
	seen := map[string]bool{}
	for range draws {
		p := secret.NewPlaceholder([]byte(value), -1)
		if seen[p] || len(p) != len(value) {
			t.Fatalf("%s: twice, or of another length", p)
		}
		seen[p] = true
		for i := range len(p) {
			counts[i][p[i]]++
		}
	}
	for i, of := range counts {
		want := map[byte]int{0: 26, 1: 10, 2: 26, 3: 1}[byte(i)]
		if i > 3 {
			want = 16
		}
		if len(of) != want {
			t.Errorf("place %d has %d characters, want %d", i, len(of), want)
			continue
		}
		p := 1 / float64(want)
		for c, n := range of {
			if off := math.Abs(float64(n) - draws*p); off > 6*math.Sqrt(draws*p*(1-p)) {
				t.Errorf("place %d: %q came %d times of %d, want about %.0f", i, c, n, draws, draws*p)
			}
		}
	}
}

func TestRecognise_TellsAndDoesNotHideOneKindBehindAnother(t *testing.T) {
	t.Parallel()
	for prefix, value := range samples() {
		if got := secret.PrefixOf([]byte(value)); got != prefix {
			t.Errorf("%s: prefix %q, want %q", value, got, prefix)
		}
	}
	list := secret.KnownPrefixes()
	for i, k := range list {
		if got, ok := secret.Recognise(k.Prefix + "x"); !ok || got != k {
			t.Errorf("%s is taken for %+v", k.Prefix, got)
		}
		for _, earlier := range list[:i] {
			if strings.HasPrefix(k.Prefix, earlier.Prefix) {
				t.Errorf("%s hides %s", earlier.Prefix, k.Prefix)
			}
		}
		if k.Template == "" {
			continue
		}
		if _, err := secret.FindTemplate(k.Template); err != nil {
			t.Error(err)
		}
	}
	for _, no := range []string{"", "g", "ghp", "password", "GHP_abc", " ghp_abc"} {
		if k, ok := secret.Recognise(no); ok {
			t.Errorf("%q is taken for %+v", no, k)
		}
	}
}

func FuzzNewPlaceholder(f *testing.F) {
	for _, value := range samples() {
		f.Add([]byte(value), 0)
	}
	f.Add([]byte("p@ss w0rd!"), -1)
	f.Add([]byte("\x00\xff"), 3)
	f.Add([]byte("ghp_ghp_"), 4)
	f.Fuzz(func(t *testing.T, value []byte, keep int) {
		before := bytes.Clone(value)
		got := secret.NewPlaceholder(value, keep)
		if !bytes.Equal(before, value) {
			t.Fatal("the value was changed")
		}
		if len(got) < 20 || len(got) < len(value) {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
			t.Fatalf("%q is not printable ASCII", got)
		}
		if len(value) > 0 && strings.Contains(got, string(value)) {
			t.Fatalf("%q holds the value", got)
		}
		shared := 0
		for shared < len(value) && got[shared] == value[shared] {
			shared++
		}
		if len(value) > 40 && bytes.ContainsAny(value[:1], "abcdefghijklmnopqrstuvwxyz") && keep < 0 && shared == len(value) {
			t.Fatalf("%q keeps all of the value", got)
		}
	})
}
