package terminal_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/terminal"
)

func filter(chunks ...string) (string, *terminal.Filter) {
	var f terminal.Filter
	var out []byte
	for _, c := range chunks {
		out = f.Filter(out, []byte(c))
	}
	return string(f.Flush(out)), &f
}

// passed are inputs that have to come out as they went in.
func passed() map[string]string {
	return map[string]string{
		"plain text":          "hello\r\n\tworld\b\a\v\f",
		"UTF-8":               "grüße 世界 🦊 e\u0301\u200d",
		"SGR":                 "\x1b[1;38;2;1;2;3m\x1b[4:3mred\x1b[0m\x1b[m",
		"cursor":              "\x1b[10;20H\x1b[A\x1b[2K\x1b[J\x1b7\x1b8\x1b[s\x1b[u\x1bM\x1bD\x1b[3L\x1b[2@",
		"private modes":       "\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?2004h\x1b[?1004h\x1b[?2026h\x1b[?1048h",
		"scroll region":       "\x1b[1;24r\x1b[r",
		"keypad and charset":  "\x1b=\x1b>\x1b(0lqk\x1b(B\x0e\x0f",
		"cursor shape":        "\x1b[5 q\x1b[0 q",
		"resets":              "\x1b[!p\x1bc",
		"kitty keyboard":      "\x1b[>1u\x1b[=5;1u\x1b[<1u\x1b[?u",
		"modifyOtherKeys":     "\x1b[>4;2m\x1b[>4m\x1b[?4m\x1b[>4n",
		"fixed-form queries":  "\x1b[c\x1b[0c\x1b[>c\x1b[>0q\x1b[=c\x1b[6n\x1b[5n\x1b[?6n\x1b[?996n\x1b[?2026$p\x1b[14t\x1b[16t\x1b[18t",
		"colour queries":      "\x1b]11;?\x1b\\\x1b]10;?\a\x1b]4;1;?;2;?\x1b\\\x1b]12;?\a",
		"colours":             "\x1b]11;rgb:00/11/22\x1b\\\x1b]4;1;#ff0000\a\x1b]104\x1b\\\x1b]111\x1b\\",
		"hyperlinks":          "\x1b]8;;https://example.com/a?b=c#d\x1b\\x\x1b]8;;\x1b\\\x1b]8;id=1;mailto:a@b.c\ay\x1b]8;;\a",
		"prompt and progress": "\x1b]133;A;aid=1\x1b\\\x1b]133;D;0\a\x1b]9;4;1;50\a",
	}
}

func TestFilter_PassesWhatProgramsNeed(t *testing.T) {
	t.Parallel()
	for name, in := range passed() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, f := filter(in)
			if diff := cmp.Diff(in, got); diff != "" {
				t.Errorf("-in +out:\n%s", diff)
			}
			dropped := f.Dropped()
			if n := dropped.Total(); n != 0 {
				t.Errorf("counted %v as dropped", dropped.Named())
			}
		})
	}
}

type attack struct {
	name  string
	in    string
	want  string // what is left of it
	class terminal.Class
}

