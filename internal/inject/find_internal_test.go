package inject

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// The words of these tests: values and what covers them, with and without a
// leading part that is shared.
const (
	valueToken = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	coverToken = "ghp_ZqXwVuTsRpOnMlKjIhGfEdCbAyZxWvUtSrQp"
	valuePlain = "s3cr3t/With+signs-and_more=="
	coverPlain = "QwErTy/UiOp+asdfg-hjk_LzXc=="
	valueShort = "pa55 w0rd"
	coverShort = "Zx9Q K2mR"
)

func pairs() map[string]string {
	return map[string]string{valueToken: coverToken, valuePlain: coverPlain, valueShort: coverShort}
}

func testMatcher() *matcher {
	var f forms
	for i, v := range []string{valueToken, valuePlain, valueShort} {
		f.add(i, []byte(v), coverOf([]byte(v), pairs()[v]))
	}
	return newMatcher(f.pats)
}

// everyByte escapes all bytes of a text.
func everyByte(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func everySecond(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		if i%2 == 0 {
			fmt.Fprintf(&b, format, s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// encodings are what clients and hosts make of a word. The same one of the cover
// is what has to take its place, where it is as long.
func encodings() map[string]func(string) string {
	return map[string]func(string) string{
		"raw":             func(s string) string { return s },
		"base64 at 0":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64 at 1":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u" + s)) },
		"base64 at 2":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u:" + s)) },
		"base64 within":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte(`{"a":"` + s + `","b":1}`)) },
		"base64 url":      func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("x:" + s + ">>>")) },
		"hex":             func(s string) string { return hex.EncodeToString([]byte(s)) },
		"HEX":             func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"percent":         func(s string) string { return everyByte(s, "%%%02X") },
		"percent lower":   func(s string) string { return everyByte(s, "%%%02x") },
		"percent some":    func(s string) string { return everySecond(s, "%%%02X") },
		"percent twice":   func(s string) string { return everyByte(s, "%%25%02X") },
		"percent thrice":  func(s string) string { return everySecond(s, "%%2525%02x") },
		"JSON u":          func(s string) string { return everyByte(s, `\u%04x`) },
		"JSON u some":     func(s string) string { return everySecond(s, `\u%04X`) },
		"JSON in JSON":    func(s string) string { return everyByte(s, `\\u%04x`) },
		"x":               func(s string) string { return everyByte(s, `\x%02x`) },
		"two kinds":       func(s string) string { return everyByte(s[:5], `\u%04x`) + everyByte(s[5:], "%%%02X") },
		"entity":          func(s string) string { return everyByte(s, "&#%03d;") },
		"entity hex":      func(s string) string { return everySecond(s, "&#x%02x;") },
		"entity twice":    func(s string) string { return everyByte(s, "&amp;#x%02X;") },
		"JSON brace":      func(s string) string { return everyByte(s, `\u{%x}`) },
		"JSON brace some": func(s string) string { return everySecond(s, `\\x{%06x}`) },
		"U":               func(s string) string { return everySecond(s, `\U%08x`) },
		"octal":           func(s string) string { return everyByte(s, `\%03o`) },
		"octal in JSON":   func(s string) string { return everyByte(s, `\\%03o`) },
		"percent u":       func(s string) string { return everyByte(s, "%%u%04X") },
		"percent u twice": func(s string) string { return everySecond(s, "%%25u%04X") },
		"entity long":     func(s string) string { return everyByte(s, "&#%012d;") },
		"entity hex long": func(s string) string { return everySecond(s, "&#x%018x;") },
		"entity open":     func(s string) string { return everyByte(s, "&#%03d") },
		"entity hex open": func(s string) string { return everyByte(s, "&#x%02x") },
		"entity names": func(s string) string {
			return strings.NewReplacer("_", "&UnderBar;", "+", "&plus;", "=", "&equals;", "/", "&sol;").Replace(s)
		},
		"quoted":      func(s string) string { return everyByte(s, "=%02X") },
		"quoted some": func(s string) string { return everySecond(s, "=%02X") },
		"quoted lines": func(s string) string {
			return strings.ReplaceAll(s[:7], "=", "=3D") + "=\r\n" + strings.ReplaceAll(s[7:], "=", "=3D")
		},
		"quoted line":     func(s string) string { return s[:2] + "=\n" + strings.ReplaceAll(s[2:], "=", "=3D") },
		"UTF-16 LE":       func(s string) string { return string(widen([]byte(s), 0)) },
		"UTF-16 BE":       func(s string) string { return string(widen([]byte(s), 1)) },
		"slashes escaped": func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
		"form": func(s string) string {
			return strings.NewReplacer("/", "%2F", "+", "%2B", "=", "%3D", " ", "+").Replace(s)
		},
		"base64 in a URL": func(s string) string {
			return strings.NewReplacer("/", "%2F", "+", "%2B", "=", "%3D").Replace(base64.StdEncoding.EncodeToString([]byte(s)))
		},
	}
}

