package spec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// triedReport is what of redteam's report is looked at.
type triedReport struct {
	Counts  map[string]int
	Attacks []triedRow
}

type triedRow struct{ ID, Outcome, Inside string }

// attacked runs redteam and returns its report.
func attacked(t *testing.T, y *yard.Yard, code int, args ...string) triedReport {
	t.Helper()
	r := y.Run(t, append([]string{"redteam", "--json"}, args...)...)
	var report triedReport
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatalf("%v: exit code %d\n%s\n%s", err, r.Code, r.Stdout, r.Stderr)
	}
	if r.Code != code {
		t.Errorf("exit code %d, want %d: %+v", r.Code, code, report.Counts)
	}
	return report
}

func outcomeOf(t *testing.T, r triedReport, id string) string {
	t.Helper()
	i := slices.IndexFunc(r.Attacks, func(row triedRow) bool { return row.ID == id })
	if i < 0 {
		t.Fatalf("no attack %s", id)
	}
	return r.Attacks[i].Outcome
}

// TestRedteam_NoAttackWorks: every attack fails in a sandbox, most of them work
// without one, and nothing of them is left.
func TestRedteam_NoAttackWorks(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		y.Wrap = lab.Enter
		lab.Name("example.com", netlab.Evil)
		page := filepath.Join(y.Home, "report.html")
		y.WriteHome(t, ".agents/skills/one/SKILL.md", "# One\n")
		r := attacked(t, y, 0, "--allow", "allow.test", "--html", page)
		idle := 0
		for _, row := range r.Attacks {
			switch row.Outcome {
			case "held":
			case "idle":
				idle++
			default:
				t.Errorf("%s %s: %s", row.ID, row.Outcome, row.Inside)
			}
		}
		if len(r.Attacks) < 70 || idle > len(r.Attacks)/4 {
			t.Errorf("%d attacks, %d of which say nothing: %+v", len(r.Attacks), idle, r.Attacks)
		}
		if got := outcomeOf(t, r, "EGR-06/name"); got != "held" {
			t.Errorf("the look-up of an unlisted name: %s", got)
		}
		if got := outcomeOf(t, r, "SEC-12/skills"); got != "held" {
			t.Errorf("writing to the folder of skills: %s", got)
		}
		html, err := os.ReadFile(page)
		if err != nil || !strings.Contains(string(html), "RES-02/hook") {
			t.Errorf("the page: %v\n%s", err, html)
		}
		for _, dir := range []string{y.Dir, filepath.Join(y.Home, ".local", "state", "bailey")} {
			if left, _ := filepath.Glob(filepath.Join(dir, ".bailey-redteam*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		}
		r = attacked(t, y, 0, "--net", "open", "--only", "EGR-06", "--only", "EGR-10")
		if name, service := outcomeOf(t, r, "EGR-06/name"), outcomeOf(t, r, "EGR-10/tcp4"); name != "idle" || service != "held" {
			t.Errorf("with every host let through: an unlisted name %s, a service of the host %s", name, service)
		}
		if r := y.Run(t, "redteam", "--only", "ISO-99"); r.Code != 125 || !strings.Contains(r.Stderr, "ISO-99") {
			t.Errorf("an attack that is not there: exit code %d, %s", r.Code, r.Stderr)
		}
	})
}

// baitOf lists what redteams have lying about.
func baitOf(y *yard.Yard) (state, workspace []string) {
	state, _ = filepath.Glob(filepath.Join(y.Home, ".local", "state", "bailey", ".bailey-redteam-*"))
	workspace, _ = filepath.Glob(filepath.Join(y.Dir, ".bailey-redteam-*"))
	return state, workspace
}

// TestRedteam_ASignalLeavesNothing: who is told to end takes the bait up first,
// before the sandbox is there as behind it, and blames nobody.
func TestRedteam_ASignalLeavesNothing(t *testing.T) {
	t.Parallel()
	for i, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		yard.InTurn(t, i/2, func(t *testing.T, y *yard.Yard) {
			r := y.Start(t, "redteam")
			yard.Eventually(t, yard.Timeout, func() bool {
				state, workspace := baitOf(y)
				return i < 2 && len(state) > 0 || len(workspace) > 0
			}, func() string { return "no bait" })
			to := r.Cmd.Process.Pid
			if s == syscall.SIGINT {
				to = -to // as Ctrl-C does
			}
			if err := syscall.Kill(to, s); err != nil {
				t.Fatal(err)
			}
			got := r.Wait(t, 30*time.Second)
			if got.Code != 128+int(s) || got.Stderr != "bailey: interrupted\n" || got.Stdout != "" {
				t.Errorf("%v: exit code %d\n%s\n%s", s, got.Code, got.Stdout, got.Stderr)
			}
			if state, workspace := baitOf(y); len(state)+len(workspace) > 0 {
				t.Errorf("%v: left: %v %v", s, state, workspace)
			}
		})
	}
}

