package thread_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/thread"
)

// TestRun_TheThreadEnds runs many at once, so that some meet the main thread.
func TestRun_TheThreadEnds(t *testing.T) {
	t.Parallel()
	want := errors.New("as returned")
	tids := make(chan int, 200)
	for range cap(tids) {
		go func() {
			if err := thread.Run(func() error {
				tids <- unix.Gettid()
				return want
			}); !errors.Is(err, want) {
				t.Errorf("got %v", err)
			}
		}()
	}
	for range cap(tids) {
		tid := <-tids
		if tid == os.Getpid() {
			t.Fatal("fn ran on the main thread")
		}
		for deadline := time.Now().Add(5 * time.Second); ; {
			if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); err != nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("thread %d is left", tid)
			}
		}
	}
}