// attacks are sequences that act outside of the terminal's area.
func attacks() []attack {
	return []attack{
		{"OSC 52 write", "\x1b]52;c;ZXZpbA==\a", "", terminal.Clipboard},
		{"OSC 52 read", "\x1b]52;c;?\x1b\\", "", terminal.Clipboard},
		{"OSC 52 with zeros", "\x1b]052;c;ZXZpbA==\a", "", terminal.Other},
		{"OSC 52 ended by CAN", "\x1b]52;c;ZXZpbA==\x18", "", terminal.Clipboard},
		{"OSC 52 ended by a sequence", "\x1b]52;c;ZXZpbA==\x1b[1m", "\x1b[1m", terminal.Clipboard},
		{"OSC 52 in tmux pass-through", "\x1bPtmux;\x1b\x1b]52;c;ZXZpbA==\a\x1b\\", "", terminal.Clipboard},
		{"OSC 52 in screen pass-through", "\x1bP\x1b]52;c;ZXZpbA==\a\x1b\\", "", terminal.Clipboard},
		{"OSC 52 by 8-bit C1", "\x9d52;c;ZXZpbA==\x9c", "\ufffd52;c;ZXZpbA==\ufffd", terminal.C1},
		{"OSC 52 by C1 in UTF-8", "\xc2\x9d52;c;ZXZpbA==\xc2\x9c", "\ufffd52;c;ZXZpbA==\ufffd", terminal.C1},
		{"OSC 52 by overlong C1", "\xe0\x82\x9d52;c;x\a", "\ufffd\ufffd\ufffd52;c;x\a", terminal.C1},
		{"kitty clipboard", "\x1b]5522;type=read\x1b\\", "", terminal.Clipboard},
		{"title", "\x1b]0;evil\a", "", terminal.Title},
		{"icon title", "\x1b]1;evil\x1b\\", "", terminal.Title},
		{"window title, UTF-8", "\x1b]2;böse\x1b\\", "", terminal.Title},
		{"screen title", "\x1bkevil\x1b\\", "", terminal.Title},
		{"report title", "\x1b[21t", "", terminal.Title},
		{"report icon title", "\x1b[20t", "", terminal.Title},
		{"push title", "\x1b[22;0;0t", "", terminal.Title},
		{"resize window", "\x1b[8;1;1t", "", terminal.Window},
		{"iconify", "\x1b[2t", "", terminal.Window},
		{"answerback", "\x05", "", terminal.AnswerBack},
		{"answerback inside a sequence", "\x1b[1\x05m", "\x1b[1m", terminal.AnswerBack},
		{"DECRQSS", "\x1bP$qm\x1b\\", "", terminal.String},
		{"XTGETTCAP", "\x1bP+q544e\x1b\\", "", terminal.String},
		{"programmable keys", "\x1bP0;0|17/6c730a\x1b\\", "", terminal.String},
		{"sixel", "\x1bPq#0;2;0;0;0\n#0~~\x1b\\", "", terminal.String},
		{"DECRQCRA reads the screen", "\x1b[1;1;1;1;24;80*y", "", terminal.AnswerBack},
		{"DECREQTPARM", "\x1b[x", "", terminal.AnswerBack},
		{"locator", "\x1b[1'|", "", terminal.AnswerBack},
		{"kitty graphics from a file", "\x1b_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\x1b\\", "", terminal.Transfer},
		{"PM", "\x1b^x\x1b\\", "", terminal.String},
		{"SOS", "\x1bXx\x1b\\", "", terminal.String},
		{"iTerm2 file", "\x1b]1337;File=name=eA==:AAAA\a", "", terminal.Transfer},
		{"iTerm2 upload", "\x1b]1337;RequestUpload=format=tgz\a", "", terminal.Transfer},
		{"kitty file transfer", "\x1b]5113;ac=send\x1b\\", "", terminal.Transfer},
		{"ZMODEM", "**\x18B0100000023be50", "**B0100000023be50", terminal.Transfer},
		{"notification", "\x1b]9;pay here\a", "", terminal.Notification},
		{"notification, rxvt", "\x1b]777;notify;a;b\a", "", terminal.Notification},
		{"notification, kitty", "\x1b]99;;hello\x1b\\", "", terminal.Notification},
		{"file link", "\x1b]8;;file:///etc/passwd\x1b\\x\x1b]8;;\x1b\\", "x\x1b]8;;\x1b\\", terminal.Link},
		{"script link", "\x1b]8;;JavaScript:x\a", "", terminal.Link},
		{"ssh link", "\x1b]8;;ssh://h\a", "", terminal.Link},
		{"link without scheme", "\x1b]8;;/etc/passwd\a", "", terminal.Link},
		{"media copy", "\x1b[5i\x1b[?5i", "", terminal.Print},
		{"keyboard lock", "\x1b[2h", "", terminal.Mode},
		{"132 columns", "\x1b[?3h", "", terminal.Mode},
		{"132 columns among others", "\x1b[?25;3;7l", "\x1b[?25;7l", terminal.Mode},
		{"Tektronix", "\x1b[?38h", "", terminal.Mode},
		{"VT52", "\x1b[?2l", "", terminal.Mode},
		{"highlight tracking", "\x1b[?1001h", "", terminal.Mode},
		{"leave UTF-8", "\x1b%@", "", terminal.Other},
		{"8-bit answers", "\x1b G", "", terminal.Other},
		{"conformance level", "\x1b[64;1\"p", "", terminal.Other},
		{"working directory", "\x1b]7;file://h/tmp\a", "", terminal.Other},
		{"font", "\x1b]50;#3\a", "", terminal.AnswerBack},
		{"VS Code shell integration", "\x1b]633;E;rm\a", "", terminal.Other},
		{"overlong CSI", "\x1b[" + strings.Repeat("1;", 200) + "m", "", terminal.Other},
		{"parameter after intermediate", "\x1b[ 1q", "", terminal.Other},
		{"sub-parameters outside of SGR", "\x1b[21:0t", "", terminal.Other},
		{"CSI by 8-bit C1", "\x9b21t", "\ufffd21t", terminal.C1},
		{"text in an allowed OSC", "\x1b]11;\xc3\xa4\a", "", terminal.AnswerBack},
		{"two colours at once", "\x1b]10;?;?\a", "", terminal.AnswerBack},
	}
}

