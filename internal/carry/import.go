package carry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// importer makes a commit by git fast-import(1): git gets the contents of files
// as bytes, and never a path of a work tree. It is a sink.
type importer struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	w         *bufio.Writer
	complaint *tail
	ctx       context.Context //nolint:containedctx // of the process that it is the other end of
	marks     int
	orders    []string // lines of the commit
	removed   []string
}

// startImport starts git with a git folder of bailey's own.
func startImport(ctx context.Context, g git) (*importer, error) {
	i := &importer{complaint: &tail{}, ctx: ctx}
	i.cmd = g.command(ctx, i.complaint, "fast-import", "--quiet", "--done", "--force", "--date-format=raw", "--depth=0")
	in, err := i.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start import: %w", err)
	}
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start import: %w", err)
	}
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start import: %w", err)
	}
	const buffer = 256 << 10
	i.in, i.out, i.w = in, bufio.NewReader(out), bufio.NewWriterSize(in, buffer)
	return i, nil
}

func (i *importer) put(path string, mode uint32, data []byte) error {
	i.marks++
	if _, err := fmt.Fprintf(i.w, "blob\nmark :%d\ndata %d\n", i.marks, len(data)); err != nil {
		return i.broken(err)
	}
	if _, err := i.w.Write(data); err != nil {
		return i.broken(err)
	}
	if err := i.w.WriteByte('\n'); err != nil {
		return i.broken(err)
	}
	i.orders = append(i.orders, fmt.Sprintf("M %o :%d %s\n", mode, i.marks, quotePath(path)))
	return nil
}

func (i *importer) mode(path string, mode uint32, id string) error {
	i.orders = append(i.orders, fmt.Sprintf("M %o %s %s\n", mode, id, quotePath(path)))
	return nil
}

func (i *importer) remove(path string) error {
	i.removed = append(i.removed, fmt.Sprintf("D %s\n", quotePath(path)))
	return nil
}

// quotePath quotes a path so that fast-import reads back the same bytes.
func quotePath(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// empty reports whether there is nothing to commit.
func (i *importer) empty() bool { return len(i.orders)+len(i.removed) == 0 }

// author is who the commits are by, whoever the agent says it is.
const author = "bailey agent <agent@bailey.invalid>"

// commit ends the import with a commit on a reference, and returns its id.
// Without a difference there is none, and the id is empty.
func (i *importer) commit(ref, base, message string, now time.Time) (string, error) {
	if i.empty() {
		return "", i.end()
	}
	who := fmt.Sprintf("%s %d +0000", author, now.Unix())
	text := fmt.Sprintf("commit %s\nmark :%d\nauthor %s\ncommitter %s\ndata %d\n%s\nfrom %s\n", ref, i.marks+1, who, who, len(message), message, base)
	slices.Sort(i.removed)
	for _, part := range slices.Concat([]string{text}, i.removed, i.orders, []string{fmt.Sprintf("\nget-mark :%d\n", i.marks+1)}) {
		if _, err := i.w.WriteString(part); err != nil {
			return "", i.broken(err)
		}
	}
	if err := i.w.Flush(); err != nil {
		return "", i.broken(err)
	}
	id, err := i.out.ReadString('\n')
	if err != nil {
		return "", i.broken(err)
	}
	return strings.TrimSuffix(id, "\n"), i.end()
}

func (i *importer) end() error {
	_, err := i.w.WriteString("done\n")
	err = errors.Join(err, i.w.Flush(), i.in.Close())
	if waitErr := i.cmd.Wait(); waitErr != nil {
		return failed(i.ctx, []string{"fast-import"}, waitErr, i.complaint)
	}
	return err
}

// broken ends a git that does not take what it is given, and says why.
func (i *importer) broken(err error) error {
	_ = i.in.Close() // it is at its end
	if waitErr := i.cmd.Wait(); waitErr != nil {
		err = waitErr
	}
	return failed(i.ctx, []string{"fast-import"}, err, i.complaint)
}

// abandon ends an import that is not wanted any more.
func (i *importer) abandon() {
	_ = i.cmd.Process.Kill()
	_ = i.in.Close()
	_ = i.cmd.Wait()
}
