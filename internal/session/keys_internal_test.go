package session

import "testing"

// TestKeys_AnswersKeepNobodyFromThem: what a terminal says by itself between two
// keys goes to the command, and the sequence is found all the same.
func TestKeys_AnswersKeepNobodyFromThem(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]string{
		"nothing":                  "",
		"where the cursor is":      "\x1b[12;40R",
		"status":                   "\x1b[0n",
		"what the terminal is":     "\x1b[?62;22c",
		"a mode":                   "\x1b[?2026;2$y",
		"focus":                    "\x1b[I\x1b[O",
		"a mouse":                  "\x1b[<0;10;20M\x1b[<0;10;20m",
		"a mouse of old":           "\x1b[M !!",
		"a colour":                 "\x1b]11;rgb:0000/0000/0000\x1b\\\x1b]10;rgb:0/0/0\x07",
		"a setting":                "\x1bP1$r0m\x1b\\",
		"the flags of a keyboard":  "\x1b[?15u",
		"many of them, one by one": "\x1b[1;1R\x1b[1;1R\x1b[1;1R\x1b[1;1R",
	} {
		var sent string
		send := func(p []byte) { sent += string(p) }
		k := keys{seq: []byte("\x10\x11")}
		if k.pass([]byte("\x10"), send) || !within(&k, between, send) || !k.pass([]byte("\x11"), send) || sent != between {
			t.Errorf("%s: %q was sent", name, sent)
		}
	}
}

// within passes what comes between two keys, and reports that it ends nothing.
func within(k *keys, between string, send func([]byte)) bool {
	return between == "" || !k.pass([]byte(between), send)
}

// TestKeys_OtherKeysBeginAgain is the twin: a key between two others is none of
// the sequence.
func TestKeys_OtherKeysBeginAgain(t *testing.T) {
	t.Parallel()
	for _, between := range []string{"x", "\x1b[A", "\x1b[3~", "\x1b[97;5u", "\r"} {
		k := keys{seq: []byte("\x10\x11")}
		var sent string
		send := func(p []byte) { sent += string(p) }
		if k.pass([]byte("\x10"+between+"\x11"), send) || sent != "\x10"+between+"\x11" {
			t.Errorf("%q: %q was sent", between, sent)
		}
	}
}

// TestKeys_InEveryEncoding: kitty's keyboard protocol leaves out what is as
// usual (https://sw.kovidgoyal.net/kitty/keyboard-protocol/).
func TestKeys_InEveryEncoding(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]bool{
		"\x01d":                        true,
		"\x1b[97;5u\x1b[100u":          true,
		"\x1b[97;5u\x1b[100;1u":        true,
		"\x1b[97;5u\x1b[100;1:1u":      true,
		"\x1b[97:65:97;5:1u\x1b[100u":  true,
		"\x1b[97;69u\x1b[100;65u":      true, // with caps lock's bit
		"\x1b[27;5;97~d":               true,
		"\x1b[97;5u\x1b[97;5:3ud":      true, // the first one is let go
		"\x1b[97;5u\x1b[100;2u":        false,
		"\x1b[97;5u\x1b[100:68;2u":     false,
		"\x1b[97u\x1b[100u":            false,
		"\x1b[97;5u\x1b[100;3u":        false,
		"\x1b[97;5u\x1b[x100u":         false,
		"\x1b[97;5u\x1b[;u\x1b[100;9u": false,
	} {
		k := keys{seq: []byte("\x01d")}
		if got := k.pass([]byte(typed), func([]byte) {}); got != want {
			t.Errorf("%q: %v", typed, got)
		}
	}
	k := keys{seq: []byte("\x01D")}
	if !k.pass([]byte("\x1b[97;5u\x1b[100;2u"), func([]byte) {}) || (&keys{seq: []byte("D")}).pass([]byte("\x1b[100u"), func([]byte) {}) {
		t.Error("shift")
	}
}