func TestISO11_FilterDropsWhatActsOutside(t *testing.T) {
	t.Parallel()
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			got, f := filter("A" + a.in + "Z")
			if diff := cmp.Diff("A"+a.want+"Z", got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			dropped := f.Dropped()
			if dropped.Of(a.class) == 0 {
				t.Errorf("class %v not counted: %v", a.class, dropped.Named())
			}
			checkHarmless(t, []byte(got))
		})
	}
}

func TestFilter_DoesNotDependOnChunks(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, in := range passed() {
		all.WriteString(in)
	}
	for _, a := range attacks() {
		all.WriteString(a.in + "|")
	}
	in := all.String()
	whole, f := filter(in)
	want := f.Dropped()
	for _, size := range []int{1, 2, 3, 5, 7, 64} {
		var chunks []string
		for rest := in; rest != ""; {
			n := min(size, len(rest))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		got, g := filter(chunks...)
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Errorf("chunks of %d: -whole +chunked:\n%s", size, diff)
		}
		if diff := cmp.Diff(want, g.Dropped()); diff != "" {
			t.Errorf("chunks of %d: counts:\n%s", size, diff)
		}
	}
}

func TestFilter_RecoversFromAnUnterminatedString(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"OSC, line end":    "\x1b]0;lost\nshown",
		"OSC, BEL":         "\x1b]0;lost\ashown",
		"OSC, CAN":         "\x1b]0;lost\x18shown",
		"DCS, SUB":         "\x1bPlost\x1ashown",
		"DCS, ST":          "\x1bPlost\x1b\\shown",
		"APC, a sequence":  "\x1b_lost\x1b[mshown",
		"APC, after 8 MiB": "\x1b_" + strings.Repeat("x", 8<<20) + "shown",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, _ := filter(in); !strings.HasSuffix(got, "shown") || strings.Contains(got, "lost") {
				t.Errorf("out = %.40q", got)
			}
		})
	}
}

