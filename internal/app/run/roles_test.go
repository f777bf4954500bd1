package run_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/policy"
)

func TestMain(m *testing.M) {
	if os.Args[0] == gate.Argv0 { // a proxy that ends at once
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// long are settings that no pipe holds at once.
func long() gate.Settings {
	var list []policy.Rule
	for i := range 20_000 {
		list = append(list, policy.Rule{Host: fmt.Sprintf("h%d.test", i)})
	}
	return gate.Settings{Sandbox: bailey.SandboxID("00000000000000000000000001"), Policy: policy.Policy{Mode: bailey.NetAllow, Allow: list}}
}

// A proxy that does not read what it is told keeps nobody waiting.
func TestStartProxy_EndedOrDeaf(t *testing.T) {
	t.Parallel()
	done := make(chan error, 1)
	go func() { done <- run.StartProxy(long(), 1000) }() // 1000: no other id is taken
	select {
	case err := <-done:
		if !errors.Is(err, syscall.EPIPE) {
			t.Errorf("ended: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a proxy that has ended")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := run.Hand(w, long(), 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deaf: %v", err)
	}
}

func TestNetLine_IsBounded(t *testing.T) {
	t.Parallel()
	r, err := policy.Rule{Host: "a.test", Port: 80}.With(policy.Narrow{Paths: []string{"/" + strings.Repeat("a", 9000)}})
	if err != nil {
		t.Fatal(err)
	}
	if line := run.NetLine(policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{r}}); len(line) > 300 || !strings.Contains(line, "a.test") {
		t.Errorf("%d bytes", len(line))
	}
}
