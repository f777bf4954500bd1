package terminal_test

import (
	"regexp"
	"testing"
	"unicode/utf8"
)

// The scanner that checks the filter's output is written against the
// documents once more, with regular expressions and not with a state machine,
// so that a mistake in one does not hide in the other.
var (
	anyCSI = regexp.MustCompile(`^\x1b\[[<=>?]?[0-9;:]*[ -/]*[@-~]`)
	anyOSC = regexp.MustCompile(`^\x1b\]([^\x07\x1b]*)(\x07|\x1b\\)`)
	anyEsc = regexp.MustCompile(`^\x1b([0-~]|[ -/]+[0-~])`)

	badCSI = regexp.MustCompile(`^\x1b\[(` +
		`[<=>?]?[0-9;:]*i|` + // media copy
		`[0-9;:]*:[0-9;:]*[^m]|` + // sub-parameters outside of SGR
		`(?:[^14]?|1[^4-689]|4|[2-9][0-9]?|[0-9]{3,})(?:;[0-9;]*)?t|` + // window operations
		`[0-9;]*\*y|[0-9;]*\$w|[0-9;]*'[wz{|]|[0-9;]*\+p|[0-9;]*"p|` + // reports, levels
		`\?[0-9;]*[rst]|>[0-9;]*[tTps]|` +
		`[0-9;]*[xyqp]|` +
		`\?(?:[0-9]+;)*(?:2|3|4|8|18|19|38|40|1001|1043|5522)(?:;[0-9]+)*[hl]|` +
		`(?:[0-9]+;)*(?:2|12)(?:;[0-9]+)*[hl]` +
		`)$`)
	goodOSC = regexp.MustCompile(`^(` +
		`8;[!-:<-~]*;((https?|HTTPS?|mailto)[ -~]*|[hH][tT][tT][pP][sS]?:[ -~]*|[mM][aA][iI][lL][tT][oO]:[ -~]*)?|` +
		`8;[^;]*(;[^;]*)*;?|` +
		`4(;[0-9]+;[?#:/. 0-9A-Za-z]+)+|` +
		`1[012];[?#:/. 0-9A-Za-z]+|` +
		`104(;[0-9;]*)?|11[012];?|` +
		`133;[ -~]*|133|9;4;[0-9;]*` +
		`)$`)
	badLink = regexp.MustCompile(`^8;[^;]*;([^hHmM]|[hH][^tT]|[mM][^aA])`)
	goodEsc = regexp.MustCompile(`^\x1b([6-9=>DEHMNOcno|}~]|[()*+\-./][0-~]|#[3-8])$`)
)

// checkHarmless fails when out holds anything but text, harmless controls and
// complete sequences of the kinds that may pass.
func checkHarmless(t *testing.T, out []byte) {
	t.Helper()
	if !utf8.Valid(out) {
		t.Fatalf("not UTF-8: %q", out)
	}
	for i := 0; i < len(out); {
		rest := out[i:]
		r, size := utf8.DecodeRune(rest)
		switch {
		case r >= 0x80 && r <= 0x9f, r == 0x7f, r < 0x20 && r != 0x1b && (r < 7 || r > 15):
			t.Fatalf("control %#x in %q", r, out)
		case r != 0x1b:
			i += size
			continue
		}
		m := anyCSI.Find(rest)
		switch {
		case m != nil && badCSI.Match(m):
			t.Fatalf("sequence %q in %q", m, out)
		case m != nil:
		case anyOSC.Match(rest):
			sub := anyOSC.FindSubmatch(rest)
			m = sub[0]
			if !goodOSC.Match(sub[1]) || badLink.Match(sub[1]) {
				t.Fatalf("command %q in %q", m, out)
			}
		default:
			m = anyEsc.Find(rest)
			if !goodEsc.Match(m) {
				t.Fatalf("escape %q in %q", m, out)
			}
		}
		i += len(m)
	}
}