// B042: whatever a host makes of a value, its cover is there instead, and all
// around it is as it was.
func TestScrub_CoversEveryForm(t *testing.T) {
	t.Parallel()
	m := testMatcher()
	for value, cover := range pairs() {
		for name, encode := range encodings() {
			for _, around := range [][2]string{{"", ""}, {`{"token":"`, "\"}\n"}, {"a%b\\c&d ", " %&\\"}} {
				in := around[0] + encode(value) + around[1]
				want := around[0] + encode(cover) + around[1]
				got := string(m.scrubbed([]byte(in)))
				if len(got) != len(in) {
					t.Errorf("%s of %s: %d bytes became %d", name, value, len(in), len(got))
				}
				same := got == want || strings.Contains("percent u U entity names HEX percent lower percent thrice JSON u JSON in JSON x entity twice two kinds", name) && strings.EqualFold(got, want) // digits of either case
				if !same && len(want) == len(in) && name != "base64 in a URL" {
					t.Errorf("%s of %s: %q became %q, want %q", name, value, in, got, want)
				}
				if f := naive(got); f != "" {
					t.Errorf("B042, %s of %s: %q became %q, in which there is %s", name, value, in, got, f)
				}
			}
		}
	}
}

// The twin: what is no value stays.
func TestScrub_LeavesOtherTextAlone(t *testing.T) {
	t.Parallel()
	m := testMatcher()
	for value := range pairs() {
		for name, encode := range encodings() {
			almost := []byte(value)
			almost[len(almost)/2]++
			in := encode(string(almost))
			if got := string(m.scrubbed([]byte(in))); got != in {
				t.Errorf("%s of %s became %q", name, almost, got)
			}
		}
	}
}

// naive looks for values by undoing one encoding at a time, without the code
// that is tried here. It returns which it has found, or "".
func naive(s string) string {
	texts := map[string]string{"raw": s, "HTML": unescape(s), "HTML twice": unescape(unescape(s))}
	p := s
	for i := range 4 {
		p = regexp.MustCompile("%[0-9a-fA-F]{2}").ReplaceAllStringFunc(p, func(e string) string {
			v, _ := strconv.ParseUint(e[1:], 16, 8)
			return string([]byte{byte(v)})
		})
		texts[fmt.Sprint("percent ", i)] = p
	}
	json := func(s string) string {
		return regexp.MustCompile(`\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}|\\/|\\[ux]\{[0-9a-fA-F]{1,8}\}|\\U[0-9a-fA-F]{8}|\\[0-3][0-7]{2}`).ReplaceAllStringFunc(s, func(e string) string {
			base, digits := 16, strings.Trim(strings.TrimLeft(e, `\uxU`), "{}")
			switch {
			case e == `\/`:
				return "/"
			case len(digits) == len(e)-1:
				base = 8
			}
			v, _ := strconv.ParseUint(digits, base, 32)
			return string([]byte{byte(v & 0xff)})
		})
	}
	texts["quoted"] = regexp.MustCompile("=[0-9a-fA-F]{2}|=\r?\n").ReplaceAllStringFunc(s, func(e string) string {
		v, err := strconv.ParseUint(e[1:], 16, 8)
		if err != nil {
			return ""
		}
		return string([]byte{byte(v)})
	})
	texts["percent u"] = regexp.MustCompile("%u00[0-9a-fA-F]{2}").ReplaceAllStringFunc(s, func(e string) string {
		v, _ := strconv.ParseUint(e[2:], 16, 16)
		return string([]byte{byte(v & 0xff)})
	})
	texts["JSON"] = json(s)
	texts["JSON in percent"] = json(texts["percent 0"])
	for name, text := range texts {
		for value := range pairs() {
			if strings.Contains(text, value) {
				return name
			}
			if f := naiveRuns(text, value); f != "" {
				return name + " " + f
			}
		}
	}
	return ""
}

