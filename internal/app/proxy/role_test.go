package proxy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/proxy"
	"github.com/bailey-dev/bailey/internal/policy"
)

// The role's posture once it serves: no privileges, no core, not readable by
// others of its user, confined, and no descriptor but its own.
func TestRole_Posture(t *testing.T) {
	t.Parallel()
	l := newLab(t, allow(t, "allow.test"))
	l.lookup("udp", "192.0.0.1:53", "allow.test", 1) // it serves
	pid := l.cmd.Process.Pid
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "Uid:\t65534\t65534"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in:\n%s", want, status)
		}
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, task.Name()))
		if err == nil && !strings.Contains(string(status), "NoNewPrivs:\t1") {
			t.Errorf("thread %s may gain privileges", task.Name())
		}
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	for _, want := range []string{"Max core file size 0 0", fmt.Sprintf("Max data size %d %[1]d", proxy.HardEnd)} {
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), want) {
			t.Errorf("no %q: %v\n%s", want, err, limits)
		}
	}
	if score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); err != nil || string(score) != "500\n" {
		t.Errorf("its score when memory ends is %q, %v", score, err)
	}
	var st syscall.Stat_t // of an undumpable process /proc belongs to root
	if err := syscall.Stat(fmt.Sprintf("/proc/%d/mem", pid), &st); err != nil || st.Uid != 0 {
		t.Errorf("/proc/PID/mem belongs to %d, %v", st.Uid, err)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, fd := range fds {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if err != nil || strings.HasPrefix(target, "/sys/fs/cgroup/") { // Go's runtime watches its CPU quota
			continue
		}
		kind, _, _ := strings.Cut(target, ":")
		kinds[kind]++
	}
	// 0 to 2, three listeners, the peer, the control socket, the events, and the
	// runtime's poller.
	if kinds["socket"] > 5 || kinds["pipe"] > 3 || kinds["anon_inode"] > 2 || len(kinds) > 4 {
		t.Errorf("descriptors: %v", kinds)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ev := range l.events {
		if ev.Type == bailey.EventWarning {
			t.Errorf("warning: %s", ev.Message)
		}
	}
}

// startRole runs the role on descriptors of ours, without a lab. Its events go
// to a file.
func startRole(t *testing.T, settings string) (cmd *exec.Cmd, peer *os.File, events string, stderr *bytes.Buffer) {
	t.Helper()
	settingsR, settingsW := pipe(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	peer = os.NewFile(uintptr(fds[0]), "peer")
	theirs := os.NewFile(uintptr(fds[1]), "peer")
	eventsFile, err := os.CreateTemp(t.TempDir(), "events")
	if err != nil {
		t.Fatal(err)
	}
	stderr = &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "BAILEY_TEST_ROLE=proxy")
	cmd.Stderr = stderr
	control, _ := pipe(t)
	cmd.ExtraFiles = []*os.File{settingsR, theirs, eventsFile, control}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	_ = settingsR.Close()
	if _, err := settingsW.WriteString(settings); err != nil {
		t.Fatal(err)
	}
	_ = settingsW.Close()
	t.Cleanup(func() { _ = peer.Close(); _ = eventsFile.Close() })
	return cmd, peer, eventsFile.Name(), stderr
}

func wait(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	stop := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

func TestRole_RefusesBadSettings(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		``:                "read settings",
		`{`:               "read settings",
		`{"sandbox":"x"}`: "sandbox id",
		`{"sandbox":"sbx_0123456789abcdef","policy":{"mode":"allow"}}`:                                "no allow rule",
		`{"sandbox":"sbx_0123456789abcdef","policy":{"mode":"fool"}}`:                                 "unknown network mode",
		`{"sandbox":"sbx_0123456789abcdef","policy":{"mode":"allow","allow":["*"]}}`:                  "every host",
		`{"sandbox":"sbx_0123456789abcdef","policy":{"mode":"open"},"polcy":{}}`:                      "unknown field",
		`{"sandbox":"sbx_0123456789abcdef","policy":{"mode":"open"}} {"policy":{"mode":"allow"}}`:     "follows the document",
		`{"sandbox":"sbx_0123456789abcdef","policy":{"mode":"allow","allow":["169.254.169.254:80"]}}`: "link-local",
	} {
		cmd, _, events, stderr := startRole(t, settings)
		if code := wait(t, cmd); code != bailey.ExitBailey || !strings.Contains(stderr.String(), want) || strings.Contains(stderr.String(), "goroutine") {
			t.Errorf("%s: exit %d, %q; want %q", settings, code, stderr, want)
		}
		said, err := os.ReadFile(events)
		var ev bailey.Event
		if err := errors.Join(err, json.Unmarshal(said, &ev)); err != nil || ev.Type != bailey.EventError || !strings.Contains(ev.Message, want) {
			t.Errorf("%s: the event is %q, %v; want %q", settings, said, err, want)
		}
	}
}

func TestRole_EndsWithItsPeer(t *testing.T) {
	t.Parallel()
	const good = `{"sandbox":"sbx_0123456789abcdef","policy":{"mode":"open"}}`
	cmd, peer, _, stderr := startRole(t, good)
	_ = peer.Close() // before any listener came
	if code := wait(t, cmd); code != bailey.ExitBailey || !strings.Contains(stderr.String(), "closed the socket first") {
		t.Errorf("no listeners: exit %d, %q", code, stderr)
	}
	l := newLab(t, allow(t, "allow.test"))
	l.lookup("udp", "192.0.0.1:53", "allow.test", 1)
	if err := l.peer.Close(); err != nil { // the lab checks that it ends in order
		t.Fatal(err)
	}
}

// A sandbox that is refused a thousand times a second leaves a record of some
// and the count of the rest; what is allowed is all there.
func TestJournal_Floods(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var out bytes.Buffer
	j := proxy.NewJournal("sbx_0123456789abcdef", func() time.Time { return now }, &out)
	for range 5000 {
		j.Record(bailey.Event{Type: bailey.EventNetDecision, Verdict: "deny", Host: "evil.test\n\x1b[31m", Reason: policy.ReasonNotAllowed})
		j.Record(bailey.Event{Type: bailey.EventNetDecision, Verdict: "allow", Host: "allow.test"})
	}
	now = now.Add(2 * time.Second)
	j.Record(bailey.Event{Type: bailey.EventNetDecision, Verdict: "deny", Host: "later.test"})
	counts := map[string]int{}
	for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
		var ev bailey.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
			t.Fatalf("control byte in %q", line)
		}
		counts[string(ev.Type)+" "+ev.Verdict]++
		if ev.Type == bailey.EventWarning && !strings.HasPrefix(ev.Message, "4800 more") {
			t.Errorf("warning %q", ev.Message)
		}
	}
	if counts["net.decision allow"] != 5000 || counts["net.decision deny"] != 201 || counts["warning "] != 1 {
		t.Errorf("recorded: %v", counts)
	}
}
