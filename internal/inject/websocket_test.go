package inject_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/inject"
)

// frame writes a frame of RFC 6455. A key masks it.
func frame(first byte, payload, key string) string {
	b := []byte{first}
	mask := byte(0)
	if key != "" {
		mask = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	b = append(b, key...)
	for i := range len(payload) {
		c := payload[i]
		if key != "" {
			c ^= key[i%4]
		}
		b = append(b, c)
	}
	return string(b)
}

const (
	textFrame, binaryFrame, more, last = 0x81, 0x82, 0x00, 0x80
	closeFrame, ping                   = 0x88, 0x89
	maskKey                            = "\x01\xf2\x83\x74"
)

// conn is the connection to a host.
type conn struct {
	io.Reader
	bytes.Buffer
}

func (c *conn) Read(p []byte) (int, error) { return c.Reader.Read(p) }
func (*conn) Close() error                 { return nil }

func upgraded(t testing.TB, l *inject.Lender, says io.Reader) (*conn, io.ReadWriteCloser, *inject.Loan) {
	t.Helper()
	c := &conn{Reader: says}
	loan := loanFor(t, l, "GET", "inj.test")
	res := answer(101, "")
	res.Body = c
	if err := loan.Answer(res); err != nil {
		t.Fatal(err)
	}
	rw, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatal("it cannot be written to")
	}
	return c, rw, loan
}

