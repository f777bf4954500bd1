package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/wire"
)

// stalled is how long nothing may move.
const stalled = time.Minute

// Config says whose files are copied.
type Config struct {
	Runtime string // bailey's runtime folder
	Dir     string // the current folder
	Stdin   *os.File
	Stdout  io.Writer
}

// Request is one copy.
type Request struct {
	Sandbox string
	Inside  string // path in the sandbox
	Host    string // path on the host, or "-" for an archive
	Follow  bool   // links of what is copied are followed, on the side where it is
	Limits  Limits // of what comes out
}

// Report is what is to be told about a copy.
type Report struct {
	Files   int64
	Skipped []string       // what was left out, and why
	More    int            // skipped beyond those
	Planted []task.Planted // what would make something run on the host
}

func (r *Report) skip(name, why string) {
	const most = 20
	if name == "" {
		name = "what was named"
	}
	if len(r.Skipped) == most {
		r.More++
		return
	}
	r.Skipped = append(r.Skipped, name+" "+why)
}

// copying is one copy under way.
type copying struct {
	cfg    Config
	req    Request
	info   control.Info
	report Report
}

func begin(ctx context.Context, cfg Config, r Request) (*copying, error) {
	info, _, err := control.Ask(ctx, cfg.Runtime, r.Sandbox, control.Status)
	return &copying{cfg: cfg, req: r, info: info}, err
}

// Out copies from a sandbox to the host.
func Out(ctx context.Context, cfg Config, r Request) (Report, error) {
	c, err := begin(ctx, cfg, r)
	if err != nil {
		return c.report, err
	}
	dir, base := split(r.Inside)
	argv := []string{"tar", "-C", dir, "-c", "-f", "-"}
	if r.Follow {
		argv = append(argv, "-h")
	}
	argv = append(argv, "--", base)
	if r.Host == "-" {
		w := tar.NewWriter(cfg.Stdout)
		if err = c.receive(ctx, argv, base, filter{w}); err == nil {
			err = w.Close()
		}
		return c.report, err
	}
	into, as, err := c.destination(base)
	if err != nil {
		return c.report, err
	}
	defer into.Close()
	u, err := newUnpacker(into)
	if err != nil {
		return c.report, hostError("write to", r.Host, err)
	}
	if err = c.receive(ctx, argv, base, u); err == nil {
		if err = u.place(as); err != nil {
			err = hostError("put in its place", r.Host, err)
		}
	}
	c.report.Files, c.report.Planted = u.count, u.planted
	for i := range c.report.Planted {
		c.report.Planted[i].Path = path.Join(as, c.report.Planted[i].Path)
	}
	return c.report, errors.Join(err, u.close())
}

// split cuts a path of the sandbox into a folder and a name in it; "." for the
// contents of a folder.
func split(inside string) (dir, base string) {
	if strings.HasSuffix(inside, "/.") || inside == "." || path.Clean(inside) == "/" || path.Base(inside) == ".." {
		return inside, "."
	}
	inside = path.Clean(inside)
	return path.Dir(inside), path.Base(inside)
}

// destination opens the folder that holds the place on the host, and returns
// the name there; an empty one for the contents of a folder into that folder.
// This is docker's reading of the two paths.
func (c *copying) destination(base string) (into *os.File, as string, err error) {
	host := c.req.Host
	dir, err := c.open(host)
	switch {
	case err == nil && base == ".":
		return dir, "", nil
	case err == nil:
		return dir, base, nil
	case strings.HasSuffix(host, "/"):
		return nil, "", bailey.WrapError(bailey.NotFound, "copy to "+host, err, "make the folder first, or leave the slash away")
	}
	clean := filepath.Clean(host)
	if dir, err = c.open(filepath.Dir(clean)); err != nil {
		return nil, "", hostError("copy to", host, err)
	}
	return dir, filepath.Base(clean), nil
}

// open opens a folder of the host that a person named. In the workspace, and in
// what else of the host the sandbox writes to and so can put links in, none is
// followed, by whatever path it is come to.
func (c *copying) open(p string) (*os.File, error) {
	return beneath.Folder(c.absolute(p), c.written()...)
}

func (c *copying) absolute(p string) string {
	if !filepath.IsAbs(p) {
		p = filepath.Join(c.cfg.Dir, p)
	}
	return p
}

// written are the folders of the host that the sandbox may write to.
func (c *copying) written() []string {
	list := []string{c.info.Workspace}
	for _, m := range c.info.Mounts {
		if m.Writable {
			list = append(list, m.Source)
		}
	}
	return list
}

