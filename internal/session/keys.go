package session

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/wire"
)

// DefaultDetachKeys are docker's.
const DefaultDetachKeys = "ctrl-p,ctrl-q"

// noKeys is how a person says that there shall be none.
const noKeys = "none"

// heldFor is how long a key that may begin the sequence waits for the next one
// before it is the command's.
const heldFor = 500 * time.Millisecond

// mostKeys bounds a sequence.
const mostKeys = 8

// ParseKeys reads a sequence of keys as docker writes it: letters and
// ctrl-LETTER with commas between, or none.
func ParseKeys(text string) ([]byte, error) {
	if text == noKeys {
		return nil, nil
	}
	var seq []byte
	for word := range strings.SplitSeq(text, ",") {
		c, ok := keyOf(word)
		if !ok || len(seq) == mostKeys {
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("detach keys: %q is not a sequence of keys", text),
				"write letters or ctrl-LETTER with commas between, such as "+DefaultDetachKeys+", or "+noKeys)
		}
		seq = append(seq, c)
	}
	return seq, nil
}

func keyOf(word string) (byte, bool) {
	if letter, ok := strings.CutPrefix(word, "ctrl-"); ok && len(letter) == 1 {
		c := letter[0] &^ 0x20
		return c & 0x1f, c >= '@' && c <= '_'
	}
	if len(word) != 1 || word[0] < '!' || word[0] > '~' {
		return 0, false
	}
	return word[0], true
}

// keys finds a sequence among what is typed. The zero value finds none.
type keys struct {
	seq []byte

	mu      sync.Mutex
	matched int    // keys of seq
	moved   bool   // there was a key since the timer was set, and not answers alone
	held    []byte // the bytes that these came as
	timer   *time.Timer
}

// pass sends on what is typed and does not belong to the sequence. It reports
// whether the whole sequence was typed.
func (k *keys) pass(p []byte, send func([]byte)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.seq) == 0 {
		send(p)
		return false
	}
	k.moved = false
	out := make([]byte, 0, len(k.held)+len(p))
	for len(p) > 0 {
		t := token(p)
		p = p[len(t):]
		if out = k.take(out, t); k.matched == len(k.seq) {
			if k.timer != nil {
				k.timer.Stop()
			}
			k.held = nil
			if len(out) > 0 {
				send(out)
			}
			return true
		}
	}
	if len(out) > 0 {
		send(out)
	}
	if k.timer != nil && k.moved {
		k.timer.Stop()
	}
	if k.matched > 0 && k.moved {
		k.timer = time.AfterFunc(heldFor, func() { k.letGo(send) })
	}
	return false
}

// letGo sends what was held back for a sequence that does not come.
func (k *keys) letGo(send func([]byte)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) > 0 {
		send(k.held)
	}
	k.held, k.matched = nil, 0
}

// take takes one key and returns what now has to be sent.
func (k *keys) take(out, t []byte) []byte {
	if isAnswer(t) {
		return append(out, t...)
	}
	k.moved = true
	c, press := decode(t)
	if press && c == k.seq[k.matched] {
		k.held = append(k.held, t...)
		k.matched++
		return out
	}
	if !press && k.matched > 0 {
		k.held = append(k.held, t...) // a key of it was let go
		return out
	}
	out = append(out, k.held...)
	k.held, k.matched = nil, 0
	if press && c == k.seq[0] {
		k.held, k.matched = bytes.Clone(t), 1
		return out
	}
	return append(out, t...)
}

// token is the key at the front of what was read: a byte, or a sequence that
// was read as a whole.
func token(p []byte) []byte {
	if len(p) < 3 || p[0] != 0x1b {
		return p[:1]
	}
	switch p[1] {
	case '[':
		if p[2] == 'M' && len(p) >= 6 { // a mouse's button and place
			return p[:6]
		}
		if n := 2 + slices.IndexFunc(p[2:], func(c byte) bool { return c >= 0x40 && c <= 0x7e }); n > 1 {
			return p[:n+1]
		}
	case ']', 'P', '_', '^': // an answer in a string
		return p[:lengthOfString(p)]
	}
	return p[:1]
}