func TestFilter_KeepsTextWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"cut character at the end":      {"ab\xe4\xb8", "ab\ufffd"},
		"cut character before a letter": {"\xe4\xb8x", "\ufffdx"},
		"cut character before ESC":      {"\xf0\x9f\x1b[1m", "\ufffd\x1b[1m"},
		"two starts":                    {"\xe4\xe4\xb8\x96", "\ufffd世"},
		"Latin-1":                       {"gr\xfcn", "gr\ufffdn"},
		"surrogate":                     {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		"sequence broken by text":       {"\x1b[3ä", "ä"},
		"control inside a sequence":     {"\x1b[3\r1m", "\r\x1b[31m"},
		"ESC restarts":                  {"\x1b[3\x1b[1m", "\x1b[1m"},
		"other controls vanish":         {"a\x00\x01\x13\x7fb", "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, _ := filter(c[0]); got != c[1] {
				t.Errorf("filter(%q) = %q, want %q", c[0], got, c[1])
			}
		})
	}
}

func TestFilter_ResetUndoesOnlyWhatWasTurnedOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"nothing":              {"hi\r\n", ""},
		"balanced":             {"\x1b[?1049h\x1b[?25l\x1b[1mx\x1b[0m\x1b[?25h\x1b[?1049l", ""},
		"full screen":          {"\x1b[?1049h\x1b[?25l", "\x1b[?1049l\x1b[?25h"},
		"other way out":        {"\x1b[?1049h\x1b[?47l", ""},
		"mouse and paste":      {"\x1b[?1002;1006h\x1b[?2004h\x1b[?1004h", "\x1b[?1002l\x1b[?1006l\x1b[?1004l\x1b[?2004l"},
		"kitty":                {"\x1b[>1u\x1b[>3u", "\x1b[<2u"},
		"kitty on both":        {"\x1b[>1u\x1b[?1049h\x1b[>5u\x1b[=1u", "\x1b[<1u\x1b[=0u\x1b[?1049l\x1b[<1u"},
		"kitty popped":         {"\x1b[>1u\x1b[<u", ""},
		"style":                {"\x1b[31m", "\x1b[m"},
		"style ended":          {"\x1b[31m\x1b[m", ""},
		"scroll region":        {"\x1b[2;5r", "\x1b7\x1b[r\x1b8"},
		"charset":              {"\x1b(0\x0e", "\x0f\x1b(B"},
		"other charsets":       {"\x1b)0\x1b*0\x1b/A\x1b(B", "\x1b)B\x1b*B\x1b+B"},
		"shifted to G2":        {"\x1bn", "\x0f"},
		"shifted to G3, back":  {"\x1bo\x0f", ""},
		"style saved":          {"\x1b[31m\x1b7\x1b[m\x1b8", "\x1b[m"},
		"saved below":          {"\x1b[31m\x1b[?6h\x1b[?1049h\x1b[?6l\x1b[m", "\x1b[?1049l\x1b[?6l\x1b[m"},
		"saved, other names":   {"\x1b(0\x1b[s\x1b(B\x1b[u", "\x1b(B"},
		"saved, not restored":  {"\x1b[31m\x1b7\x1b[m", ""},
		"style popped":         {"\x1b[31m\x1b[#{\x1b[m\x1b[#}", "\x1b[m"},
		"protected":            {"\x1b[1\"q", "\x1b[0\"q"},
		"tab stops":            {"\x1b[3g\x1bH", "\x1b[?5W"},
		"tab stops, back":      {"\x1b[3g\x1b[?5W", ""},
		"console cursor":       {"\x1b[?2c", "\x1b[?0c"},
		"colour, no reset":     {"\x1b]10;#000\a\x1b]110;x\a", "\x1b]110\x1b\\"},
		"colour reset":         {"\x1b]10;#000\a\x1b]110\a", ""},
		"link, no end":         {"\x1b]8;;http://a\a\x1b]8;;:x\a", "\x1b]8;;\x1b\\"},
		"link ended":           {"\x1b]8;;http://a\a\x1b]8;;\a", ""},
		"palette, one reset":   {"\x1b]4;1;#fff\a\x1b]104;2\a", "\x1b]104\x1b\\"},
		"keys":                 {"\x1b[>4;2m\x1b=", "\x1b[>4m\x1b>"},
		"link":                 {"\x1b]8;;http://a\a", "\x1b]8;;\x1b\\"},
		"colours":              {"\x1b]11;#000\a\x1b]4;1;#fff\a", "\x1b]104\x1b\\\x1b]111\x1b\\"},
		"queries":              {"\x1b]11;?\a\x1b[6n", ""},
		"cursor shape":         {"\x1b[5 q", "\x1b[0 q"},
		"synchronized":         {"\x1b[?2026h\x1b[?25l", "\x1b[?2026l\x1b[?25h"},
		"progress":             {"\x1b]9;4;1;50\a", "\x1b]9;4;0\x1b\\"},
		"progress, ended":      {"\x1b]9;4;1;50\a\x1b]9;4;0;\a", ""},
		"hard reset":           {"\x1b[?1049h\x1b[31m\x1b[>1u\x1bc", ""},
		"insert":               {"\x1b[4h", "\x1b[4l"},
		"dropped, not tracked": {"\x1b[?3h\x1b]0;x\a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, f := filter(c[0])
			got := string(f.Reset())
			if got != c[1] {
				t.Errorf("Reset() = %q, want %q", got, c[1])
			}
			checkHarmless(t, []byte(got))
			// What Reset prints leaves nothing behind itself.
			_, again := filter(c[0] + got)
			if rest := again.Reset(); len(rest) != 0 {
				t.Errorf("after Reset: %q is still to be undone", rest)
			}
		})
	}
}