// unescape leaves alone numbers that are longer than any program writes them.
func unescape(s string) string {
	return regexp.MustCompile("&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z]+;?)").ReplaceAllStringFunc(s, func(e string) string {
		if len(e) > maxEntity {
			return e
		}
		return html.UnescapeString(e)
	})
}

// The names of entities are those of HTML, and all of ASCII's.
func TestNamed_AreHTMLs(t *testing.T) {
	t.Parallel()
	names := strings.Fields(entityNames)
	for _, name := range names {
		if got, want := named(name), html.UnescapeString("&"+name+";"); got != want || !isASCII(got) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if named("hyphen") != "" || named("nbsp") != "" || named("x") != "" || named("") != "" || len(names) != 46 {
		t.Error("others are known, of", len(names))
	}
}

func isASCII(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r > 0x7f }) < 0
}

// What is behind an escape that has no end is no part of it, and what only looks
// like an escape is none.
func TestUndo(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`\147hp`: "ghp", `\1478`: "g8", `\61\62`: "12", `\612`: "12", `\8`: `\8`, `\\8`: `\8`, `\\users`: `\users`, `\users`: `\users`, `\\U1`: `\U1`,
		`\u{67}h`: "gh", `\u{0000067}`: "g", `\u{000000067}`: `\u{000000067}`, `\u{}`: `\u{}`, `\u{67`: `\u{67`, `\u{110000}`: `\u{110000}`, `\x{67}`: "g", `\U00000067`: "g", `\U0000006`: `\U0000006`, `\ud800`: `\ud800`,
		"%u0067": "g", "%25u0067": "g", "%u006": "%u006", "%ux": "%ux", "100%us": "100%us",
		"&#103hp": "ghp", "&#103": "g", "&#x67": "g", "&#x67hp": "ghp", "&#0000000103;": "g", "&#x0000000000000000067;": "g", "&#;": "&#;", "&#x;": "&#x;", "&#0;": "&#0;", "&#99999999999;": "&#99999999999;", "&#xd800;": "&#xd800;",
		"&lt": "<", "&ltx": "<x", "&amp#103;": "g", "&amp;#103": "g", "&UnderBar;": "_", "&UnderBar": "&UnderBar", "&fjlig;": "fj", "&name=": "&name=", "&#38;lt;": "&lt;",
		"=67": "=67",
	} {
		if got := string(undo([]byte(in))); got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
	var v view
	for in, want := range map[string]string{"=67h=70": "ghp", "g=\r\nh=\np": "ghp", "=": "=", "==67": "=g", "=zz": "=zz", "=6": "=6", "=\r": "=\r", "=\rx": "=\rx", "%67": "%67"} {
		if v.look([]byte(in), 0, len(in), quoted); string(v.b) != want {
			t.Errorf("%q is %q, want %q", in, v.b, want)
		}
	}
}

