package run_test

import (
	"bufio"
	"encoding/json"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/policy"
)

// A proxy that answers, one that refuses, and one that is silent: only the last
// is lost, and for good.
func TestSteer_Lost(t *testing.T) {
	t.Parallel()
	tell, lost, theirs, err := run.Steer(100 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	go func() {
		lines := bufio.NewScanner(theirs)
		for _, refusal := range []string{"", "no such rule"} {
			var m gate.Message
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &m) != nil {
				return
			}
			b, _ := json.Marshal(gate.Reply{Generation: m.Generation, Error: refusal})
			_, _ = theirs.Write(append(b, '\n'))
		}
	}()
	isLost := func() bool {
		select {
		case <-lost:
			return true
		default:
			return false
		}
	}
	p := policy.Policy{Mode: bailey.NetOpen}
	if err := tell(p); err != nil || isLost() {
		t.Fatalf("answered: %v, lost %v", err, isLost())
	}
	if err := tell(p); bailey.KindOf(err) != bailey.Invalid || isLost() {
		t.Fatalf("refused: %v, lost %v", err, isLost())
	}
	for range 2 {
		if err := tell(p); bailey.KindOf(err) != bailey.Unavailable || !isLost() {
			t.Fatalf("silent: %v, lost %v", err, isLost())
		}
	}
}
