package netlog

import (
	"context"
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
	poll := func(ctx context.Context) []string {
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
		return nil
	}
	w, err := inotify.New() // a user may have but so many
	if err != nil {
		return poll, func() {}
	}
	d, err := r.root.Open(".")
	if err == nil {
		_, err = w.Add(d)
		_ = d.Close()
	}
	if err != nil {
		return poll, func() { _ = w.Close() }
	}
	return func(ctx context.Context) []string {
		defer context.AfterFunc(ctx, w.Wake)()
		events, err := w.Wait(lookAgain)
		if err != nil {
			return poll(ctx)
		}
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
	}, func() { _ = w.Close() }
}