// B062: what the sandbox says.
func TestWebSocket_EndsAtPlaceholders(t *testing.T) {
	t.Parallel()
	l := lender(t)
	k := maskKey
	big := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		says string
		bad  bool
	}{
		"B062 text":              {frame(textFrame, ph, k), true},
		"binary":                 {frame(binaryFrame, "\x00"+ph, k), true},
		"three fragments":        {frame(1, "a"+ph[:10], k) + frame(more, ph[10:20], k) + frame(last, ph[20:], k), true},
		"a ping between":         {frame(1, ph[:10], k) + frame(ping, "x", k) + frame(last, ph[10:], k), true},
		"base64":                 {frame(textFrame, basicOf("a"+ph), k), true},
		"more than a MiB":        {frame(textFrame, big+ph, k), true},
		"another mask":           {frame(textFrame, ph, "\x00\x00\x00\x00"), true},
		"close":                  {frame(closeFrame, "\x03\xe8"+ph, k), true},
		"ping":                   {frame(ping, ph, k), true},
		"twin":                   {frame(textFrame, ph[:30], k) + frame(ping, "x", k) + frame(1, "a", k) + frame(last, "b"+big, k), false},
		"two messages":           {frame(textFrame, ph[:20], k) + frame(textFrame, ph[20:], k), false},
		"empty":                  {frame(textFrame, "", k) + frame(1, "", k) + frame(last, "", k), false},
		"not masked":             {frame(textFrame, "a", ""), true},
		"compressed":             {frame(0xc1, "a", k), true},
		"unknown opcode":         {frame(0x83, "a", k), true},
		"continues nothing":      {frame(last, "a", k), true},
		"a message in another":   {frame(1, "a", k) + frame(textFrame, "a", k), true},
		"a ping in parts":        {frame(9, "a", k), true},
		"a long ping":            {frame(ping, strings.Repeat("a", 126), k), true},
		"a length not the least": {"\x81\xfe\x00\x01" + k + "a", true},
		"a negative length":      {"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff" + k + "a", true},
	} {
		for _, step := range []int{1, 5, 1 << 30} {
			if step == 1 && len(c.says) > 1<<20 {
				continue
			}
			host, rw, _ := upgraded(t, l, strings.NewReader(""))
			var err error
			for s := []byte(c.says); len(s) > 0 && err == nil; {
				n := min(step, len(s))
				_, err = rw.Write(s[:n])
				s = s[n:]
			}
			if (err != nil) != c.bad {
				t.Errorf("%s: %v", name, err)
			}
			if got := host.String(); !strings.HasPrefix(c.says, got) || err == nil && got != c.says {
				t.Errorf("%s: %d bytes of %d went out, or others", name, len(got), len(c.says))
			}
			no, ok := errors.AsType[*inject.Refusal](err)
			if ok && no.Reason != inject.ReasonMisplaced || !ok && err != nil && !strings.Contains(err.Error(), "RFC 6455") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// B062: what the host says.
func TestWebSocket_CoversValues(t *testing.T) {
	t.Parallel()
	l := lender(t)
	big := strings.Repeat("x", 1<<17)
	for name, c := range map[string]struct{ says, want string }{
		"B062 text":       {frame(textFrame, "a"+value+"b", ""), frame(textFrame, "a"+ph+"b", "")},
		"fragments":       {frame(1, value[:10], "") + frame(more, value[10:11], "") + frame(last, value[11:], ""), frame(1, ph[:10], "") + frame(more, ph[10:11], "") + frame(last, ph[11:], "")},
		"a ping between":  {frame(1, value[:10], "") + frame(ping, "x", "") + frame(last, value[10:], ""), frame(1, ph[:10], "") + frame(ping, "x", "") + frame(last, ph[10:], "")},
		"base64":          {frame(binaryFrame, big+basicOf("a:"+value), ""), frame(binaryFrame, big+basicOf("a:"+ph), "")},
		"close":           {frame(closeFrame, "\x03\xe8"+value, ""), frame(closeFrame, "\x03\xe8"+ph, "")},
		"twin":            {frame(textFrame, value[:30], "") + frame(textFrame, value[30:], ""), frame(textFrame, value[:30], "") + frame(textFrame, value[30:], "")},
		"masked":          {frame(textFrame, "a", maskKey), ""},
		"compressed":      {frame(0xc1, "a", ""), ""},
		"good, then bad":  {frame(0xc1, "a", "") + frame(textFrame, "a", ""), ""},
		"unknown opcode":  {frame(0x8f, "a", ""), ""},
		"a value in bits": {"\x81\x7e\x00\x01a", ""},
	} {
		for _, step := range []int{1, 7, 1 << 20} {
			_, rw, _ := upgraded(t, l, slow{strings.NewReader(c.says), step})
			got, err := io.ReadAll(rw)
			if string(got) != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%s, by %d: %d bytes, %v", name, step, len(got), err)
			}
		}
	}
}

// T18: a message goes out when it is there, whatever it ends with.
func TestWebSocket_HoldsNoMessageBack(t *testing.T) {
	t.Parallel()
	l := lender(t)
	r, w := io.Pipe()
	defer w.Close()
	host, rw, _ := upgraded(t, l, r)
	for _, payload := range []string{"g", "ghp_16", "%", `\`} {
		f := frame(textFrame, payload, "")
		go func() { _, _ = io.WriteString(w, f) }()
		b := make([]byte, len(f))
		if _, err := io.ReadFull(rw, b); err != nil || string(b) != f {
			t.Errorf("%q, %v", b, err)
		}
		f = frame(textFrame, payload+ph[:20], maskKey)
		host.Reset()
		if _, err := io.WriteString(rw, f); err != nil || host.String() != f {
			t.Errorf("%q went out, %v", host.String(), err)
		}
	}
}

func TestWebSocket_NoExtensions(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for ext, bad := range map[string]bool{"permessage-deflate": true, "": false} {
		res := answer(http.StatusSwitchingProtocols, "")
		res.Body = &conn{Reader: strings.NewReader("")}
		if ext != "" {
			res.Header.Set("Sec-Websocket-Extensions", ext)
		}
		if err := loanFor(t, l, "GET", "inj.test").Answer(res); (err != nil) != bad {
			t.Errorf("%q: %v", ext, err)
		}
	}
	if err := loanFor(t, l, "GET", "inj.test").Answer(answer(http.StatusSwitchingProtocols, "")); err == nil {
		t.Error("a connection that cannot be written to")
	}
}

// A host cannot have the proxy hold much.
func TestWebSocket_BoundsWhatWaits(t *testing.T) {
	t.Parallel()
	l := lender(t)
	says := io.MultiReader(strings.NewReader(frame(1, value[:20], "")), &repeated{s: frame(ping, strings.Repeat("x", 125), ""), n: 1 << 15})
	_, rw, _ := upgraded(t, l, says)
	if n, err := io.Copy(io.Discard, rw); err == nil || n > 1<<10 {
		t.Errorf("%d bytes passed, %v", n, err)
	}
}

// What waits is bounded in both directions, empty frames too; as much as that
// goes out when the message goes on.
func TestWebSocket_BoundsWhatWaitsInBytes(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for name, c := range map[string]struct {
		junk  string
		count int
		bad   bool
	}{
		"pings":              {frame(ping, "", maskKey), 10_000, false},
		"too many pings":     {frame(ping, "", maskKey), 11_000, true},
		"empty parts":        {frame(more, "", maskKey), 10_000, false},
		"too many of them":   {frame(more, "", maskKey), 11_000, true},
		"long pings":         {frame(ping, strings.Repeat("x", 125), maskKey), 450, false},
		"too many long ones": {frame(ping, strings.Repeat("x", 125), maskKey), 520, true},
	} {
		host, rw, _ := upgraded(t, l, strings.NewReader(""))
		first, end := frame(1, ph[:20], maskKey), frame(last, "and more", maskKey)
		if _, err := io.WriteString(rw, first); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{strings.Repeat(c.junk, c.count), end} {
			if _, err := io.WriteString(rw, s); (err != nil) != c.bad {
				t.Errorf("%s: %v", name, err)
			}
			if c.bad {
				break
			}
		}
		if want := first + strings.Repeat(c.junk, c.count) + end; !c.bad && host.String() != want {
			t.Errorf("%s: %d bytes went out of %d", name, host.Len(), len(want))
		}
	}
}

type repeated struct {
	s string
	n int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	r.n--
	return copy(p, r.s), nil
}

// messages reads payloads of good frames that are not masked, zeros between
// messages.
func messages(b []byte) string {
	var out strings.Builder
	for len(b) >= 2 {
		op, n, head := b[0], int(b[1]), 2
		switch {
		case n == 126 && len(b) >= 4:
			n, head = int(binary.BigEndian.Uint16(b[2:])), 4
		case n == 127 && len(b) >= 10:
			n, head = int(binary.BigEndian.Uint64(b[2:])), 10
		}
		end := min(len(b), head+n)
		if op&15 < 8 {
			out.Write(b[min(head, end):end])
			if op&0x80 != 0 {
				out.WriteByte(0)
			}
		}
		b = b[end:]
	}
	return out.String()
}

// FuzzWebSocket has hostile frames in hostile pieces: they come out the same
// however they are split, and hold no value within one message's frame.
func FuzzWebSocket(f *testing.F) {
	f.Add([]byte(frame(textFrame, value, "")+frame(1, value[:9], "")+frame(ping, "a", "")+frame(last, value[9:], "")), 3)
	f.Add([]byte(frame(textFrame, ph, maskKey)+frame(1, ph[:9], maskKey)+frame(last, ph[9:], maskKey)), 5)
	f.Add([]byte("\x81\x7e\x00\x80"+strings.Repeat("x", 128)), 1)
	l := lender(f)
	f.Fuzz(func(t *testing.T, says []byte, step int) {
		step = max(1, step)
		_, whole, _ := upgraded(t, l, bytes.NewReader(says))
		_, split, _ := upgraded(t, l, slow{bytes.NewReader(says), step})
		a, errA := io.ReadAll(whole)
		b, errB := io.ReadAll(split)
		if (errA == nil) != (errB == nil) || errA == nil && !bytes.Equal(a, b) {
			t.Fatalf("%q: %q %v, %q %v", says, a, errA, b, errB)
		}
		if strings.Contains(messages(a), value) || strings.Contains(messages(b), value) {
			t.Fatalf("%q: %q, %q", says, a, b)
		}
		hostA, whole, _ := upgraded(t, l, nil)
		hostB, split, _ := upgraded(t, l, nil)
		_, errA = whole.Write(says)
		errB = nil
		for s := says; len(s) > 0 && errB == nil; s = s[min(step, len(s)):] {
			_, errB = split.Write(s[:min(step, len(s))])
		}
		if (errA == nil) != (errB == nil) || errA == nil && hostA.String() != hostB.String() || !bytes.HasPrefix(says, hostA.Bytes()) || !bytes.HasPrefix(says, hostB.Bytes()) {
			t.Fatalf("%q: %q %v, %q %v", says, hostA.String(), errA, hostB.String(), errB)
		}
	})
}
