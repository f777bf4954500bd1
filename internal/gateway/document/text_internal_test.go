package document

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzText holds what is done here for the usual texts to what jsontext does
// for all.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"", "plain", "a \"quoted\" \\ line\n\twith\r\b\f/", "\x00\x01\x1b[0m\x7f", "grüße, 世界 \U0001f600", "\xff\xfe", "\u2028\u2029", "<&>", "\ufffd",
	} {
		f.Add(s)
	}
	f.Add(`\u001b\u00e9\u4e16\ud83d\ude00\/`)
	f.Fuzz(func(t *testing.T, s string) {
		want, _ := jsontext.AppendQuote(nil, s)
		if got := appendString(nil, s); string(got) != string(want) {
			t.Errorf("%q is written as %s, want %s", s, got, want)
		}
		for _, literal := range []jsontext.Value{want, jsontext.Value(`"` + s + `"`)} {
			if !literal.IsValid() || literal.Kind() != '"' {
				continue
			}
			want, err := jsontext.AppendUnquote([]byte("x"), literal)
			got, err2 := appendUnquoted([]byte("x"), literal)
			if (err == nil) != (err2 == nil) || err == nil && string(got) != string(want) {
				t.Errorf("%s is read as %q (%v), want %q (%v)", literal, got, err2, want, err)
			}
		}
	})
}
