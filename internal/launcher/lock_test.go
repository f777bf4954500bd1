package launcher_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/launcher"
)

// TestClaim: one holds it, and whoever comes second is told which process, and
// where it is to be found.
func TestClaim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if by, err := launcher.Holder(dir); by != (launcher.Held{}) || err != nil {
		t.Errorf("before anybody has it: %v, %v", by, err)
	}
	f, err := launcher.Claim(dir, "/run/other")
	if err != nil {
		t.Fatal(err)
	}
	want := launcher.Held{PID: os.Getpid(), Beside: "/run/other"}
	if by, err := launcher.Holder(dir); by != want || err != nil {
		t.Errorf("held by %v, %v", by, err)
	}
	_, err = launcher.Claim(dir, "/run/third")
	if held, ok := errors.AsType[*launcher.HeldError](err); !ok || held.By != want || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second: %v", err)
	}
	_ = f.Close()
	if err := launcher.AwaitEnd(t.Context(), dir); err != nil {
		t.Error(err)
	}
	f, err = launcher.Claim(dir, "/run/third")
	if err != nil {
		t.Errorf("twin: after the first: %v", err)
	}
	_ = f.Close()
}

// TestClaim_PassesOverALook: who only looks has the lock for a moment, and is
// not taken for a service.
func TestClaim_PassesOverALook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	look, err := os.Create(filepath.Join(dir, launcher.LockName))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(look.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan error, 1)
	go func() {
		f, err := launcher.Claim(dir, "")
		if err == nil {
			err = f.Close()
		}
		claimed <- err
	}()
	_ = look.Close()
	if err := <-claimed; err != nil {
		t.Error(err)
	}
}

// TestFind: a service is found by its socket's folder, and by that of its tasks
// when its socket is elsewhere.
func TestFind(t *testing.T) {
	t.Parallel()
	runtime, elsewhere, data := t.TempDir(), t.TempDir(), t.TempDir()
	find := func(runtime string) *launcher.Found {
		got, err := launcher.Find(runtime, data)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := find(runtime); got != nil {
		t.Errorf("there is none: %+v", got)
	}
	var locks []*os.File
	for dir, beside := range map[string]string{runtime: data, data: runtime} {
		f, err := launcher.Claim(dir, beside)
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, f)
	}
	want := &launcher.Found{PID: os.Getpid(), Runtime: runtime, Data: data, Lock: runtime}
	if diff := cmp.Diff(want, find(runtime)); diff != "" {
		t.Error(diff)
	}
	want.Lock = data
	if diff := cmp.Diff(want, find(elsewhere)); diff != "" {
		t.Error(diff)
	}
	for _, f := range locks {
		_ = f.Close()
	}
	if got := find(elsewhere); got != nil {
		t.Errorf("it has ended: %+v", got)
	}
}