// naiveRuns looks into runs of characters of base64, hexadecimal and UTF-16.
func naiveRuns(s, value string) string {
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		class := "[A-Za-z0-9+/]{10,}"
		if enc == base64.RawURLEncoding {
			class = "[A-Za-z0-9_-]{10,}"
		}
		for _, run := range regexp.MustCompile(class).FindAllString(s, -1) {
			for off := range 4 {
				r := run[off:]
				b, _ := enc.DecodeString(r[:len(r)/4*4])
				more, _ := enc.DecodeString(r)
				if strings.Contains(string(b), value) || strings.Contains(string(more), value) {
					return "base64"
				}
			}
		}
	}
	for _, run := range regexp.MustCompile("[0-9a-fA-F]{16,}").FindAllString(s, -1) {
		for off := range 2 {
			r := run[off:]
			b, _ := hex.DecodeString(r[:len(r)/2*2])
			if strings.Contains(string(b), value) && (strings.ToLower(run) == run || strings.ToUpper(run) == run) {
				return "hexadecimal"
			}
		}
	}
	if strings.Contains(s, string(widen([]byte(value), 0))) || strings.Contains(s, string(widen([]byte(value), 1))) {
		return "UTF-16"
	}
	return ""
}

// stream makes a text of words in encodings and what may disturb them, by
// chance.
func stream(r *rand.Rand) string {
	var names []string
	all := encodings()
	for n := range all {
		names = append(names, n)
	}
	// A map has no order, and a seed is to give the same text again.
	for i := range names {
		for j := range i {
			if names[i] < names[j] {
				names[i], names[j] = names[j], names[i]
			}
		}
	}
	words := []string{valueToken, valuePlain, valueShort}
	noise := []string{"%", "%2", "%25", "%41", "%u", "%u00", `\1`, `\14`, `\u{`, `\u{6`, `\U000000`, "&#1", "&#103", "&lt", "&Under", "&fjlig;", "=", "=6", "=\r", "=\r\n", "=\n", "\r\n", `\`, `\\`, `\u`, `\u00`, `\n`, "&", "&amp;", "&#", "&#x4", "g", "ghp_", "Z2hw", "67", "\x00", "event: x\n\n", " ", `"`, "é"}
	var b strings.Builder
	for range r.IntN(8) {
		switch r.IntN(4) {
		case 0:
			s := all[names[r.IntN(len(names))]](words[r.IntN(len(words))])
			b.WriteString(s)
		case 1:
			s := all[names[r.IntN(len(names))]](words[r.IntN(len(words))])
			b.WriteString(s[:r.IntN(len(s))])
		default:
			for range r.IntN(6) {
				b.WriteString(noise[r.IntN(len(noise))])
			}
		}
	}
	return b.String()
}

// chunks gives a text in the pieces that cuts say.
type chunks struct {
	text []byte
	cuts func() int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.text[:min(len(c.text), 1+c.cuts())])
	c.text = c.text[n:]
	return n, nil
}

func (*chunks) Close() error { return nil }

func readScrubbed(m *matcher, text string, cuts func() int) string {
	b := &body{src: &chunks{[]byte(text), cuts}, f: &scrub{tape{m: m}}}
	out, err := io.ReadAll(b)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// B045, T17: however a stream is split, it comes out the same, as long as it
// was, and without a value.
func TestBody_IsTheSameHoweverItIsSplit(t *testing.T) {
	t.Parallel()
	m := testMatcher()
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		checkSplit(t, m, stream(r), func() int { return r.IntN(1 + int(seed%40)) })
	}
}