// lengthOfString returns where a string of a terminal's ends, which is at ST or
// BEL, or 1 when that is not here.
func lengthOfString(p []byte) int {
	for i := 2; i < len(p); i++ {
		if p[i] == 0x07 || p[i] == '\\' && p[i-1] == 0x1b {
			return i + 1
		}
	}
	return 1
}

// isAnswer reports whether a token is what a terminal says by itself, because
// the command asked it (where the cursor is, what the terminal is, a colour) or
// wants to be told (focus, a mouse). It is no key: a command that asks without a
// pause does not keep a sequence of keys from being typed.
func isAnswer(t []byte) bool {
	if len(t) < 3 {
		return false
	}
	switch t[1] {
	case ']', 'P', '_', '^':
		return true
	}
	switch t[len(t)-1] {
	case 'R', 'n', 'c', 'y', 't', 'I', 'O', 'M', 'm':
		return true
	}
	return t[2] == 'M' || t[2] == '?' // a mouse; the flags of a keyboard
}

// decode returns the byte that a key sends on a plain terminal, whatever
// encoding the command has chosen: itself, kitty's (CSI
// code:shifted:base;modifiers:event;text u, of which all but code may be missing) or
// xterm's (CSI 27;modifiers;code ~). Kitty tells also when a key is let go,
// and of keys that are none by themselves: those are no presses.
func decode(t []byte) (c byte, press bool) {
	if len(t) == 1 {
		return t[0], true
	}
	code, modifiers, event, shifted := 0, 1, 1, 0
	body, last := string(t[2:len(t)-1]), t[len(t)-1]
	switch {
	case last == '~' && scan(body, "27;%d;%d", &modifiers, &code):
	case last == 'u' && kitty(body, &code, &shifted, &modifiers, &event):
	default:
		return 0, true // some other key
	}
	if event == 3 || code >= 57344 { // released; kitty's private codes
		return 0, false
	}
	const shift, ctrl, locks = 1, 4, 0xc0
	switch held := (modifiers - 1) &^ locks; {
	case code < 0 || code > 0x7f:
	case held == ctrl && code >= '@':
		return byte(code) & 0x1f, true
	case held == 0:
		return byte(code), true
	case held == shift && shifted > 0 && shifted <= 0x7f:
		return byte(shifted), true
	case held == shift && code >= 'a' && code <= 'z':
		return byte(code) - 'a' + 'A', true
	}
	return 0, true
}

// kitty reads the parameters of its encoding of a key.
func kitty(body string, code, shifted, modifiers, event *int) bool {
	fields := strings.Split(body, ";")
	key, held := strings.Split(fields[0], ":"), []string{""}
	if len(fields) > 1 {
		held = strings.Split(fields[1], ":")
	}
	number := func(of []string, i int, into *int) bool {
		if i >= len(of) || of[i] == "" {
			return true // as it was
		}
		n, err := strconv.Atoi(of[i])
		*into = n
		return err == nil
	}
	return key[0] != "" && number(key, 0, code) && number(key, 1, shifted) && number(held, 0, modifiers) && number(held, 1, event)
}

func scan(text, format string, into ...any) bool {
	n, err := fmt.Sscanf(text, format, into...)
	return err == nil && n == len(into)
}

// typedOn sends what was typed: room for it is taken.
func (r *run) typedOn(p []byte) {
	r.mu.Lock()
	w := r.w
	r.mu.Unlock()
	_ = w.Send(wire.Stdin, p) // its error shows as the end of the stream
}

// leave ends the session, and not the command.
func (r *run) leave() {
	select {
	case r.done <- ending{err: ErrDetached}:
	default: // it is over already
	}
}
