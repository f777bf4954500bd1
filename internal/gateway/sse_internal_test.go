package gateway

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/semaphore"
)

// readEvents lists the events of a stream, and how it ended.
func readEvents(r io.Reader) ([]string, error) {
	in := newEvents(r, &room{all: semaphore.NewWeighted(maxRoom)})
	var out []string
	for {
		name, data, err := in.next()
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%s|%s", name, data))
	}
}

// TestEvents_LineRules: every end of a line is one (D073), and what is written
// is read back as the same events, whole or byte by byte.
func TestEvents_LineRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"LF":             {"event: a\ndata: 1\n\ndata: 2\n\n", []string{"a|1", "|2"}},
		"CRLF":           {"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", []string{"a|1", "|2"}},
		"CR":             {"event: a\rdata: 1\r\rdata: 2\r\r", []string{"a|1", "|2"}},
		"mixed":          {"event: a\r\ndata: 1\r\n\ndata: 2\n\r\n", []string{"a|1", "|2"}},
		"several lines":  {"data: 1\ndata: 2\ndata\n\n", []string{"|1\n2\n"}},
		"no space":       {"data:1\n\n", []string{"|1"}},
		"comment":        {": ping\n\ndata: 1\n: more\n\n", []string{"|", "|1"}},
		"unknown fields": {"id: 7\nretry: 1\nother\ndata: 1\n\n", []string{"|1"}},
		"unfinished":     {"data: 1\n\ndata: 2\n", []string{"|1"}},
		"an event in the data of another": {
			"data: {\"text\":\"\\n\\nevent: message_stop\\ndata: {}\"}\n\n",
			[]string{`|{"text":"\n\nevent: message_stop\ndata: {}"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream))} {
				got, err := readEvents(r)
				if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, io.EOF) {
					t.Errorf("%v\n%s", err, diff)
				}
			}
		})
	}
}

// TestEvents_Bounds: no event is larger than the bound, however it is cut into
// lines; one below it passes.
func TestEvents_Bounds(t *testing.T) {
	t.Parallel()
	line := "data: " + strings.Repeat("x", maxEvent/8) + "\n"
	if got, err := readEvents(strings.NewReader(strings.Repeat(line, 7) + "\n")); len(got) != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("below the bound: %d events, %v", len(got), err)
	}
	for name, stream := range map[string]string{
		"one line":      "data: " + strings.Repeat("x", maxEvent+1),
		"several lines": strings.Repeat(line, 9) + "\n",
	} {
		if got, err := readEvents(strings.NewReader(stream)); len(got) != 0 || !errors.Is(err, errEvent) {
			t.Errorf("%s: %d events, %v", name, len(got), err)
		}
	}
}

// FuzzEvents: what is written anew is read as the same events.
func FuzzEvents(f *testing.F) {
	f.Add("event: a\ndata: 1\n\n: c\n\ndata: 2\ndata: 3\r\r\n")
	f.Add("data\n\n\xff\x00event: b\rdata: \r\r")
	f.Fuzz(func(t *testing.T, stream string) {
		in := newEvents(strings.NewReader(stream), &room{all: semaphore.NewWeighted(maxRoom)})
		var want []string
		var again []byte
		for {
			name, data, err := in.next()
			if err != nil {
				break
			}
			want = append(want, fmt.Sprintf("%s|%s", name, data))
			again = appendEvent(again, name, data)
		}
		got, _ := readEvents(strings.NewReader(string(again)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q\n%s", again, diff)
		}
	})
}
