package session

import (
	"bytes"
	"fmt"
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
	if k.timer != nil {
		k.timer.Stop()
	}
	out := make([]byte, 0, len(k.held)+len(p))
	for len(p) > 0 {
		t := token(p)
		p = p[len(t):]
		if out = k.take(out, t); k.matched == len(k.seq) {
			if len(out) > 0 {
				send(out)
			}
			return true
		}
	}
	if len(out) > 0 {
		send(out)
	}
	if k.matched > 0 {
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
	if len(p) < 3 || p[0] != 0x1b || p[1] != '[' {
		return p[:1]
	}
	for i, c := range p[2:] {
		if c >= 0x40 && c <= 0x7e {
			return p[:2+i+1]
		}
	}
	return p[:1]
}

// decode returns the byte that a key sends on a plain terminal, whatever
// encoding the command has chosen: itself, kitty's (CSI code;modifiers u) or
// xterm's (CSI 27;modifiers;code ~). Kitty tells also when a key is let go,
// and of keys that are none by themselves: those are no presses.
func decode(t []byte) (c byte, press bool) {
	if len(t) == 1 {
		return t[0], true
	}
	var code, modifiers, event int
	body, last := string(t[2:len(t)-1]), t[len(t)-1]
	switch {
	case last == '~' && scan(body, "27;%d;%d", &modifiers, &code):
	case last == 'u' && scan(body, "%d;%d:%d", &code, &modifiers, &event):
	case last == 'u' && scan(body, "%d;%d", &code, &modifiers):
	default:
		return 0, true // some other key
	}
	if event == 3 || code >= 57344 { // released; kitty's private codes
		return 0, false
	}
	const ctrl = 4
	if (modifiers-1)&^0b11000000 != ctrl || code < '@' || code > 0x7f { // 0xc0: the locks
		return 0, true
	}
	return byte(code) & 0x1f, true
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
