package launcher

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"github.com/bailey-dev/bailey"
)

// The log is at most logFiles+1 files of logSize bytes.
const (
	logSize  = 8 << 20
	logFiles = 3
)

// rotating is a file that is put aside when it has its size. What cannot be
// written is lost: a log may be (docs/style.md).
type rotating struct {
	path string
	size int64

	mu   sync.Mutex
	file *os.File
	has  int64
}

func openLog(path string, size int64) (*rotating, error) {
	r := &rotating{path: path, size: size}
	if err := r.open(); err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "open the service's log", err, "make its folder writable, or set XDG_STATE_HOME")
	}
	return r, nil
}

func (r *rotating) open() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open log: %w", err), f.Close())
	}
	r.file, r.has = f, info.Size()
	return nil
}

// Write appends a whole record.
func (r *rotating) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has+int64(len(p)) > r.size && r.has > 0 {
		r.rotate()
	}
	if r.file == nil {
		return len(p), nil
	}
	n, err := r.file.Write(p)
	r.has += int64(n)
	return n, err
}

// rotate begins with a new file.
func (r *rotating) rotate() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
	for i := logFiles; i > 0; i-- {
		from := r.path
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		_ = os.Rename(from, r.path+"."+strconv.Itoa(i)) // one that is not there is no loss
	}
	if r.open() != nil {
		r.has = 0 // tried again with the next record
	}
}

// Close closes the file.
func (r *rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// maxLogLine bounds a line of another role's, in bytes.
const maxLogLine = 8 << 10

// relay writes what another role says on its standard error into the log, line
// by line and as text: it may be hostile.
func relay(ctx context.Context, from io.Reader, who string, log *slog.Logger) {
	lines := bufio.NewReaderSize(from, maxLogLine)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil // the rest is another line
		}
		if len(line) > 0 {
			log.LogAttrs(ctx, slog.LevelInfo, "a role says", slog.String("role", who), slog.String("line", string(line)))
		}
		if err != nil {
			return
		}
	}
}
