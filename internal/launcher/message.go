package launcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/memfd"
)

// Bounds of a message, in bytes. A body that does not fit into a packet goes
// in a file in memory beside it.
const (
	maxPacket = 64 << 10
	maxInline = 32 << 10
	maxLong   = 8 << 20
	maxWords  = 4 << 10 // of an error's message, and of its hint
)

// op names what is asked.
type op string

// The operations, and the one that ends another.
const (
	opExamine  op = "examine"
	opSnapshot op = "snapshot"
	opAgent    op = "agent"
	opCheck    op = "check"
	opStatus   op = "status"
	opStop     op = "stop"
	opHandBack op = "hand-back"
	opDeliver  op = "deliver"
	opDelete   op = "delete-branch"
	opRemove   op = "remove"
	opKnown    op = "known"
	opModels   op = "models"
	opActivity op = "activity"
	opCancel   op = "cancel"
)

// message is one packet: a request with an op, or the answer to the request
// of its number.
type message struct {
	Number uint64          `json:"n"`
	Op     op              `json:"op,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Long   bool            `json:"long,omitempty"` // the body is in the first file
	Error  *Fault          `json:"error,omitempty"`
}

// Fault is an error on its way to another process.
type Fault struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// FaultOf is the form of an error: of one of bailey's own its kind, message
// and hint, of another its text.
func FaultOf(err error) *Fault {
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		return &Fault{Kind: e.Kind.String(), Message: shorten(e.Error()), Hint: shorten(e.Hint)}
	}
	return &Fault{Kind: bailey.Internal.String(), Message: shorten(err.Error())}
}

// Err is the error again. A kind that is not known is Internal.
func (f *Fault) Err() error {
	for k := bailey.Internal; k <= bailey.Unsupported; k++ {
		if k.String() == f.Kind {
			return bailey.NewError(k, f.Message, f.Hint)
		}
	}
	return bailey.NewError(bailey.Internal, f.Message, f.Hint)
}

func shorten(s string) string {
	if len(s) > maxWords {
		s = s[:maxWords] + "…"
	}
	return string(bytes.ToValidUTF8([]byte(s), []byte("�")))
}

// errProtocol is the cause of the end of a connection whose other side says
// what it should not.
var errProtocol = errors.New("the other side does not keep to the protocol")

// line is one end of the socket pair. Packets are sent by one at a time.
type line struct {
	conn *os.File
	mu   sync.Mutex
}

// send sends a message with a body and files, which stay the caller's.
func (l *line) send(m message, body any, files []*os.File) error {
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode message: %w", err)
		}
		if len(text) > maxLong {
			return fmt.Errorf("encode message: a body of %d bytes", len(text))
		}
		m.Body = text
	}
	if len(m.Body) > maxInline {
		f, err := memfd.Text("message", m.Body)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		m.Body, m.Long = nil, true
		files = append([]*os.File{f}, files...)
	}
	packet, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return fdpass.SendFiles(l.conn, packet, files)
}

// receive waits for the next message. Files that are not the body's are the
// caller's. io.EOF is the end of the other side.
func (l *line) receive() (message, []*os.File, error) {
	packet, files, err := fdpass.ReceiveFiles(l.conn, maxPacket)
	if errors.Is(err, os.ErrClosed) {
		return message{}, nil, io.EOF
	}
	if err != nil {
		return message{}, nil, err
	}
	m, rest, err := open(packet, files)
	if err != nil {
		closeFiles(files)
		return message{}, nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	return m, rest, nil
}

// open takes a message apart.
func open(packet []byte, files []*os.File) (message, []*os.File, error) {
	var m message
	if err := strict(packet, &m); err != nil {
		return m, nil, err
	}
	if !m.Long {
		return m, files, nil
	}
	if len(files) == 0 || m.Body != nil {
		return m, nil, errors.New("a long body that is not there")
	}
	body, err := memfd.ReadText(files[0], maxLong)
	if err != nil {
		return m, nil, err
	}
	_ = files[0].Close() // it was read
	m.Body = body
	return m, files[1:], nil
}

// strict decodes one JSON value whose fields are all known and which nothing
// follows.
func strict(data []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decode: something follows")
	}
	return nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
