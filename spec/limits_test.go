package spec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// runEvent is one line of `bailey run --json`, as docs/events.md has it.
type runEvent struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	Sandbox  string    `json:"sandbox"`
	Name     string    `json:"name"`
	Command  []string  `json:"command"`
	Limit    string    `json:"limit"`
	ExitCode *int      `json:"exit_code"`
	Signal   string    `json:"signal"`
	Path     string    `json:"path"`
	Message  string    `json:"message"`
}

// events reads what a run with --json said; any other line fails the test.
func events(t *testing.T, stderr string) []runEvent {
	t.Helper()
	var list []runEvent
	for line := range strings.Lines(stderr) {
		var e runEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line is not JSON: %v: %s", err, line)
		}
		if e.Time.IsZero() || e.Type == "" || !strings.Contains(line, `"sandbox":`) {
			t.Errorf("event without time, type or sandbox: %s", line)
		}
		list = append(list, e)
	}
	return list
}

func eventOf(list []runEvent, typ string) runEvent {
	i := slices.IndexFunc(list, func(e runEvent) bool { return e.Type == typ })
	if i < 0 {
		return runEvent{}
	}
	return list[i]
}

// processesOf lists the processes of a yard: those of its binary, whatever they
// call themselves and wherever they are rooted, and those of the small program,
// which lies in memory and is the same for every yard. One of these is the
// yard's if the yard's binary started it or it started the yard's binary, or if
// it has the yard's folder mounted or open.
func processesOf(y *yard.Yard) []int {
	var ours syscall.Stat_t
	if syscall.Stat(y.Bin, &ours) != nil {
		return nil
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	found, small := map[int]bool{}, []int{}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		var st syscall.Stat_t
		if syscall.Stat(dir+"/exe", &st) == nil && st.Ino == ours.Ino && st.Dev == ours.Dev {
			found[pid] = true
		} else if exe, _ := os.Readlink(dir + "/exe"); strings.HasPrefix(exe, smallProgram) {
			small = append(small, pid)
		} else if mounts(y, pid) { // of a sandbox with the host's kernel: whatever program it is
			found[pid] = true
		}
	}
	parents := map[int]bool{}
	for pid := range found {
		parents[parentOf(pid)] = true
	}
	pids := slices.Collect(maps.Keys(found))
	for _, pid := range small {
		if found[parentOf(pid)] || parents[pid] || holds(y, pid) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// smallProgram is what the link to the program of a helper or a watchdog
// begins with (memfd_create(2)).
const smallProgram = "/memfd:bailey"

func parentOf(pid int) int {
	s, err := proc.ReadStat(pid)
	if err != nil {
		return -1
	}
	return s.PPID
}

// holds reports whether a process has the yard's folder mounted or open.
func holds(y *yard.Yard, pid int) bool {
	dir, own := "/proc/"+strconv.Itoa(pid), filepath.Dir(y.Dir)
	if mounts(y, pid) {
		return true
	}
	fds, _ := filepath.Glob(dir + "/fd/*")
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, _ := os.Readlink(fd)
		return strings.HasPrefix(to, own+"/")
	})
}

// mounts reports whether a process has the yard's folder mounted, which is there
// as the path on its file system.
func mounts(y *yard.Yard, pid int) bool {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo") // gone is ""
	return strings.Contains(string(b), "/"+filepath.Base(filepath.Dir(y.Dir))+"/")
}

// TestProcessesOf_SeesEveryRole: what looks for remains can find each kind.
func TestProcessesOf_SeesEveryRole(t *testing.T) {
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := y.Start(t, "run", "-q", "--allow", "example.com", "--", "sh", "-c", "echo up; cat")
		r.Await(t, "up")
		names := func() string {
			var list []string
			for _, pid := range processesOf(y) {
				name, _, _ := strings.Cut(readProc(t, pid, "cmdline"), "\x00")
				list = append(list, filepath.Base(name))
			}
			return " " + strings.Join(list, " ") + " "
		}
		for _, name := range []string{"bailey", role.Helper, role.Watchdog, role.Proxy, "runsc-sandbox", "runsc-gofer"} {
			if got := names(); !strings.Contains(got, " "+name+" ") {
				t.Errorf("%s is not among %s", name, got)
			}
		}
		// Those of the small program are known without their parent, too: that
		// is how one that was left behind would be.
		for _, name := range []string{role.Helper, role.Watchdog} {
			if pid := childNamed(t, r.Cmd.Process.Pid, name); !holds(y, pid) {
				t.Errorf("%s would not be found as an orphan", name)
			}
		}
		_ = r.Stdin.Close()
		r.Wait(t, yard.Timeout).OK(t)
		if got := names(); strings.TrimSpace(got) != "" {
			yard.Eventually(t, leftWithin, func() bool { return strings.TrimSpace(names()) == "" }, func() string { return "left: " + names() })
		}
	})
}

