package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/wire"
)

// kindOf says what is at a path inside.
const kindOf = `if [ -d "$1" ]; then echo folder; elif [ -e "$1" ] || [ -L "$1" ]; then echo file; fi`

// takeIn is the sandbox's side: the archive is taken in as the sandbox's own
// user, and nothing of it has a right that a file of the sandbox could not have.
const takeIn = `exec tar -C "$1" -x -f - --no-same-owner`

// In copies from the host into a sandbox.
func In(ctx context.Context, cfg Config, r Request) (Report, error) {
	c, err := begin(ctx, cfg, r)
	if err != nil {
		return c.report, err
	}
	inside := r.Inside
	var kind bytes.Buffer
	if err := c.exec(ctx, wire.Exec{Argv: []string{"sh", "-c", kindOf, "sh", inside}}, nil, &kind); err != nil {
		return c.report, err
	}
	folder := strings.TrimSpace(kind.String()) == "folder"
	if r.Host == "-" {
		if !folder {
			return c.report, bailey.NewError(bailey.NotFound, inside+" is no folder of the sandbox", "an archive is unpacked into a folder: make it first")
		}
		return c.report, c.exec(ctx, wire.Exec{Argv: []string{"sh", "-c", takeIn, "sh", inside}}, cfg.Stdin, io.Discard)
	}
	dir, name, base, err := c.source()
	if err != nil {
		return c.report, err
	}
	defer dir.Close()
	into, as := inside, base
	switch {
	case folder:
	case strings.HasSuffix(inside, "/"):
		return c.report, bailey.NewError(bailey.NotFound, "there is no folder "+inside+" in the sandbox", "make it first, or leave the slash away")
	default:
		into, as = path.Dir(path.Clean(inside)), path.Base(path.Clean(inside))
	}
	return c.report, c.send(ctx, into, func(w *tar.Writer) error {
		p := &packer{to: w, skip: c.report.skip}
		return p.pack(dir, name, as)
	})
}

// source opens the folder that what is copied lies in, and returns its name
// there, and the one under which it is copied: "." for the contents of a
// folder.
func (c *copying) source() (dir *os.File, name, base string, err error) {
	host := c.req.Host
	contents := strings.HasSuffix(host, "/.") || host == "." || filepath.Base(host) == ".."
	if contents || filepath.Clean(host) == "/" || c.req.Follow || strings.HasSuffix(host, "/") { //nolint:nestif // one kind of entry after the other
		dir, err = c.open(host)
		if err == nil {
			base = filepath.Base(filepath.Clean(host))
			if contents || base == "/" {
				base = "."
			}
			return dir, "", base, nil
		}
		if !c.req.Follow {
			return nil, "", "", hostError("read", host, err)
		}
		if host, err = c.followed(host); err != nil {
			return nil, "", "", hostError("read", c.req.Host, err)
		}
	}
	clean := filepath.Clean(host)
	if dir, err = c.open(filepath.Dir(clean)); err != nil {
		return nil, "", "", hostError("read", c.req.Host, err)
	}
	name = filepath.Base(clean)
	if _, err = beneath.Lstat(dir, name); err != nil {
		return nil, "", "", errors.Join(hostError("read", c.req.Host, err), dir.Close())
	}
	return dir, name, filepath.Base(filepath.Clean(c.req.Host)), nil
}

// followed is where a link leads that a person wants followed.
func (c *copying) followed(p string) (string, error) {
	w, err := beneath.Walk(c.absolute(p), c.written()...)
	if err == nil {
		_ = w.At.Close() // O_PATH: nothing to lose
	}
	if w.Link != "" {
		return "", &beneath.LedError{Link: w.Link}
	}
	return w.Path, err
}

// send has the sandbox take in an archive.
func (c *copying) send(ctx context.Context, into string, pack func(*tar.Writer) error) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	packed := make(chan error, 1)
	go func() {
		t := tar.NewWriter(w)
		err := pack(t)
		if err == nil {
			err = t.Close()
		}
		packed <- errors.Join(err, w.Close())
	}()
	err = c.exec(ctx, wire.Exec{Argv: []string{"sh", "-c", takeIn, "sh", into}}, r, io.Discard)
	_ = r.Close() // pack ends, if it has not
	perr := <-packed
	if perr != nil && !errors.Is(perr, syscall.EPIPE) {
		return hostError("read", c.req.Host, perr)
	}
	return err
}
