package spec_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestEGR11_Top: what running sandboxes reach and are refused is to be seen while
// it is so, and answered from there; nothing that a sandbox says drives the
// terminal.
func TestEGR11_Top(t *testing.T) {
	t.Attr("claim", "EGR-11")
	t.Attr("claim", "ISO-11")
	t.Parallel()
	// A long answer, a host that waits, one that is refused, and names that are none.
	const script = `
curl -sS -N http://slow.test/ > /dev/null &
while :; do
	curl -sS --max-time 25 http://wait.test/ > got 2>&1 && grep -q hello got && echo through
	curl -sS http://evil.test/ > /dev/null 2>&1
	curl -sS -H "$(printf 'Host: \033]0;title\007\033[2Jx.test')" http://evil.test/ > /dev/null 2>&1
	sleep 0.2
done`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		lab.Name("wait.test", netlab.Allowed)
		lab.Name("slow.test", netlab.Allowed)
		lab.Handle("slow.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 10_000))
				_ = http.NewResponseController(w).Flush()
				<-tick.C
			}
		}))
		y.Wrap = lab.Enter
		run := y.Start(t, "run", "--name", "web", "--ask", "--allow", "slow.test", "--deny", "evil.test", "--tool", "curl", "--", "sh", "-c", script)
		yard.Eventually(t, 90*time.Second, func() bool {
			return strings.Contains(y.Run(t, "ps").Stdout, "running")
		}, func() string { return "the sandbox does not run" })

		lines := y.Start(t, "net", "top", "--json", "--interval", "500ms")
		type row struct {
			Sandbox string `json:"sandbox"`
			Host    string `json:"host"`
			Verdict string `json:"verdict"`
			Waiting bool   `json:"waiting"`
			Open    int    `json:"open"`
			Count   int    `json:"count"`
			InRate  int64  `json:"in_per_second"`
		}
		var slow, waits, denied bool
		yard.Eventually(t, 60*time.Second, func() bool {
			out, _ := lines.Output()
			in := bufio.NewScanner(strings.NewReader(out))
			for in.Scan() {
				var look struct{ Rows []row }
				if json.Unmarshal(in.Bytes(), &look) != nil {
					continue
				}
				for _, r := range look.Rows {
					slow = slow || r.Host == "slow.test" && r.Open == 1 && r.InRate > 0 && r.Verdict == "allow"
					waits = waits || r.Host == "wait.test" && r.Waiting
					denied = denied || r.Host == "evil.test" && r.Verdict == "deny" && r.Count > 0
				}
			}
			return slow && waits && denied
		}, func() string {
			out, errs := lines.Output()
			return "not all is to be seen: " + out[max(0, len(out)-2000):] + errs
		})
		if out, _ := lines.Output(); strings.ContainsAny(out, "\x1b\x07") {
			t.Errorf("control bytes: %q", out)
		}

		p := sit(t, y, "net", "top")
		p.sees("SANDBOX").sees("wait.test:80").sees("q quit")
		p.types("/").sees("filter: ")
		for _, part := range []string{"w", "wa", "wai", "wait"} { // what comes at once is a paste
			p.types(part[len(part)-1:]).sees("filter: " + part + "_")
		}
		p.types("\r").sees("filter: wait   o allow once")
		p.types("r").sees("wait.test:80 is let through until sandbox web ends")
		run.Await(t, "through")
		p.types("d").sees("wait.test:80 is refused")
		p.types("q")
		if code := p.leaves(); code != 0 {
			t.Errorf("it ends with %d", code)
		}
		screen := p.screen()
		if strings.Contains(screen, "\x1b]") || strings.Contains(screen, "\x1b[2J") || strings.Contains(screen, "\x07") {
			t.Errorf("a sandbox's words drive the terminal: %q", screen)
		}
		if !strings.HasSuffix(strings.TrimRight(screen, "\r\n"), "\x1b[?1049l") {
			t.Errorf("the screen is not given back: %q", screen[max(0, len(screen)-100):])
		}
	})
}