// Looking at fewer escapes loses nothing: with every four bytes taken for a part
// of a pattern, each escape is looked at.
func TestScrub_GramsLoseNothing(t *testing.T) {
	t.Parallel()
	m := testMatcher()
	every := *m
	every.grams = make(grams, len(m.grams))
	for i := range every.grams {
		every.grams[i] = ^uint64(0)
	}
	between := []string{"", "................", "xxxx", "=4", "%3d", `\u003d`}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 5))
		var b strings.Builder
		for range 3 {
			b.WriteString(strings.Repeat(between[r.IntN(len(between))], r.IntN(40)) + stream(r))
		}
		in := []byte(b.String())
		if got, want := m.scrubbed(in), every.scrubbed(in); !bytes.Equal(got, want) {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// Where a stream is cut within an escape, what is behind the cut is no other
// text.
func TestBody_EscapesAreReadFromTheirBeginning(t *testing.T) {
	t.Parallel()
	m := testMatcher()
	digits := hex.EncodeToString([]byte(valueToken))
	in := "x%" + digits[:4] + everyByte(digits[4:], "%%%02X")
	for n := range 8 {
		checkSplit(t, m, in, func() int { return n })
	}
}

func checkSplit(t *testing.T, m *matcher, in string, cuts func() int) {
	t.Helper()
	whole := string(m.scrubbed([]byte(in)))
	if len(whole) != len(in) {
		t.Errorf("%q became %q, which is not as long", in, whole)
	}
	if f := naive(whole); f != "" {
		t.Errorf("%q became %q, in which there is %s", in, whole, f)
	}
	if got := readScrubbed(m, in, cuts); got != whole {
		t.Errorf("B045: %q became %q, and in pieces %q", in, whole, got)
	}
}

// FuzzScrub has words in encodings within hostile text, in hostile pieces.
func FuzzScrub(f *testing.F) {
	for seed := range uint64(20) {
		f.Add([]byte(stream(rand.New(rand.NewPCG(seed, 2)))), seed)
	}
	m := testMatcher()
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 3))
		whole := m.scrubbed(in)
		if len(whole) != len(in) {
			t.Fatalf("%q became %q", in, whole)
		}
		for v := range pairs() {
			if bytes.Contains(whole, []byte(v)) {
				t.Fatalf("%q became %q", in, whole)
			}
		}
		if got := readScrubbed(m, string(in), func() int { return r.IntN(9) }); got != string(whole) {
			t.Fatalf("%q became %q, and in pieces %q", in, whole, got)
		}
	})
}

// T18: what cannot be the beginning of a value is not held back.
func TestBody_HoldsBackOnlyBeginnings(t *testing.T) {
	t.Parallel()
	m := testMatcher()
	for _, piece := range []string{"data: {\"x\":1}\n\n", "data: ghp_\n\n", `{"a":"` + valueToken + "\"}\r\n", "ghp_", "x: "} {
		tp := tape{m: m}
		out, _ := tp.push([]byte(piece), false)
		if len(out) != len(piece) {
			t.Errorf("of %q only %q passes", piece, out)
		}
	}
	tp := tape{m: m}
	out, _ := tp.push([]byte("token "+valueToken[:9]), false)
	if string(out) != "token ghp_" {
		t.Errorf("%q passes", out)
	}
	out, _ = tp.push([]byte(valueToken[9:]+"."), false)
	if string(out) != coverToken[4:]+"." {
		t.Errorf("then %q passes", out)
	}
}

