package budget

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
)

// Folder is where the days' files are. It is for processes that may open files.
type Folder struct{ Dir string }

// In is the folder in a user's folder of data.
func In(dataDir string) Folder { return Folder{filepath.Join(dataDir, "usage")} }

const suffix = ".jsonl"

func (f Folder) path(d Day) string { return filepath.Join(f.Dir, string(d)+suffix) }

// Days lists the days that there are files of, the oldest first. No folder is
// none.
func (f Folder) Days() ([]Day, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, bailey.WrapError(bailey.Unavailable, "look into "+f.Dir, err, "")
	}
	var out []Day
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if _, err := Day(name).start(); ok && err == nil {
			out = append(out, Day(name))
		}
	}
	slices.Sort(out)
	return out, nil
}

// Newest opens the page of today, and makes it where there is none; then the
// one before it has ended. Where there is a page of a later day it is that one,
// since days never go back: the clock was set back, or was wrong for a while.
func (f Folder) Newest(ctx context.Context, now time.Time) (Page, error) {
	return f.after(ctx, "", now)
}

// Next opens the page that follows a day. It is what a Ledger's Config asks for.
func (f Folder) Next(ctx context.Context, day Day, now time.Time) (Page, error) {
	return f.after(ctx, day, now)
}

func (f Folder) after(ctx context.Context, day Day, now time.Time) (Page, error) {
	if err := f.prepare(); err != nil {
		return Page{}, err
	}
	days, err := f.Days()
	if err != nil {
		return Page{}, err
	}
	next := DayOf(now)
	if n := len(days); n > 0 {
		next = max(next, days[n-1])
	}
	if day != "" && next <= day { // it has ended, and nobody came to make the next one
		start, err := day.start()
		if err != nil {
			return Page{}, fmt.Errorf("bug: %.20q is no day", day)
		}
		next = DayOf(start.AddDate(0, 0, 1))
	}
	if next.aheadOf(now) {
		return Page{}, ahead(f.path(next), next)
	}
	if n := len(days); n > 0 && days[n-1] < next {
		if err := f.endDay(ctx, days[n-1], next); err != nil {
			return Page{}, err
		}
	}
	return f.open(next)
}

// endDay says in a day's file that nothing is reserved there any more.
func (f Folder) endDay(ctx context.Context, day, next Day) error {
	opened, err := f.open(day)
	if err != nil {
		return err
	}
	defer func() { _ = opened.File.Close() }() // and with it the lock
	p := newPage(opened, identity{})
	return p.locked(ctx.Done(), func() error {
		if err := p.read(); err != nil || p.ended != "" {
			return err
		}
		return p.append(record{Kind: endOfDay, Next: next})
	})
}

// Since opens the pages of the days before the newest page, from one on: those
// of a task that began then.
func (f Folder) Since(first, newest Day) (out []Page, err error) {
	days, err := f.Days()
	if err != nil {
		return nil, err
	}
	for _, d := range days {
		if d < first || d >= newest {
			continue
		}
		p, err := f.open(d)
		if err != nil {
			for _, p := range out {
				_ = p.File.Close()
			}
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// prepare makes the folder, which is the user's alone.
func (f Folder) prepare() error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return bailey.WrapError(bailey.Unavailable, "make "+f.Dir, err, "make the folder above it writable: no model is called without a record")
	}
	fi, err := os.Lstat(f.Dir)
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "look at "+f.Dir, err, "")
	}
	if !fi.IsDir() {
		return bailey.NewError(bailey.Forbidden, f.Dir+" is no folder of its own", "put the folder itself there, in place of a link or a file")
	}
	return own(f.Dir, fi, "chmod 700 "+f.Dir)
}

// open opens a day's file, which is the user's alone, and makes it.
func (f Folder) open(d Day) (Page, error) {
	path := f.path(d)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return Page{}, bailey.NewError(bailey.Forbidden, path+" is a link", "put the file itself there")
	}
	if err != nil {
		return Page{}, bailey.WrapError(bailey.Unavailable, "open the record of usage", err, "no model is called without a record: make the file writable")
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = bailey.NewError(bailey.Forbidden, path+" is no plain file", "move it away")
	}
	if err == nil {
		err = own(path, fi, "chmod 600 "+path)
	}
	if err != nil {
		_ = file.Close()
		return Page{}, err
	}
	return Page{d, file}, nil
}

// own refuses what is another user's, or open to others.
func own(path string, fi fs.FileInfo, fix string) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != os.Getuid():
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s does not belong to user %d", path, os.Getuid()), "use bailey as its owner, or move it away")
	case fi.Mode().Perm()&0o077 != 0:
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s is open to other users (mode %04o)", path, fi.Mode().Perm()), fix)
	}
	return nil
}
