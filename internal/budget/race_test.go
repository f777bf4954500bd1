package budget_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// TestReserve_D050_ExactlyOneOf200 leaves the price of one call.
func TestReserve_D050_ExactlyOneOf200(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := open(t.Context(), dir, "t", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		var granted, spent atomic.Int64
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				switch _, err := l.Reserve(t.Context(), day(110, 10, 100)); {
				case err == nil:
					granted.Add(1)
				case errors.Is(err, budget.ErrSpent):
					spent.Add(1)
				}
			})
		}
		wg.Wait()
		if granted.Load() != 1 || spent.Load() != 199 {
			t.Errorf("%d were granted and %d were refused", granted.Load(), spent.Load())
		}
	})
}

const (
	raceLimit     = 1_000_000
	raceProcesses = 8
	raceCalls     = 25 // at once, in each process
)

// TestReserve_D050_ManyProcessesNeverPass lets 8 processes of 25 calls at once
// spend one day. Each call settles what it was granted, so the sum is the limit
// and no more.
func TestReserve_D050_ManyProcessesNeverPass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var list []*exec.Cmd
	var gate []*os.File // closed all at once, when every process is ready
	for range raceProcesses {
		cmd := start(t, "race", dir)
		in, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = in
		ready, err := cmd.StdoutPipe()
		if err = errors.Join(err, cmd.Start(), in.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := ready.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		list, gate = append(list, cmd), append(gate, to)
	}
	for _, to := range gate {
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range list {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := budget.In(dir).Report(budget.ByModel, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if sum := r.Total.Input + r.Total.Output; sum > raceLimit || sum < raceLimit-116 || r.Total.Open != 0 || r.Odd != 0 {
		t.Errorf("%d of %d tokens were used, %+v", sum, raceLimit, r)
	}
}

func raceChild(ctx context.Context, dir string) error {
	l, err := open(ctx, dir, fmt.Sprint(os.Getpid()), atNoon)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("r"); err != nil {
		return err
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // its end is the start
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range raceCalls {
		wg.Go(func() {
			for {
				g, err := l.Reserve(ctx, day(raceLimit, 100, 500))
				if err == nil {
					err = l.Settle(g, pricing.Usage{Input: 100, Output: g.Output}, 0)
				}
				if err != nil {
					if !errors.Is(err, budget.ErrSpent) {
						failed.Store(&err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return l.Close()
}

// TestLedger_D060_AFullDisk is a process whose file cannot grow: the first bytes
// of a line are written and the rest is not.
func TestLedger_D060_AFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out bytes.Buffer
	cmd := start(t, "full", dir)
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	b, err := os.ReadFile(filepath.Join(dir, "usage", "2026-11-30.jsonl"))
	if err != nil || bytes.Count(b, []byte("\n")) != 4 || strings.Count(string(b), `"k":"settle"`) != 1 {
		t.Errorf("%v\n%s", err, b)
	}
}

func fullChild(ctx context.Context, dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	l, err := open(ctx, dir, "t", atNoon)
	if err != nil {
		return err
	}
	g, err := l.Reserve(ctx, day(1000, 0, 100))
	if err != nil {
		return err
	}
	fi, err := os.Stat(filepath.Join(dir, "usage", "2026-11-30.jsonl"))
	if err != nil {
		return err
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	full := old
	full.Cur = uint64(fi.Size()) + 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		return err
	}
	if _, err := l.Reserve(ctx, day(1000, 0, 100)); bailey.KindOf(err) != bailey.Unavailable || errors.Is(err, budget.ErrSpent) {
		return fmt.Errorf("reserved on a full disk: %w", err)
	}
	if err := l.Settle(g, pricing.Usage{Output: 30}, 0); bailey.KindOf(err) != bailey.Unavailable {
		return fmt.Errorf("settled on a full disk: %w", err)
	}
	if err := l.Flush(); err == nil {
		return errors.New("kept on a full disk")
	}
	if now, err := os.Stat(filepath.Join(dir, "usage", "2026-11-30.jsonl")); err != nil || now.Size() != fi.Size() {
		return fmt.Errorf("half a line stays: %d bytes, %w", now.Size(), err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := l.Flush(); err != nil {
		return err
	}
	if g, err := l.Reserve(ctx, day(1000, 0, 5000)); err != nil || g.Output != 970 {
		return fmt.Errorf("then %+v: %w", g, err)
	}
	return l.Close()
}

// TestLedger_D060_AReadOnlyFile denies, and keeps what is settled.
func TestLedger_D060_AReadOnlyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, header)
	f, err := os.Open(filepath.Join(dir, "usage", "2026-11-30.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := budget.Open(t.Context(), budget.Config{Task: "t", Page: budget.Page{Day: "2026-11-30", File: f}, Now: atNoon})
	if err != nil {
		t.Fatal(err)
	}
	if err := denied(t, l, day(1000, 0, 100)); bailey.KindOf(err) != bailey.Unavailable {
		t.Errorf("%v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := denied(t, l, day(1000, 0, 100)); err == nil {
		t.Error("reserved in a closed file")
	}
}

// TestLedger_ALockThatIsNotLetGoOf is a process that was stopped while it held
// the lock.
func TestLedger_ALockThatIsNotLetGoOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := open(t.Context(), dir, "t", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		g := reserve(t, l, day(1000, 0, 10))
		days, err := budget.In(dir).Days()
		if err != nil || len(days) != 1 {
			t.Fatal(days, err)
		}
		f, err := os.Open(filepath.Join(dir, "usage", string(days[0])+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if err := denied(t, l, day(1000, 0, 10)); bailey.KindOf(err) != bailey.Unavailable {
			t.Errorf("%v", err)
		}
		if err := l.Settle(g, pricing.Usage{Output: 1}, 0); bailey.KindOf(err) != bailey.Unavailable {
			t.Errorf("%v", err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if g := reserve(t, l, day(1000, 0, 5000)); g.Output != 999 {
			t.Errorf("%d are left", g.Output)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestLedger_RunKeepsWhatIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := open(t.Context(), dir, "t", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		settle(t, l, reserve(t, l, day(1000, 0, 10)), 0, 10)
		time.Sleep(time.Second)
		if budget.Dirty(l) {
			t.Error("after a second the disk was not asked to keep it")
		}
		reserve(t, l, day(1000, 0, 10))
		if !budget.Dirty(l) {
			t.Error("twin: the disk was asked on the way")
		}
		cancel()
		if err := <-done; err != nil || budget.Dirty(l) {
			t.Errorf("%v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkReserveSettle(b *testing.B) {
	l, err := open(b.Context(), b.TempDir(), "t", atNoon)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a := budget.Ask{Model: "m", Limits: budget.Limits{Day: tokens(1 << 40), Task: tokens(1 << 40)}, Input: 100, Output: 100}
	for b.Loop() {
		g, err := l.Reserve(b.Context(), a)
		if err == nil {
			err = l.Settle(g, pricing.Usage{Input: 1, Output: 1}, 0)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen_100000Calls(b *testing.B) {
	dir := b.TempDir()
	var text strings.Builder
	text.WriteString(header)
	for i := range 100_000 {
		id := fmt.Sprintf("%016x", i+1)
		text.WriteString(strings.ReplaceAll(reserved, "0000000000000001", id))
		text.WriteString(strings.ReplaceAll(settled, "0000000000000001", id))
	}
	path := filepath.Join(dir, "usage", "2026-11-30.jsonl")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text.String()), 0o600)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l, err := open(b.Context(), dir, "t", atNoon)
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Close()
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	s := budget.SlotsIn(t.TempDir())
	busy := func(model string, want int) {
		t.Helper()
		if n, err := s.Busy(t.Context(), model); err != nil || n != want {
			t.Errorf("%s: %d are busy, %v; want %d", model, n, err, want)
		}
	}
	busy("m", 0)
	var list []*budget.Slot
	for range 2 {
		slot, err := s.Take(t.Context(), "m", 2)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, slot)
	}
	busy("m", 2)
	_, err := s.Take(t.Context(), "m", 2)
	if bailey.KindOf(err) != bailey.Exhausted || !strings.Contains(err.Error(), "in use by 2 runs") {
		t.Errorf("%v", err)
	}
	if slot, err := s.Take(t.Context(), "n", 2); err != nil { // another model's are its own
		t.Error(err)
	} else {
		defer func() { _ = slot.Close() }()
	}
	if slot, err := s.Take(t.Context(), "m", 0); err != nil { // and any number is any number
		t.Error(err)
	} else {
		_ = slot.Close()
	}
	if err := list[0].Close(); err != nil {
		t.Fatal(err)
	}
	busy("m", 1)
	if slot, err := s.Take(t.Context(), "m", 2); err != nil {
		t.Error(err)
	} else {
		_ = slot.Close()
	}
	if _, err := s.Take(t.Context(), "m", 1); bailey.KindOf(err) != bailey.Exhausted { // fewer than there were
		t.Errorf("%v", err)
	}
	for _, model := range []string{"", ".", "..", "../m", "a/b", "/m"} {
		if _, err := s.Take(t.Context(), model, 1); err == nil {
			t.Errorf("%q is a model", model)
		}
	}
}

// TestSlots_NeverMoreAtOnce lets many take, and looks at them meanwhile.
func TestSlots_NeverMoreAtOnce(t *testing.T) {
	t.Parallel()
	s := budget.SlotsIn(t.TempDir())
	const most = 3
	var now, top, got atomic.Int64
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			_, _ = s.Busy(t.Context(), "m")
			slot, err := s.Take(t.Context(), "m", most)
			if err != nil {
				return
			}
			got.Add(1)
			for n := now.Add(1); n > top.Load(); {
				top.Store(n)
			}
			_, _ = s.Busy(t.Context(), "m")
			now.Add(-1)
			_ = slot.Close()
		})
	}
	wg.Wait()
	if top.Load() > most || got.Load() == 0 {
		t.Errorf("%d at once, %d in all", top.Load(), got.Load())
	}
}
