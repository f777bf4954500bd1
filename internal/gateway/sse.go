package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEvent bounds one event of a stream, in bytes. The official clients take
// lines of up to 32 MiB.
const maxEvent = 16 << 20

var errEvent = errors.New("an event of the provider's answer is too long")

// events reads a stream of server-sent events by the rules of the HTML standard
// (§9.2.6): a line ends with LF, CRLF or CR, an event with an empty line.
// What is passed on is written anew by the same rules, so that nobody reads
// other events out of it than were read here (D073).
type events struct {
	r     *bufio.Reader
	name  []byte
	data  []byte
	lines int  // of data
	size  int  // of the event so far
	cr    bool // the line before ended with CR: a LF belongs to it
	long  []byte
	room  *room // that the event may take
}

func newEvents(r io.Reader, in *room) *events {
	return &events{r: bufio.NewReaderSize(r, 2<<10), room: in}
}

// next returns the next event's name and data, which are good until the call
// after. A comment is an event without either, so that it can be passed on as a
// sign of life. What follows the last empty line is no event.
func (e *events) next() (name string, data []byte, err error) {
	e.name, e.data, e.lines, e.size = e.name[:0], e.data[:0], 0, 0
	for {
		line, err := e.line()
		if err != nil {
			return "", nil, err
		}
		e.size += len(line)
		switch {
		case e.size > maxEvent:
			return "", nil, errEvent
		case !e.room.need(e.size):
			return "", nil, errRoom
		case len(line) == 0 && e.lines == 0 && len(e.name) == 0:
			continue // nothing has been said
		case len(line) == 0:
			return string(e.name), e.data, nil
		case line[0] == ':':
			if e.lines == 0 && len(e.name) == 0 {
				return "", nil, nil
			}
			continue
		}
		e.field(line)
	}
}

func (e *events) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if e.lines > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		e.lines++
	case "event":
		e.name = append(e.name[:0], value...)
	}
}

// line returns the next line without its end.
func (e *events) line() ([]byte, error) {
	e.long = e.long[:0]
	for {
		if _, err := e.r.Peek(1); err != nil {
			return nil, err //nolint:wrapcheck // io.EOF is told apart
		}
		chunk, _ := e.r.Peek(e.r.Buffered())
		if e.cr && chunk[0] == '\n' {
			_, _ = e.r.Discard(1)
			e.cr = false
			continue
		}
		e.cr = false
		i := bytes.IndexAny(chunk, "\r\n")
		if i < 0 {
			e.long = append(e.long, chunk...)
			_, _ = e.r.Discard(len(chunk))
			if len(e.long) > maxEvent {
				return nil, errEvent
			}
			if !e.room.need(e.size + len(e.long)) {
				return nil, errRoom
			}
			continue
		}
		e.cr = chunk[i] == '\r'
		e.long = append(e.long, chunk[:i]...)
		_, _ = e.r.Discard(i + 1)
		return e.long, nil
	}
}

// appendEvent writes an event.
func appendEvent(b []byte, name string, data []byte) []byte {
	if name == "" && len(data) == 0 {
		return append(b, ":\n\n"...)
	}
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	for more := len(data) > 0; more; {
		var line []byte
		line, data, more = bytes.Cut(data, []byte{'\n'})
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}
