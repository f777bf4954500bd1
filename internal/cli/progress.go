package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// progress shows what goes on while something is built: on a terminal the last
// line that was said, over and over on one line; anywhere else our own
// sentences. It keeps the end of what was said, for when it goes wrong. All of
// it is the word of what runs in a sandbox.
type progress struct {
	to    *os.File
	width int // of the terminal; 0 where there is none

	mu    sync.Mutex
	lines []string // the last ones
	shown bool     // there is something on the terminal's line
}

// mostTail is how many lines are kept, mostLine how many bytes of one.
const (
	mostTail = 60
	mostLine = 4096
)

func newProgress(to *os.File) *progress {
	p := &progress{to: to, width: 0, mu: sync.Mutex{}, lines: nil, shown: false}
	if size, err := pty.GetSize(to); err == nil && pty.IsTerminal(to) {
		p.width = max(int(size.Cols), 20)
	}
	return p
}

// say prints a sentence of ours.
func (p *progress) say(sentence string) {
	p.clear()
	_, _ = fmt.Fprintf(p.to, "bailey: %s\n", terminal.Sanitize(sentence))
}

// clear takes what is on the terminal's line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}

// follow returns what a step's output goes to, and what waits, when that is
// closed, until all of it was read. What earlier steps said is forgotten.
func (p *progress) follow() (to *os.File, done func() error, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	p.lines = nil
	p.mu.Unlock()
	end := make(chan error, 1)
	go func() { end <- p.read(r) }()
	return w, func() error { return <-end }, nil
}

func (p *progress) read(r io.ReadCloser) error {
	defer func() { _ = r.Close() }() // read only
	lines := bufio.NewReaderSize(r, mostLine)
	for {
		line, err := lines.ReadSlice('\n') // a longer one comes in pieces
		if len(line) > 0 {
			p.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func (p *progress) line(raw []byte) {
	for len(raw) > 0 && (raw[len(raw)-1] == '\n' || raw[len(raw)-1] == '\r') {
		raw = raw[:len(raw)-1]
	}
	text := terminal.Sanitize(string(raw))
	if text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == mostTail {
		p.lines = append(p.lines[:0], p.lines[1:]...)
	}
	p.lines = append(p.lines, text)
	if p.width == 0 {
		return
	}
	if cut := []rune(text); len(cut) >= p.width {
		text = string(cut[:p.width-1])
	}
	_, _ = fmt.Fprintf(p.to, "\r\x1b[K%s", text)
	p.shown = true
}

// tail returns the last lines.
func (p *progress) tail() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.lines...)
}
