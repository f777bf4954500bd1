package egress

import (
	"slices"
	"strings"
	"testing"
)

// A server that speaks first is not one of HTTP, in whatever pieces it says so
// (EGR-04).
func TestGreetedScreen_Server(t *testing.T) {
	t.Parallel()
	for text, pass := range map[string]bool{
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00":                         false, // SETTINGS
		"\x00\x00\x18\x04\x00\x00\x00\x00\x00\x00\x05\x00\x10\x00\x00": false,
		"\x00\x00\x06\x04\xfe\x80\x00\x00\x00":                         false, // flags and a bit that are to be ignored
		"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x01\x00\x00":         false, // WINDOW_UPDATE
		"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678":                 false, // PING
		"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00":         false, // GOAWAY
		"\x00\x00\x02\x0c\x00\x00\x00\x00\x00\x00\x00":                 false, // ORIGIN
		"HTTP/1.1 408 Request Timeout\r\n\r\n":                         false,
		"HTTP/1.0 200 OK\r\n":                                          false,

		"220 mail.test ESMTP\r\n":                         true,
		"220 ftp.test HTTP/1.1 is not spoken\r\n":         true,
		"SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x05\xdc\x06\x14": true,
		"+OK pop\r\n":                                    true,
		"* OK [CAPABILITY IMAP4rev1] imap\r\n":           true,
		"RFB 003.008\n":                                  true,
		"\x4a\x00\x00\x00\x0a8.0.36\x00\x08\x00\x00\x00": true, // mysql
		"\x00\x00\x00\x04":                               true, // four bytes, and no more
		"\xff\xfd\x18\xff\xfd\x20\xff\xfd\x23":           true, // telnet
		"\x00\x00\x05\x04\x00\x00\x00\x00\x00":           true, // of no length that SETTINGS has
		"\x00\x00\x06\x04\x00\x00\x00\x00\x01":           true, // of a stream
		"HTTP is not spoken here\r\n":                    true,
		"\x00":                                           true,
		"":                                               true,
	} {
		for _, size := range []int{1, 2, 7, 8, 4096} {
			s := newGreetedScreen()
			ok := true
			for p := range slices.Chunk([]byte(text), size) {
				ok = ok && s.judgeServer(p) == nil
			}
			if ok != pass {
				t.Errorf("%q in pieces of %d: passed %v, want %v", text, size, ok, pass)
			}
		}
	}
}

// What a client says first after a greeting is no request; and said is set by
// what is none, which a server may answer.
func TestGreetedScreen_Client(t *testing.T) {
	t.Parallel()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for text, want := range map[string]struct{ pass, said bool }{
		preface:                                 {false, false},
		"\r\n\r\n" + preface:                    {false, false},
		"GET / HTTP/1.1\r\nHost: evil.test\r\n": {false, false},
		"junk\r\n" + preface:                    {false, true},
		"\x00\r\n" + preface:                    {false, true},
		"junk\r\nGET /x\r\n":                    {false, true},
		"PROXY UNKNOWN\r\n":                     {false, false},
		"\x16\x03\x01\x00\xc8\x01\x00":          {false, true},

		"":                {true, false},
		"PRI * HTTP":      {true, false}, // more has to come
		"\r\n\r\n":        {true, false},
		"EHLO a.test\r\n": {true, true},
		"SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x05\xdc": {true, true},
		"USER anonymous\r\n":                      {true, true},
		"a1 LOGIN a b\r\n":                        {true, true},
		"\x16\x01\x00\x01\x8d\xa6\xff\x19\x00":    {true, true}, // mysql, of 278 bytes
		"\x16\x03\x00\x01\x8d\xa6\xff\x19\x00":    {true, true}, // and of 790
		"\xff\xfb\x18":                            {true, true}, // telnet
	} {
		for _, size := range []int{1, 2, 7, 4096} {
			s := newGreetedScreen()
			ok := true
			for p := range slices.Chunk([]byte(text), size) {
				ok = ok && s.judge(p) == nil
			}
			if ok != want.pass || ok && s.said != want.said {
				t.Errorf("%q in pieces of %d: passed %v, said %v, want %v", text, size, ok, s.said, want)
			}
		}
	}
	s := newGreetedScreen()
	if err := s.judge([]byte(strings.Repeat("a", 100))); err != nil || s.said {
		t.Errorf("a line that has not ended: %v, %v", err, s.said)
	}
}
