package netlog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/inotify"
)

const (
	lookAgain = 2 * time.Second        // for what the kernel did not tell
	pollEvery = 250 * time.Millisecond // where it tells nothing
)

// Follow yields records as they come, behind those that Read yielded, until ctx
// ends or yield returns an error, which it returns.
func (r *Reader) Follow(ctx context.Context, yield func(Record) error) error {
	changed, stop := r.watch()
	defer stop()
	var names []string // all
	for {
		list, err := r.fresh(names)
		if err != nil {
			return err
		}
		for _, rec := range list {
			if err := yield(rec); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		names = changed(ctx)
	}
}

// watch returns what waits for a change and names the files, or nil for all.
func (r *Reader) watch() (changed func(context.Context) []string, stop func()) {
	w, err := r.watcher()
	if err != nil { // a user may have but so many
		return poll, func() {}
	}
	return func(ctx context.Context) []string {
		defer context.AfterFunc(ctx, w.Wake)()
		events, err := w.Wait(lookAgain)
		if err != nil {
			return poll(ctx)
		}
		return filesOf(events)
	}, func() { _ = w.Close() }
}

// watcher watches the folder.
func (r *Reader) watcher() (*inotify.Watcher, error) {
	d, err := r.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	w, err := inotify.New()
	if err != nil {
		return nil, err
	}
	if _, err := w.Add(d); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// filesOf returns the files that events name, or nil where that is not known.
func filesOf(events []inotify.Event) []string {
	var names []string
	for _, e := range events {
		if e.Lost {
			return nil
		}
		if _, ok := parseName(e.Name); ok && !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

func poll(ctx context.Context) []string {
	select {
	case <-ctx.Done():
	case <-time.After(pollEvery):
	}
	return nil
}
