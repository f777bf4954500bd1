package harden_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/linux/harden"
)

const wanted = "BAILEY_TEST_WANTED"

func TestMain(m *testing.M) {
	n, err := strconv.Atoi(os.Getenv(wanted))
	if err != nil {
		os.Exit(m.Run())
	}
	harden.FirstToGo()
	harden.FirstToGo() // twice does no harm
	if err := harden.BoundData(2 << 30); err != nil {
		fmt.Println(err)
	}
	b := make([]byte, n)
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	fmt.Printf("%d bytes, score %s %v\n", len(b), score, err)
	os.Exit(0)
}

// A process that wants more than its bound ends; one that does not goes on.
func TestMemory(t *testing.T) {
	t.Parallel()
	for n, good := range map[int]bool{64 << 20: true, 4 << 30: false} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", wanted, n))
		said, err := cmd.CombinedOutput()
		if good && (err != nil || string(said) != fmt.Sprintf("%d bytes, score 500\n <nil>\n", n)) {
			t.Errorf("%d bytes: %v, %s", n, err, said)
		}
		if !good && (err == nil || !strings.Contains(string(said), "out of memory")) && !strings.Contains(string(said), "cannot allocate") && !strings.Contains(string(said), "failed to allocate") {
			t.Errorf("%d bytes: %v, %.300s", n, err, said)
		}
	}
}