// A hostile host cannot have the proxy hold much.
func TestTape_IsBounded(t *testing.T) {
	t.Parallel()
	var f forms
	f.add(0, bytes.Repeat([]byte("a"), 40), bytes.Repeat([]byte("b"), 40))
	periodic := newMatcher(f.pats)
	for name, piece := range map[string]string{
		"periodic": strings.Repeat("a", 1000), "percent": strings.Repeat("%61", 400), "backslashes": strings.Repeat(`\`, 1000),
		"percent signs": strings.Repeat("%", 1000), "ampersands": strings.Repeat("&amp;", 200), "escapes": strings.Repeat(`\u0061`, 200), "zeros": strings.Repeat("&#x00000", 200), "quoted": strings.Repeat("=61", 300), "soft breaks": strings.Repeat("=\r\n", 300), "octal": strings.Repeat(`\141`, 300), "25": strings.Repeat("%25", 300),
	} {
		for _, m := range []*matcher{testMatcher(), periodic} {
			tp := tape{m: m}
			for range 100 {
				tp.push([]byte(piece), false)
				if len(tp.buf) > 1000+maxToken*(m.longest+2) {
					t.Fatalf("%s: %d bytes wait", name, len(tp.buf))
				}
			}
		}
	}
}

func TestBody_PassesErrorsOn(t *testing.T) {
	t.Parallel()
	b := &body{src: io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc")))), f: &scrub{tape{m: testMatcher()}}}
	if out, err := io.ReadAll(b); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%q, %v", out, err)
	}
}

// many makes words as a sandbox with 50 secrets has them.
func many(n int) *matcher {
	r := rand.New(rand.NewPCG(1, 2))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	f := forms{slack: slack}
	for i := range n {
		w := []byte("sk-proj-")
		for range 40 {
			w = append(w, letters[r.IntN(len(letters))])
		}
		f.add(i, w, nil)
	}
	return newMatcher(f.pats)
}

func benchTexts() map[string][]byte {
	r := rand.New(rand.NewPCG(3, 4))
	const size = 1 << 20
	random := make([]byte, size)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	words := strings.Fields("the quick brown fox jumps over a lazy dog while secrets of every kind wait for the ones who may read them and go on")
	var text, json strings.Builder
	for text.Len() < size {
		text.WriteString(words[r.IntN(len(words))] + " ")
	}
	for json.Len() < size {
		fmt.Fprintf(&json, `{"id":%d,"name":"%s","url":"https://example.com/%s?q=%d","text":"%s said \"%s\"\n"},`, r.IntN(1e6), words[r.IntN(len(words))], words[r.IntN(len(words))], r.IntN(1e4), words[r.IntN(len(words))], words[r.IntN(len(words))])
	}
	return map[string][]byte{
		"escapes": []byte(strings.Repeat(`{"url":"https:\/\/example.com\/some\/path?q=%2F%61b"},`, size/56)),
		"random":  random, "text": []byte(text.String()[:size]), "JSON": []byte(json.String()[:size]),
		"base64": []byte(base64.StdEncoding.EncodeToString(random)[:size]),
	}
}

// BenchmarkFind is of 50 placeholders in all forms, and says how many times as
// long a loop takes that looks for one after the other.
func BenchmarkFind(b *testing.B) {
	m := many(50)
	for name, text := range benchTexts() {
		b.Run(name, func(b *testing.B) {
			began := time.Now()
			for i := range m.pats {
				if bytes.Contains(text, m.pats[i].text) {
					b.Fatal("found")
				}
			}
			loop := time.Since(began)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if f := m.find(text, 0, false); len(f.edits) > 0 {
					b.Fatal("found")
				}
			}
			b.ReportMetric(float64(loop)*float64(b.N)/float64(b.Elapsed()), "x-loop")
		})
	}
}

// B040: values that begin alike, lie within one another or overlap are covered
// all, and the same in pieces.
func TestBody_OverlappingValues(t *testing.T) {
	t.Parallel()
	words := []string{"abcdefgh12345678", "abcdefgh12345678ZZZZ9999", "45678ZZZZ99990000", "efgh1234"}
	var f forms
	for i, w := range words {
		f.add(i, []byte(w), []byte(strings.Repeat(string(rune('A'+i)), len(w))))
	}
	m := newMatcher(f.pats)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 4))
		var b strings.Builder
		for range r.IntN(6) {
			w := words[r.IntN(len(words))]
			if r.IntN(4) == 0 {
				w = everySecond(w, "%%%02x")
			}
			b.WriteString(w[r.IntN(3)*r.IntN(2) : len(w)-r.IntN(2)*r.IntN(5)])
		}
		b.WriteString("0000")
		in := b.String()
		whole := string(m.scrubbed([]byte(in)))
		for _, w := range words {
			if strings.Contains(whole, w) {
				t.Errorf("B040: %q became %q", in, whole)
			}
		}
		if got := readScrubbed(m, in, func() int { return r.IntN(6) }); got != whole {
			t.Errorf("%q became %q, and in pieces %q", in, whole, got)
		}
	}
}
