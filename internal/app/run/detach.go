package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/role"
)

// Detach has another process of bailey's own hold the sandbox: in a session of
// its own, so that it outlives the terminal, and with this command line, args.
// It returns when the command runs, or with --detachable attaches to it.
func Detach(ctx context.Context, h Host, r Request, args []string) (int, error) {
	keys, err := r.Background.keys()
	if err != nil {
		return 0, err
	}
	conn, err := startHolder(h, args)
	if err != nil {
		return 0, bailey.WrapError(bailey.Unavailable, "start the process that holds the sandbox", err, "")
	}
	defer conn.Close()
	n := hello{TTY: r.Background.terminal(h), Attach: r.Background.Detachable}
	if n.TTY {
		if size, err := pty.GetSize(h.Stdout); err == nil {
			n.Rows, n.Cols = size.Rows, size.Cols
		}
	}
	if err := json.NewEncoder(conn).Encode(n); err != nil {
		return 0, bailey.WrapError(bailey.Unavailable, "speak to the process that holds the sandbox", err, "")
	}
	w := &waiting{host: h, notes: bufio.NewReaderSize(conn, 4096)}
	end := w.listen(r.Background.Detachable)
	switch {
	case end.err != nil || end.Exit != nil:
		return end.result()
	case end.Started:
		if !r.Quiet && !r.JSON {
			_, _ = fmt.Fprintf(h.Stderr, "bailey: %s\n", r.Background.where(w.name, n.TTY))
		}
		_, err := fmt.Fprintln(h.Stdout, w.name)
		return 0, err
	}
	return w.attach(ctx, keys)
}

// startHolder starts the process and returns our end of the socket to it.
func startHolder(h Host, args []string) (net.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "holder"), os.NewFile(uintptr(fds[1]), "front")
	defer theirs.Close()
	defer ours.Close()
	cmd := &exec.Cmd{
		Path: h.Executable, Args: append([]string{role.Holder}, args...),
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return net.FileConn(ours)
}

// waiting is who waits for a holder.
type waiting struct {
	host  Host
	notes *bufio.Reader
	name  string
}

// last is the note that ends the waiting.
type last struct {
	note
	err error
}

// errHolder is the reason of a holder that says none.
var errHolder = errors.New("it ended at once")

// listen shows what is said until there is something to do: with attach, when
// the sandbox has a name.
func (w *waiting) listen(attach bool) last {
	for {
		var n note
		line, err := readNote(w.notes)
		if err == nil {
			err = json.Unmarshal(line, &n)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errHolder
			}
			return last{err: bailey.WrapError(bailey.Unavailable, "the process that holds the sandbox", err, "without --detach more is seen")}
		}
		switch {
		case n.Said != "":
			_, _ = io.WriteString(w.host.Stderr, n.Said) // sanitised where it was said
		case n.Name != "":
			if w.name = n.Name; attach {
				return last{note: n}
			}
		case n.Failed != nil:
			return last{err: n.Failed.err()}
		default:
			return last{note: n}
		}
	}
}

func readNote(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, more, err := r.ReadLine()
		if err != nil {
			return nil, err
		}
		if line = append(line, part...); !more {
			return line, nil
		}
		if len(line) > mostNote {
			return nil, errors.New("a note that is too long")
		}
	}
}

func (l last) result() (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	if l.Exit != nil {
		return *l.Exit, nil
	}
	return 0, nil
}

// attach attaches to a command that waits for it, and shows meanwhile what is
// said at its start.
func (w *waiting) attach(ctx context.Context, keys []byte) (int, error) {
	ended := make(chan last, 1)
	go func() { ended <- w.listen(false) }()
	a, err := dialAttach(ctx, w.host, w.name)
	if err == nil {
		var code int
		if code, err = a.run(ctx, keys, false); err == nil || a.started {
			return code, err
		}
	}
	select { // why it never ran
	case l := <-ended:
		if !l.Started {
			return l.result()
		}
	case <-time.After(helloWithin):
	}
	return 0, err
}