// traces are what a run makes on the host besides processes.
func traces(y *yard.Yard) []string {
	own := filepath.Dir(y.Dir)
	var all []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/bailey/*/", "/sys/fs/cgroup/bailey/*/", "/tmp/bailey-[^b]*", "/tmp/runsc*", own + "/run/bailey/*"} {
		found, _ := filepath.Glob(pattern)
		all = append(all, found...)
	}
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "/"+filepath.Base(own)) || strings.Contains(line, "bailey") {
			all = append(all, line)
		}
	}
	return all
}

// othersGroup reports whether a cgroup holds processes, none of them of the
// yard's binary: other tests run beside this one.
func othersGroup(y *yard.Yard, trace string) bool {
	b, err := os.ReadFile(filepath.Join(trace, "cgroup.procs"))
	ours := processesOf(y)
	return err == nil && len(b) > 0 && !slices.ContainsFunc(strings.Fields(string(b)), func(f string) bool {
		pid, _ := strconv.Atoi(f)
		return slices.Contains(ours, pid)
	})
}

// leftWithin is the promise, on a machine that is not overloaded.
const leftWithin = 3 * time.Second

// nothingLeft returns a function that waits until nothing is left of the runs
// between the two calls. Tests that use it do not run in parallel.
func nothingLeft(t *testing.T, y *yard.Yard) func() {
	t.Helper()
	processes, before := processesOf(y), traces(y)
	return func() {
		t.Helper()
		now := traces(y) // what comes later is of others
		left := func() (out []string) {
			for _, pid := range processesOf(y) {
				if !slices.Contains(processes, pid) {
					// A name that is empty is a stub of gVisor's, perhaps of a sandbox
					// beside this one; none outlives its kernel, which has a name.
					if name := readProc(t, pid, "cmdline"); name != "" {
						out = append(out, fmt.Sprintf("process %d %q", pid, name))
					}
				}
			}
			still := traces(y)
			for _, trace := range now {
				if !slices.Contains(before, trace) && slices.Contains(still, trace) && !othersGroup(y, trace) {
					out = append(out, trace)
				}
			}
			return out
		}
		yard.Eventually(t, leftWithin, func() bool { return len(left()) == 0 }, func() string { return "left: " + strings.Join(left(), "; ") })
	}
}

// bomb is a program that a limit ends, and which passes when the limit is
// higher.
type bomb struct {
	name   string
	script string
	limit  []string // flags under which it ends
	higher []string // flags under which it passes
	event  string   // the limit.reached event; empty when the process itself is told
	says   string   // on stderr
	code   int
	out    string // what stdout matches then
	passes string // what stdout holds with the higher limit
	human  bool   // look at the message for people instead of the events
	each   bool   // under the host's kernel with a cgroup its processes are killed one by one, and the command goes on
}

var bombs = []bomb{
	{
		name:   "memory of one process",
		script: `python3 -c 'x = b"x" * (600 << 20); print("survived")'`,
		limit:  []string{"--memory", "192M"}, higher: []string{"--memory", "1500M"},
		event: "memory", says: "out of memory", code: 137, passes: "survived", human: true,
	},
	{
		name:   "memory of many processes",
		script: `exec python3 many.py`,
		limit:  []string{"--memory", "192M"}, higher: []string{"--memory", "1500M"},
		event: "memory", says: "out of memory", code: 137, passes: "survived", each: true,
	},
	{
		name:   "memory in a tmpfs",
		script: `dd if=/dev/zero of=/dev/shm/x bs=1M count=600 2>/dev/null; sleep $WAIT; echo survived`,
		limit:  []string{"--memory", "192M"}, higher: []string{"--memory", "1500M"},
		event: "memory", says: "out of memory", code: 137, passes: "survived",
	},
	{
		name:   "disk by many files",
		script: `for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=big$i bs=1M count=8 2>/dev/null; done; sleep $WAIT; rm -f big*; echo survived`,
		limit:  []string{"--disk", "24M"}, higher: []string{"--disk", "500M"},
		event: "disk", says: "the workspace has grown by", code: 137, passes: "survived", human: true,
	},
	{
		name:   "disk by inodes",
		script: `i=0; while [ $i -lt 700 ]; do : > n$i; i=$((i+1)); done; sleep $WAIT; rm -f n*; echo survived`,
		limit:  []string{"--inodes", "300"}, higher: []string{"--inodes", "5000"},
		event: "inodes", says: "the workspace has grown by", code: 137, passes: "survived",
	},
	{
		name:   "disk by one file",
		script: `dd if=/dev/zero of=one bs=1M count=64 2>/dev/null; echo "dd $? $(stat -c %s one)"; truncate -s 1G sparse; echo "truncate $?"; rm -f one sparse`,
		limit:  []string{"--disk", "24M"}, higher: []string{"--disk", "2G"},
		code: 0, out: `^dd 153 25165824\ntruncate 153\n$`, passes: "dd 0 67108864\ntruncate 0\n", // 128 + SIGXFSZ
	},
	{
		name:   "processes",
		script: `f() { f | f & }; f; sleep 2; echo alive; exec python3 fork.py`,
		limit:  []string{"--pids", "48"}, higher: []string{"--pids", "2000"},
		code: 0, out: `(?s)alive.*limit [0-9]+ 11\n$`, // EAGAIN; a fork bomb with room would take its time: no twin
	},
	{
		name:   "open files",
		script: `exec python3 files.py`,
		limit:  []string{"--nofile", "64"}, higher: []string{"--nofile", "400"},
		code: 0, out: `^limit (5|6)[0-9] 24\n$`, passes: "opened 200\n", // EMFILE
	},
	{
		name:   "temporary space",
		script: `for d in /tmp /var/tmp /dev/shm $HOME /run; do dd if=/dev/zero of=$d/x bs=1M count=12 2>/dev/null; echo "$? $(stat -c %s $d/x)"; rm $d/x; done`,
		limit:  []string{"--tmp-size", "8M"}, higher: []string{"--tmp-size", "16M"},
		code: 0, out: `^(1 8388608\n){5}$`, passes: strings.Repeat("0 12582912\n", 5),
	},
}

const forks = `import os, time
n = 0
try:
    while n < 100:
        if os.fork() == 0:
            time.sleep(3); os._exit(0)
        n += 1
    print("forked", n)
except OSError as e:
    print("limit", n, e.errno)
`

const many = `import os, time
for i in range(8):
    if os.fork() == 0:
        x = b"x" * (64 << 20)
        time.sleep(1)
        os._exit(0)
ended = [os.wait()[1] for i in range(8)]
print("survived" if not any(ended) else ended)
`

const opens = `import os
n = 0
try:
    while n < 200:
        os.open("/dev/null", 0)
        n += 1
    print("opened", n)
except OSError as e:
    print("limit", n, e.errno)
`

// TestISO08_BombsEndInside: each bomb ends in its sandbox with its reason, and
// another sandbox beside it does not notice. The twin is the same program
// under a higher limit.
func TestISO08_BombsEndInside(t *testing.T) {
	t.Attr("claim", "ISO-08")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		beside := yard.Root(t)
		if y.UID != 0 {
			beside = yard.Unprivileged(t)
		}
		other := beside.Start(t, "run", "-q", "--name", "beside", "--", "sh", "-c", "echo up; cat; echo done")
		other.Await(t, "up")
		clean := nothingLeft(t, y)
		y.Write(t, "fork.py", forks)
		y.Write(t, "files.py", opens)
		y.Write(t, "many.py", many)
		for _, b := range bombs {
			t.Run(b.name, func(t *testing.T) { b.goesOff(t, y) })
		}
		clean()
		if r := beside.Run(t, "exec", "beside", "--", "echo", "unharmed"); r.Code != 0 || r.Stdout != "unharmed\n" {
			t.Errorf("the other sandbox: %+v", r)
		}
		if err := other.Stdin.Close(); err != nil {
			t.Error(err)
		}
		if r := other.Wait(t, 20*time.Second); r.Code != 0 || !strings.Contains(r.Stdout, "done") {
			t.Errorf("the other sandbox ended with %+v", r)
		}
	})
}

func (b bomb) goesOff(t *testing.T, y *yard.Yard) {
	t.Helper()
	defer removeAll(t, y, "big*", "n[0-9]*", "one", "sparse")
	flags := append([]string{"-q", "--env", "WAIT=60"}, b.limit...)
	if b.event != "" && !b.human {
		flags[0] = "--json"
	}
	r := y.Sh(t, b.script, flags...)
	if yard.Native() {
		r.Stderr = strings.ReplaceAll(r.Stderr, "Killed\n", "") // as a shell there says of its child
	}
	// Where a cgroup of the host's kernel keeps it, one process after the other ends.
	if b.each = b.each && yard.Native() && y.UID == 0; b.each {
		b.code = 0
	}
	if r.Code != b.code || strings.Contains(r.Stdout, "survived") {
		t.Errorf("under %v: %+v", b.limit, r)
	}
	if !regexp.MustCompile(b.out).MatchString(r.Stdout) {
		t.Errorf("under %v: stdout %q, want %s", b.limit, r.Stdout, b.out)
	}
	switch {
	case b.event == "":
	case b.human:
		if strings.Count(r.Stderr, b.says) != 1 || strings.Count(r.Stderr, "\n") != 1 || !strings.Contains(r.Stderr, "--"+b.event) {
			t.Errorf("not one message with the flag that helps: %q", r.Stderr)
		}
	default:
		b.isReported(t, r)
	}
	if b.passes == "" {
		return
	}
	removeAll(t, y, "big*", "n[0-9]*")
	if r := y.Sh(t, b.script, append([]string{"-q", "--env", "WAIT=0"}, b.higher...)...); r.Code != 0 || !strings.Contains(r.Stdout, b.passes) {
		t.Errorf("twin under %v: %+v", b.higher, r)
	}
}

// isReported looks at the events of a bomb.
func (b bomb) isReported(t *testing.T, r yard.Result) {
	t.Helper()
	list := events(t, r.Stderr)
	reached, exited := eventOf(list, "limit.reached"), eventOf(list, "sandbox.exited")
	if reached.Limit != b.event || !strings.Contains(reached.Message, "--"+b.event) {
		t.Errorf("limit.reached: %+v, want %s", reached, b.event)
	}
	if exited.ExitCode == nil || *exited.ExitCode != b.code || (exited.Limit != b.event) != b.each {
		t.Errorf("sandbox.exited: %+v; want %d", exited, b.code)
	}
}

func removeAll(t *testing.T, y *yard.Yard, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		names, _ := filepath.Glob(filepath.Join(y.Dir, p))
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestISO08_SparseFilesCountWhatTheyTake: a length is not growth.
func TestISO08_SparseFilesCountWhatTheyTake(t *testing.T) {
	t.Attr("claim", "ISO-08")
	t.Parallel()
	y := yard.Unprivileged(t)
	y.Sh(t, "for i in 1 2 3 4 5 6; do truncate -s 15M s$i || exit 1; done; sleep 3", "-q", "--disk", "16M").OK(t)
}

// TestISO08_Defaults: without any flag there is a limit of each kind.
func TestISO08_Defaults(t *testing.T) {
	t.Attr("claim", "ISO-08")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		r := y.Sh(t, `ulimit -n; ulimit -f; for d in /tmp /var/tmp /dev/shm $HOME /run; do df -k $d | awk 'NR==2{print $2}'; done; python3 -c 'import resource; print(resource.getrlimit(resource.RLIMIT_NPROC)[1])' `, "-q").OK(t)
		f := strings.Fields(r.Stdout)
		if len(f) != 8 || f[0] != "4096" || f[1] != strconv.Itoa(20<<30/512) || f[7] != "512" {
			t.Fatalf("got %q", f)
		}
		for _, kb := range f[2:7] {
			if kb != strconv.Itoa(2<<20) {
				t.Errorf("a tmpfs of %s KiB, want 2 GiB", kb)
			}
		}
	})
}

// TestISO08_MemoryAndCPUAreEnforcedByTheKernel: for root, by this machine's
// cgroups, the whole tree of the sandbox's processes is in them, and the
// kernel says the values that were asked for.
func TestISO08_MemoryAndCPUAreEnforcedByTheKernel(t *testing.T) {
	t.Attr("claim", "ISO-08")
	y := yard.Root(t)
	r := y.Start(t, "run", "--name", "held", "--memory", "300M", "--cpus", "0.5", "--", "sh", "-c", "echo up; cat")
	r.Await(t, "up")
	if _, stderr := r.Output(); strings.Contains(stderr, "not enforced") {
		t.Errorf("the header says that a limit is not enforced: %s", stderr)
	}
	looked := map[string]int{}
	threads := 0
	for _, pid := range processesOf(y) {
		groups := readProc(t, pid, "cgroup")
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/cgroup", pid))
		for _, task := range tasks { // each has moved itself
			if b, err := os.ReadFile(task); err == nil && string(b) != groups {
				t.Errorf("%s: %s, and its process: %s", task, b, groups)
			}
			threads++
		}
		for line := range strings.Lines(groups) {
			f := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(f) != 3 || !strings.Contains(f[2], "/bailey/sbx_") {
				continue
			}
			for file, want := range groupFiles(f[1]) {
				path := filepath.Join("/sys/fs/cgroup", f[1], f[2], file)
				if b, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(b)) != want {
					t.Errorf("%s is %q (%v), want %s", path, b, err, want)
				}
				looked[want]++
			}
		}
	}
	if threads < 20 {
		t.Errorf("%d threads were looked at", threads)
	}
	if len(looked) != 2 {
		t.Errorf("not both limits were looked at: %v", looked)
	}
	for value, n := range looked {
		least := 5 // helper, gVisor's three, a command
		if yard.Native() {
			least = 4 // helper, first process, shell, its command
		}
		if n < least {
			t.Errorf("%d processes are in the group with the value %s", n, value)
		}
	}
	if groups := readProc(t, r.Cmd.Process.Pid, "cgroup"); strings.Contains(groups, "sbx_") {
		t.Errorf("twin: bailey itself is in the group: %s", groups)
	}
}

// groupFiles returns the files of a hierarchy (cgroups(7)) that hold 300 MiB
// and half a CPU; version 2 names no controllers.
func groupFiles(controllers string) map[string]string {
	switch {
	case controllers == "":
		return map[string]string{"memory.max": "314572800", "cpu.max": "50000 100000"}
	case slices.Contains(strings.Split(controllers, ","), "memory"):
		return map[string]string{"memory.limit_in_bytes": "314572800"}
	case slices.Contains(strings.Split(controllers, ","), "cpu"):
		return map[string]string{"cpu.cfs_quota_us": "50000"}
	}
	return nil
}

// TestISO08_CPU: a loop that wants all CPUs gets what it was given.
func TestISO08_CPU(t *testing.T) {
	t.Attr("claim", "ISO-08")
	y := yard.Root(t)
	const window = 3 * time.Second
	used := func(flags ...string) float64 {
		r := y.Start(t, append(append([]string{"run", "-q"}, flags...), "--", "sh", "-c", "echo up; for i in 1 2 3 4; do (while :; do :; done) & done; wait")...)
		r.Await(t, "up")
		before, began := cpuTime(y), time.Now()
		<-time.After(window) // the measured window
		share := (cpuTime(y) - before).Seconds() / time.Since(began).Seconds()
		_ = r.Cmd.Process.Kill()
		r.Wait(t, 10*time.Second)
		return share
	}
	limited, free := used("--cpus", "0.2"), used()
	t.Logf("CPUs used: %.2f with --cpus 0.2, %.2f without", limited, free)
	if limited > 0.3 {
		t.Errorf("--cpus 0.2: used %.2f", limited)
	}
	if free < 1.3*limited {
		t.Errorf("twin: without a limit it used %.2f, not clearly more than %.2f", free, limited)
	}
}

// cpuTime adds up what the processes of the yard's binary have used.
func cpuTime(y *yard.Yard) time.Duration {
	var ticks int64
	for _, pid := range processesOf(y) {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 12 { // proc_pid_stat(5): utime and stime
			u, _ := strconv.ParseInt(f[11], 10, 64)
			s, _ := strconv.ParseInt(f[12], 10, 64)
			ticks += u + s
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestISO08_HeaderSaysWhatIsNotEnforced: an ordinary user's sandbox has no
// cgroup on this machine; memory is watched then, and the header says so.
func TestISO08_HeaderSaysWhatIsNotEnforced(t *testing.T) {
	t.Attr("claim", "ISO-08")
	y := yard.Unprivileged(t)
	r := y.Run(t, "run", "--cpus", "1", "--insecure-unenforced", "--", "true").OK(t)
	if !strings.Contains(r.Stderr, "limit memory is watched, not enforced") {
		t.Errorf("memory: %s", r.Stderr)
	}
	if !strings.Contains(r.Stderr, "limit cpus is not enforced") {
		t.Errorf("cpus: %s", r.Stderr)
	}
}

// TestISO09_DeadlineIsKeptByTheWatchdog: the run's own process is stopped, and
// with it everything that could end the sandbox but the watchdog.
func TestISO09_DeadlineIsKeptByTheWatchdog(t *testing.T) {
	t.Attr("claim", "ISO-09")
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		clean := nothingLeft(t, y)
		start := func(name string, flags ...string) *yard.Running {
			script := "echo up; while :; do date +%s > " + name + "; sleep 0.1; done"
			r := y.Start(t, append(append([]string{"run", "-q"}, flags...), "--", "sh", "-c", script)...)
			r.Await(t, "up")
			if err := r.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			return r
		}
		runs := []*yard.Running{start("ends", "--timeout", "2s"), start("lives")}
		<-time.After(7 * time.Second) // the deadline, its grace and a second
		ended, lives := beat(t, y, "ends"), beat(t, y, "lives")
		<-time.After(time.Second)
		if !beat(t, y, "ends").Equal(ended) {
			t.Error("the sandbox lives on after its deadline when bailey is stopped")
		}
		if beat(t, y, "lives").Equal(lives) {
			t.Error("twin: it ended without a deadline")
		}
		for _, r := range runs {
			_ = r.Cmd.Process.Kill()
			r.Wait(t, 10*time.Second)
		}
		clean()
	})
}

// beat is when the sandbox last wrote a file.
func beat(t *testing.T, y *yard.Yard, name string) time.Time {
	t.Helper()
	fi, err := os.Stat(filepath.Join(y.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return fi.ModTime()
}

// TestISO08_TheTwinOfAllIsTheHost: the same bombs, as far as they are harmless
// there, are not held up by anything outside of a sandbox.
func TestISO08_TheTwinOfAllIsTheHost(t *testing.T) {
	t.Attr("claim", "ISO-08")
	y := yard.Unprivileged(t)
	y.Write(t, "files.py", opens)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -n 1024; python3 files.py; dd if=/dev/zero of=one bs=1M count=64 2>/dev/null; echo $?; rm one`)
	cmd.Dir = y.Dir
	out, err := cmd.Output()
	if err != nil || string(out) != "opened 200\n0\n" {
		t.Errorf("on the host: %q, %v", out, err)
	}
}

// Where nothing but a watchdog keeps the memory limit, what is written into
// private copies is held by the size of what they lie in.
func TestRun_PrivateCopiesArePartOfTheMemory(t *testing.T) {
	y := yard.Unprivileged(t)
	repository(t, y, y.Dir)
	for memory, want := range map[string]string{"512M": "131072", "128M": "49152", "4G": "262144"} {
		r := y.Sh(t, "df -k .git/hooks | tail -n 1 | awk '{print $2}'", "-q", "--memory", memory)
		if size, _, _ := strings.Cut(r.Stdout, "\n"); size != want {
			t.Errorf("--memory %s: %q, want %s: %s", memory, r.Stdout, want, r.Stderr)
		}
	}
	r := y.Sh(t, "head -c 200000000 /dev/zero > .git/hooks/big", "-q", "--memory", "512M")
	if r.Code == 0 || !strings.Contains(r.Stderr, "No space left") {
		t.Errorf("more than fits: %+v", r)
	}
}