func hostError(what, name string, err error) error {
	if _, ok := errors.AsType[*bailey.Error](err); ok {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s %s: there is no such file or folder on this machine", what, name), "the path is one from the folder that you are in; NAME:PATH is one in a sandbox")
	}
	return bailey.WrapError(bailey.Unavailable, what+" "+name, err, "in the workspace no link is followed; otherwise see whether it is there and may be written to")
}

// receive has the sandbox send an archive, and judges it.
func (c *copying) receive(ctx context.Context, argv []string, base string, to sink) error {
	r, w := io.Pipe()
	var judged error
	var wg sync.WaitGroup
	wg.Go(func() {
		judged = judge(r, base, c.req.Limits, to, c.report.skip)
		if judged == nil {
			_, judged = io.Copy(io.Discard, r) // what tar fills up its last block with
		}
		_ = r.CloseWithError(io.ErrClosedPipe)
	})
	err := c.exec(ctx, wire.Exec{Argv: argv}, nil, w)
	_ = w.Close()
	wg.Wait()
	switch e, failed := errors.AsType[*failedError](err); {
	case judged != nil && !errors.Is(judged, io.ErrUnexpectedEOF):
		return hostError("take in", c.req.Sandbox+":"+c.req.Inside, judged)
	case failed && e.code == changed && judged == nil:
		c.report.skip(e.said+":", "not all is as it was when the copy began")
		return nil
	case failed && (strings.HasPrefix(e.said, "tar: "+base+": ") || strings.Contains(e.said, ": Cannot open: ")) && strings.Contains(e.said, "No such file or directory"): // it, or its folder
		return bailey.NewError(bailey.NotFound, fmt.Sprintf("there is no %s in the sandbox", c.req.Inside), "paths inside are relative to where its command started: bailey exec "+c.req.Sandbox+" -- ls")
	case err != nil:
		return err // tar says what is wrong; that its archive is cut short says nothing more
	}
	return judged
}

// changed is the exit code of GNU's tar when a file changed while it was read.
const changed = 1

// failedError is the end of a program in the sandbox.
type failedError struct {
	code int
	said string
}

// Error says what it said.
func (e *failedError) Error() string { return "in the sandbox: " + e.said }

// exec runs a program in the sandbox until it has ended. What it says to
// standard errors is the error of one that fails.
func (c *copying) exec(ctx context.Context, x wire.Exec, stdin *os.File, stdout io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, conn, err := control.Ask(ctx, c.cfg.Runtime, c.req.Sandbox, control.Exec)
	if err != nil {
		return err
	}
	late := time.AfterFunc(stalled, func() {
		cancel(bailey.NewError(bailey.Unavailable, fmt.Sprintf("nothing moved for %v", stalled), "the sandbox may be stopped, or the disk slow: try again"))
	})
	defer late.Stop()
	said := &tail{}
	res, err := session.Run(ctx, session.Dial(moving{conn, late}), session.Options{Command: x, Stdin: stdin, Stdout: stdout, Stderr: said})
	switch {
	case err != nil && res.Code == bailey.ExitNotFound:
		return bailey.NewError(bailey.Unsupported, "there is no "+x.Argv[0]+" in the sandbox", "install tar on this machine: the sandbox has its programs")
	case err != nil:
		return err
	case res.Status() != 0:
		return &failedError{res.Status(), said.text()}
	}
	return nil
}

// moving is a connection that has a timer begin anew whenever something moves.
type moving struct {
	io.ReadWriteCloser
	late *time.Timer
}

// Read reads.
func (m moving) Read(p []byte) (int, error) {
	n, err := m.ReadWriteCloser.Read(p)
	m.late.Reset(stalled)
	return n, err
}

// Write writes.
func (m moving) Write(p []byte) (int, error) {
	n, err := m.ReadWriteCloser.Write(p)
	m.late.Reset(stalled)
	return n, err
}

// tail keeps the first of what a program says.
type tail struct{ b []byte }

// Write keeps p while there is room.
func (t *tail) Write(p []byte) (int, error) {
	const most = 2 << 10
	t.b = append(t.b, p[:min(len(p), max(0, most-len(t.b)))]...)
	return len(p), nil
}

func (t *tail) text() string {
	if s := strings.Join(strings.FieldsFunc(string(t.b), func(r rune) bool { return r == '\n' }), "; "); s != "" {
		return s
	}
	return "it failed"
}