func TestFilter_ReapplyTurnsOnAgain(t *testing.T) {
	t.Parallel()
	in := "\x1b[?1049h\x1b[?25l\x1b[>3u\x1b[?2004h\x1b[>4;2m\x1b="
	_, f := filter(in)
	_, g := filter(string(f.Reapply()))
	if diff := cmp.Diff(string(f.Reset()), string(g.Reset())); diff != "" {
		t.Errorf("state after Reapply:\n%s", diff)
	}
}

func FuzzFilter(f *testing.F) {
	for _, in := range passed() {
		f.Add([]byte(in), uint8(3))
	}
	for _, a := range attacks() {
		f.Add([]byte(a.in), uint8(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, one := filter(string(in))
		var chunks []string
		for rest := string(in); rest != ""; {
			n := min(int(size)+1, len(rest))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		cut, two := filter(chunks...)
		if whole != cut || one.Dropped() != two.Dropped() {
			t.Fatalf("depends on chunks: %q and %q", whole, cut)
		}
		checkHarmless(t, []byte(whole))
		checkHarmless(t, one.Reset())
		checkHarmless(t, one.Reapply())
		if again, third := filter(whole); again != whole {
			t.Fatalf("not stable: %q then %q (%v)", whole, again, third.Dropped())
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	for name, unit := range map[string]string{
		"plain":  strings.Repeat("the quick brown fox jumps over it ", 2) + "\r\n",
		"utf8":   "grüße 世界 und noch mehr Text dahinter, ja\r\n",
		"colour": "\x1b[1;32mok\x1b[0m some text \x1b[38;5;12mmore\x1b[m\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			in := bytes.Repeat([]byte(unit), (64<<10)/len(unit))
			var f terminal.Filter
			var out []byte
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				out = f.Filter(out[:0], in)
			}
		})
	}
}

// TestFilter_HardResetUndoesItself: some terminals keep a mode through RIS, as
// tmux the alternate screen.
func TestFilter_HardResetUndoesItself(t *testing.T) {
	t.Parallel()
	out, _ := filter("\x1b[?1049h\x1b[?2004h\x1bc")
	if want := "\x1b[?1049h\x1b[?2004h\x1b[?1049l\x1b[?2004l\x1bc"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
	if out, _ := filter("x\x1bc"); out != "x\x1bc" {
		t.Errorf("%q", out)
	}
}