// TestRedteam_TakesAwayWhatAKilledOneLeft, and nothing else.
func TestRedteam_TakesAwayWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	r := y.Start(t, "redteam")
	yard.Eventually(t, yard.Timeout, func() bool { _, workspace := baitOf(y); return len(workspace) > 0 }, func() string { return "no bait" })
	_ = r.Cmd.Process.Kill()
	r.Wait(t, 30*time.Second)
	state, workspace := baitOf(y)
	if len(state) != 1 || len(workspace) != 1 {
		t.Fatalf("a killed one left %v and %v", state, workspace)
	}
	gone := strings.Split(filepath.Base(state[0]), "-")[2]
	keep := []string{".bailey-redteam-" + strconv.Itoa(os.Getpid()) + "-1", ".bailey-redteam-" + gone + "-mine", ".bailey-redteam-" + gone + "-2"}
	for i, name := range keep {
		path := filepath.Join(y.Dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if i < 2 && os.Chown(path, y.UID, y.GID) != nil {
			t.Fatal("chown", path)
		}
	}
	if os.Getuid() == y.UID {
		keep = keep[:2] // there is nobody else
	}
	attacked(t, y, 0, "--only", "ISO-02/write-outside")
	state, left := baitOf(y)
	for i, path := range left {
		left[i] = filepath.Base(path)
	}
	slices.Sort(left)
	slices.Sort(keep)
	if len(state) > 0 || !slices.Equal(left, keep) {
		t.Errorf("left: %v and %v, want none and %v", state, left, keep)
	}
}

// TestRedteam_ThePageIsOpenedFirst: a path that is no good is known before
// anything is attacked.
func TestRedteam_ThePageIsOpenedFirst(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	r := y.Run(t, "redteam", "--html", "/nonexist/r.html", "--only", "ISO-02/write-outside")
	if r.Code != 125 || r.Stdout != "" || !strings.Contains(r.Stderr, "--html") || !strings.Contains(r.Stderr, "/nonexist/r.html") {
		t.Errorf("a folder that is not there: exit code %d\n%s\n%s", r.Code, r.Stdout, r.Stderr)
	}
	if _, err := os.Stat(filepath.Join(y.Home, ".local", "state", "bailey")); err == nil {
		t.Error("bait was laid before")
	}
	r = y.Run(t, "redteam", "--html", "/dev/full", "--only", "ISO-02/write-outside")
	if r.Code != 125 || r.Stdout != "" || !strings.Contains(r.Stderr, "/dev/full") {
		t.Errorf("a device: exit code %d\n%s\n%s", r.Code, r.Stdout, r.Stderr)
	}
	page := y.Write(t, "r.html", strings.Repeat("old\n", 1<<16))
	y.Run(t, "redteam", "--html", page, "--only", "ISO-02/write-outside").OK(t)
	if got := contents(t, page); strings.Contains(got, "old\n") || !strings.HasSuffix(got, "</html>\n") {
		t.Errorf("over another page: %d bytes", len(got))
	}
	lost := filepath.Join(y.Dir, "lost.html")
	r = y.Run(t, "redteam", "--html", lost, "--allow", "no host", "--only", "ISO-02/write-outside").Exit(t, 125)
	if _, err := os.Lstat(lost); err == nil {
		t.Errorf("an empty page is left of one that attacked nothing: %s", r.Stderr)
	}
}

// TestRedteam_TheLimitOfProcessesIsTriedInTime, however wide it is set: to fill
// it takes a user's sandbox minutes.
func TestRedteam_TheLimitOfProcessesIsTriedInTime(t *testing.T) {
	t.Parallel()
	y := yard.Unprivileged(t)
	if got := outcomeOf(t, attacked(t, y, 0, "--pids", "4000", "--only", "ISO-08/processes"), "ISO-08/processes"); got != "held" {
		t.Error(got)
	}
}
