package carry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
)

// maxListBytes bounds the list of a commit's files.
const maxListBytes = 512 << 20

// listing takes the list of a commit's files from git ls-tree(1) as it comes.
// A few objects make a tree without end: one file under any number of names, in
// folders that are one folder. Git is let go of as soon as there is more than a
// clone may have.
type listing struct {
	hash  int // bytes of an object id
	most  int // files and folders
	files map[string]*file
	names int    // of files and folders
	bytes uint64 // that the files have together once each is written out
	read  int64
	rest  []byte // the beginning of a line that is still to come
	full  string // why the rest was not read
}

// Write takes the next part of the list.
func (l *listing) Write(p []byte) (int, error) {
	if l.read += int64(len(p)); l.read > maxListBytes {
		l.full = fmt.Sprintf("a list of files of more than %d MiB, which no copy may have", maxListBytes>>20)
		return 0, errTooMuch
	}
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte{0})
		if !whole {
			return len(p), l.short(len(l.rest))
		}
		l.rest = rest
		if err := l.take(string(line)); err != nil {
			return 0, err
		}
	}
}

// short refuses a path that is longer than any that can be written out, by the
// length of its line or of what has come of it.
func (l *listing) short(line int) error {
	const head = 128
	if line <= maxPath+head {
		return nil
	}
	l.full = fmt.Sprintf("a path of more than %d bytes, which no copy can have", maxPath)
	return errTooMuch
}

// take takes one line: the mode, the kind, the id and the size of an entry, and
// behind a tab its path.
func (l *listing) take(line string) error {
	if err := l.short(len(line)); err != nil {
		return err
	}
	head, name, ok := strings.Cut(line, "\t")
	words := strings.Fields(head)
	if !ok || len(words) != 4 || !isID(words[2], l.hash) {
		return fmt.Errorf("read tree: %w", io.ErrUnexpectedEOF)
	}
	mode, err := strconv.ParseUint(words[0], 8, 32)
	if err != nil {
		return fmt.Errorf("read tree: %w", err)
	}
	if l.names++; l.names > l.most {
		l.full = fmt.Sprintf("more than %d files and folders, which is the most that a copy may have", l.most)
		return errTooMuch
	}
	switch words[1] {
	case "tree":
		return nil
	case "blob":
		size, err := strconv.ParseUint(words[3], 10, 63)
		if err != nil {
			return fmt.Errorf("read tree: the size of %s: %w", quoted(name), err)
		}
		l.bytes += min(size, math.MaxUint64-l.bytes)
	}
	l.files[name] = &file{mode: uint32(mode), id: words[2]}
	return nil
}

// tree lists the files of a commit, and refuses one that no clone may hold.
func (w *Worker) tree(ctx context.Context, g git, commit string) (map[string]*file, error) {
	l := &listing{hash: w.repo.hash, most: w.limit.TreeNames, files: map[string]*file{}}
	err := g.stream(ctx, nil, l, "ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit)
	switch most := uint64(w.limit.TreeBytes); {
	case l.full != "":
		return nil, w.tooLarge(commit, l.full)
	case ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, w.lacks(err)
	case len(l.rest) > 0:
		return nil, w.lacks(fmt.Errorf("read tree: %w", io.ErrUnexpectedEOF))
	case l.bytes > most:
		const mib = 1 << 20
		return nil, w.tooLarge(commit, fmt.Sprintf("files of %d MiB in all, and a copy may have %d MiB", (l.bytes-1)/mib+1, most/mib))
	}
	return l.files, nil
}

// tooLarge refuses a commit for what a clone of it would hold.
func (w *Worker) tooLarge(commit, what string) error {
	return bailey.NewError(bailey.Exhausted, "the commit "+commit+" of "+w.repo.root+" has "+what,
		"name a commit that holds less: large files can be left out of git, or kept by Git LFS")
}
