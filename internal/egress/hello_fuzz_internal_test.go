package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
)

// FuzzHello: whatever a client sends first, reading it ends, and a name that
// is taken for the destination is the one that a second reader finds in the
// bytes that are passed on as the hello. Two readers that disagree are how a
// connection for one host gets past as one for another.
func FuzzHello(f *testing.F) {
	whole := helloFor(f, "allow.test")
	f.Add(whole)
	f.Add(append(bytes.Clone(whole), record(23, 1, 2, 3)...))
	f.Add(split(whole, 7))
	f.Add(bytes.Replace(whole, []byte("allow.test"), []byte("allow\x00test"), 1))
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(context.Background(), bytes.NewReader(b))
		if err != nil {
			return
		}
		size, err := helloSize(b)
		if err != nil {
			return // readHello refuses it
		}
		if size <= 0 || size > len(b) {
			t.Fatalf("a hello of %d bytes in %d", size, len(b))
		}
		if names := naiveNames(message(b[:size])); h.serverName != "" && (len(names) != 1 || names[0] != h.serverName) {
			t.Fatalf("the name is %q, and a second reader finds %q", h.serverName, names)
		} else if h.serverName == "" && len(names) > 0 {
			t.Fatalf("no name, and a second reader finds %q", names)
		}
	})
}

// split puts a hello of one record into records of n bytes.
func split(hello []byte, n int) []byte {
	var out []byte
	for rest := hello[recordHeader:]; len(rest) > 0; rest = rest[min(n, len(rest)):] {
		out = append(out, record(tlsHandshake, rest[:min(n, len(rest))]...)...)
	}
	return out
}

// message joins what the handshake records hold.
func message(b []byte) []byte {
	var out []byte
	for len(b) >= recordHeader {
		n := int(binary.BigEndian.Uint16(b[3:]))
		if b[0] == tlsHandshake {
			out = append(out, b[recordHeader:recordHeader+n]...)
		}
		b = b[recordHeader+n:]
	}
	return out
}

// naiveNames walks a ClientHello (RFC 8446 §4.1.2) to its host names
// (RFC 6066 §3), and stops where it ends.
func naiveNames(b []byte) (names []string) {
	defer func() { _ = recover() }()       // what runs past the end has said all it says
	b = b[messageHeader+2+32:]             // version and random
	b = b[1+int(b[0]):]                    // session
	b = b[2+binary.BigEndian.Uint16(b):]   // cipher suites
	b = b[1+int(b[0]):]                    // compression
	b = b[2:][:binary.BigEndian.Uint16(b)] // extensions
	for len(b) > 0 {
		kind, n := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		body := b[4 : 4+n]
		b = b[4+n:]
		if kind != 0 {
			continue
		}
		for list := body[2:][:binary.BigEndian.Uint16(body)]; len(list) > 0; {
			m := int(binary.BigEndian.Uint16(list[1:]))
			if list[0] == 0 {
				names = append(names, string(list[3:3+m]))
			}
			list = list[3+m:]
		}
	}
	return names
}
