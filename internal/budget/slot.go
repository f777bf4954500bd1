package budget

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/spell"
)

// Slots are the places of the runs that use a model at once. Each is a file that
// is locked by who has it, so a process that dies gives it back.
type Slots struct{ dir string }

// SlotsIn are those in a user's folder for what is running.
func SlotsIn(runtimeDir string) Slots { return Slots{filepath.Join(runtimeDir, "models")} }

// Slot is a place that is had until it is closed, or its process ends.
type Slot struct{ file *os.File }

// Close gives the place back.
func (s *Slot) Close() error { return s.file.Close() }

// mostSlots bounds the runs that use a model that has no bound.
const mostSlots = 10_000

// Take takes a place of a model that most runs may use at once; 0 is any number.
// That all are taken is an error of the kind bailey.Exhausted.
func (s Slots) Take(ctx context.Context, model string, most int) (*Slot, error) {
	dir := filepath.Join(s.dir, model)
	if !filepath.IsLocal(model) || filepath.Base(model) != model {
		return nil, fmt.Errorf("bug: %.20q names no model", model)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "make "+dir, err, "")
	}
	var got *Slot
	err := withFolder(ctx, dir, func() error {
		busy, err := count(dir)
		if err != nil {
			return err
		}
		if most > 0 && busy >= most || busy >= mostSlots {
			return bailey.NewError(bailey.Exhausted, fmt.Sprintf("the model %s is in use by %s, as many as may use it at once", model, spell.Count(busy, "run")), "wait for one to end (bailey ps), or raise models."+model+".max_agents in models.yaml")
		}
		got, err = free(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// Busy is how many runs use a model.
func (s Slots) Busy(ctx context.Context, model string) (busy int, err error) {
	dir := filepath.Join(s.dir, model)
	if !filepath.IsLocal(model) {
		return 0, fmt.Errorf("bug: %.20q names no model", model)
	}
	err = withFolder(ctx, dir, func() error {
		busy, err = count(dir)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return busy, err
}

// withFolder calls f while nobody else looks at the places: to look at one is to
// take its lock for a moment.
func withFolder(ctx context.Context, dir string, f func() error) error {
	d, err := os.Open(dir)
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "open "+dir, err, "")
	}
	defer func() { _ = d.Close() }() // and with it the lock
	if err := lock(ctx.Done(), d); err != nil {
		return bailey.WrapError(bailey.Unavailable, "lock "+dir, err, "")
	}
	return f()
}

// count counts the places that are taken.
func count(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, bailey.WrapError(bailey.Unavailable, "look into "+dir, err, "")
	}
	busy := 0
	for _, e := range entries {
		slot, err := take(filepath.Join(dir, e.Name()), 0)
		switch {
		case err == nil:
			_ = slot.Close()
		case errors.Is(err, syscall.EWOULDBLOCK):
			busy++
		default:
			return 0, bailey.WrapError(bailey.Unavailable, "look at a place of a model", err, "")
		}
	}
	return busy, nil
}

// free takes the first place that nobody has.
func free(dir string) (*Slot, error) {
	for i := range mostSlots + 1 {
		slot, err := take(filepath.Join(dir, strconv.Itoa(i)), os.O_CREATE)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			return slot, err
		}
	}
	return nil, bailey.NewError(bailey.Exhausted, "no place of a model is free", "end a run that uses it")
}

func take(path string, flags int) (*Slot, error) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Slot{f}, nil
}
