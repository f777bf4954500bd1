package inotify_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/inotify"
)

func TestWatcher_TellsOfNamesThatAppear(t *testing.T) {
	t.Parallel()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := beneath.Dir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	w, err := inotify.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	folder, err := w.Add(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Wait(10 * time.Millisecond); len(got) > 0 || err != nil {
		t.Errorf("of nothing: %v %v", got, err)
	}
	for _, name := range []string{"made", "from"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(path, "from"), filepath.Join(path, "to")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", filepath.Join(path, "link")); err != nil {
		t.Fatal(err)
	}
	got, err := w.Wait(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"made", "to", "link"} {
		if !slices.Contains(got, inotify.Event{Folder: folder, Name: name}) {
			t.Errorf("nothing of %s: %v", name, got)
		}
	}
}

func TestWake(t *testing.T) {
	t.Parallel()
	w, err := inotify.New()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // before Wait, then while it waits
		time.AfterFunc(10*time.Millisecond, w.Wake)
		began := time.Now()
		if events, err := w.Wait(time.Minute); err != nil || len(events) > 0 {
			t.Fatalf("%v, %v", events, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Fatalf("slept for %v", took)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Wake() // is nobody's descriptor by now
}
