package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Bounds of what a server may answer.
const (
	maxAliases = 8   // CNAMEs between a name and its addresses
	maxRecords = 256 // in the answer section
)

// dialScreened is net.Resolver.Dial with each answer screened: the resolver
// takes whatever records stand in an answer to its question, and follows as
// many aliases as there are.
func dialScreened(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if udp, ok := c.(*net.UDPConn); ok {
		return screenedPackets{udp}, nil
	}
	return &screenedStream{Conn: c}, nil
}

// screenedPackets screens the answers that come by UDP. It stays a
// net.PacketConn, by which net.Resolver knows it.
type screenedPackets struct{ *net.UDPConn }

func (c screenedPackets) Read(b []byte) (int, error) {
	n, err := c.UDPConn.Read(b)
	return len(screenAnswer(b[:n])), err
}

// screenedStream screens the answers that come by TCP, each with its length
// before it (RFC 1035 §4.2.2).
type screenedStream struct {
	net.Conn
	rest []byte // screened, and not read yet
}

func (c *screenedStream) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		var size [2]byte
		if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
			return 0, err
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c.Conn, message); err != nil {
			return 0, err
		}
		message = screenAnswer(message)
		c.rest = append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...) //nolint:gosec // no longer than it came
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// screenAnswer returns a server's message as it may be read: itself, or, where
// checkAnswer finds fault, its header and question as a failure of the server
// (SERVFAIL). What has no header that can be read stays as it is, as no answer.
func screenAnswer(message []byte) []byte {
	err := checkAnswer(message)
	if err == nil || len(message) < headerSize {
		return message
	}
	end := questionEnd(message)
	out := message[:end]
	out[2] &^= 0x02 // not cut off: asking again by TCP helps nothing
	out[3] = out[3]&0xf0 | byte(dnsmessage.RCodeServerFailure)
	clear(out[6:headerSize]) // no answer, authority or additional records
	if end == headerSize {
		clear(out[4:6])
	}
	return out
}

// questionEnd returns where the one question of a message ends, or the end of
// the header where there is none that can be read. A name in it is not
// compressed: there is nothing before it.
func questionEnd(message []byte) int {
	if binary.BigEndian.Uint16(message[4:]) != 1 {
		return headerSize
	}
	at := headerSize
	for at < len(message) && message[at] != 0 && message[at] < 64 {
		at += 1 + int(message[at])
	}
	if at+5 > len(message) || message[at] != 0 {
		return headerSize
	}
	return at + 5
}

// checkAnswer holds the answer section of a message to its question: records
// of data belong to the name that was asked for, or to the end of a chain of at
// most maxAliases aliases that begins there. The other sections are not read.
func checkAnswer(message []byte) error {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil {
		return err
	}
	if h.Truncated || h.RCode != dnsmessage.RCodeSuccess {
		return nil // it is asked again by TCP, or says that there is nothing
	}
	q, err := p.Question()
	if err != nil {
		return err
	}
	if err := p.SkipAllQuestions(); err != nil {
		return err
	}
	owners, alias, err := readAnswers(&p)
	if err != nil {
		return err
	}
	end, err := follow(lower(q.Name), alias)
	if err != nil {
		return err
	}
	for _, owner := range owners {
		if owner != end {
			return fmt.Errorf("the answer about %s holds a record of %s", q.Name, owner)
		}
	}
	return nil
}

// readAnswers returns the owners of the records of data in an answer section,
// and where its aliases lead.
func readAnswers(p *dnsmessage.Parser) (owners []string, alias map[string]string, err error) {
	alias = map[string]string{}
	for n := 0; ; n++ {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return owners, alias, nil
		}
		if err == nil && n >= maxRecords {
			err = fmt.Errorf("the answer holds more than %d records", maxRecords)
		}
		if err == nil {
			err = readAnswer(p, h, &owners, alias)
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

func readAnswer(p *dnsmessage.Parser, h dnsmessage.ResourceHeader, owners *[]string, alias map[string]string) error {
	if h.Class != dnsmessage.ClassINET {
		return fmt.Errorf("the answer holds a record of class %s", h.Class)
	}
	if h.Type != dnsmessage.TypeCNAME {
		if isData(h.Type) {
			*owners = append(*owners, lower(h.Name))
		}
		return p.SkipAnswer()
	}
	c, err := p.CNAMEResource()
	if err != nil {
		return err
	}
	owner := lower(h.Name)
	if to, ok := alias[owner]; ok && to != lower(c.CNAME) {
		return fmt.Errorf("%s is an alias twice", h.Name)
	}
	alias[owner] = lower(c.CNAME)
	return nil
}

// isData reports whether records of a type are used: signatures and the like
// are not.
func isData(t dnsmessage.Type) bool {
	return t == dnsmessage.TypeA || t == dnsmessage.TypeAAAA || t == dnsmessage.TypeTXT || t == dnsmessage.TypeSRV
}

// follow returns where the aliases of a name end.
func follow(name string, alias map[string]string) (string, error) {
	for range maxAliases + 1 {
		next, ok := alias[name]
		if !ok {
			return name, nil
		}
		name = next
	}
	return "", fmt.Errorf("more than %d aliases lead from one name to the next", maxAliases)
}

func lower(n dnsmessage.Name) string { return strings.ToLower(n.String()) }
