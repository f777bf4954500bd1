package proxy

import (
	"crypto/sha1"
	"encoding/base64"
	"io"
	"time"

	"github.com/bailey-dev/bailey"
)

// HardEnd is the bound of the role's memory.
const HardEnd = hardEnd

// WebSocketAccept is RFC 6455's answer to a key, for the test's own server.
func WebSocketAccept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// NewJournal makes a journal for tests.
func NewJournal(id bailey.SandboxID, now func() time.Time, out io.Writer) interface{ Record(bailey.Event) } {
	return &journal{sandbox: id, now: now, out: out}
}
