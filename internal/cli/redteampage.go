package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/redteam"
)

// reportPage is the file of --html. It is open before anything is attacked, so
// that a path that is no good is known before minutes of work, and so that the
// attacks cannot put a link in its place. Nil is none.
type reportPage struct {
	file *os.File
	made bool // it was not there, and is empty so far
}

func openPage(path string) (*reportPage, error) {
	if path == "" {
		return nil, nil
	}
	p := &reportPage{made: true}
	var err error
	p.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		p.made = false
		p.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644) // it may be a link to nowhere yet
	}
	if err != nil {
		return nil, pageError(err)
	}
	return p, nil
}

func pageError(err error) error {
	return bailey.WrapError(bailey.Invalid, "--html: write the report", err, "name a file in a folder that you may write to")
}

// write writes the report in the place of what the file held.
func (p *reportPage) write(r *redteam.Report) error {
	if p == nil {
		return nil
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	p.made = false
	info, err := p.file.Stat()
	if err == nil && info.Mode().IsRegular() { // a pipe has no length
		err = p.file.Truncate(0)
	}
	if err == nil {
		_, err = p.file.Write(page.Bytes())
	}
	if err = errors.Join(err, p.file.Close()); err != nil {
		return pageError(err)
	}
	return nil
}

// discard closes the file, and takes it away where it was made for nothing.
func (p *reportPage) discard() {
	if p == nil {
		return
	}
	_ = p.file.Close() // or it was closed, with what is to be said about that
	if p.made {
		_ = os.Remove(p.file.Name())
	}
}
