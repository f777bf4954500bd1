package spec_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// netRecord is a record of `bailey net log --json`.
type netRecord struct {
	Time       time.Time
	Sandbox    string
	ID         string `json:"sandbox_id"`
	Name       string
	Port       uint16
	Address    string
	Proto      string
	Verdict    string
	Rule       string
	Reason     string
	Method     string
	Path       string
	BytesIn    int64 `json:"bytes_in"`
	BytesOut   int64 `json:"bytes_out"`
	Program    string
	Open       bool
	Connection uint64
	Message    string
}

// kept returns what `bailey net log --json` prints.
func kept(t *testing.T, y *yard.Yard, flags ...string) []netRecord {
	t.Helper()
	return recordsIn(t, y.Run(t, append([]string{"net", "log", "--json"}, flags...)...).OK(t).Stdout)
}

func recordsIn(t *testing.T, text string) []netRecord {
	t.Helper()
	var list []netRecord
	for line := range strings.Lines(text) {
		var r netRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, r)
	}
	return list
}

func stateOf(y *yard.Yard) string { return filepath.Join(y.Home, ".local/state/bailey") }

// TestEGR11_DecisionsAreKept: what was decided is on record with its fields,
// for the user alone, can be followed from elsewhere while it happens, and
// holds nothing that was sent.
func TestEGR11_DecisionsAreKept(t *testing.T) {
	t.Attr("claim", "EGR-11")
	t.Parallel()
	const secret = "s3cr3t-of-the-body"
	list := []attempt{
		say("HTTP", "11.0.0.10:80", "POST /path?q="+secret+" HTTP/1.1\r\nHost: allow.test\r\nUser-Agent: tool/1.0 (x)\r\nAuthorization: "+secret+"\r\nContent-Length: 18\r\nConnection: close\r\n\r\n"+secret, nil, reaches(helloAllowed)),
		web("refused HTTP", "11.0.0.66:80", "evil.test", nil, gets403("not-allowed")),
		secure("refused TLS", "11.0.0.66:443", "evil.test", nil, fails("ECONNRESET")),
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		world(lab)
		y.Wrap = lab.Enter
		putProbe(t, y, list)
		follow := y.Start(t, "net", "log", "-f", "--json")
		table := y.Start(t, "net", "log", "-f", "--denied", "--sandbox", "kept")
		box := y.Start(t, "run", "--name", "kept", "--allow", "allow.test", "--", "sh", "-c", "./netprobe attempts.json; ls "+stateOf(y)+" && echo the record is seen; read line")
		// A connection is on record at its end, and an answered one may end
		// after the next has been reset.
		lines := func(r *yard.Running, n int) string {
			var out string
			yard.Eventually(t, yard.Timeout, func() bool {
				out, _ = r.Output()
				return strings.Count(out, "\n") >= n
			}, func() string { return out })
			return out
		}
		out := lines(follow, 3)
		now := time.Now()
		lines(table, 2)
		got := recordsIn(t, out)
		if late := now.Sub(got[len(got)-1].Time); late > 10*time.Second { // a second, on a machine that is not busy
			t.Errorf("followed after %v", late)
		}
		slices.SortFunc(got, func(a, b netRecord) int { return cmp.Compare(a.Connection, b.Connection) })
		want := []string{
			"allow.test 80 11.0.0.10 http allow rule=allow.test reason= POST path= program=claimed: tool/1.0",
			"evil.test 80 11.0.0.66 http deny rule= reason=not-allowed GET path= program=",
			"evil.test 443 11.0.0.66 tls deny rule= reason=not-allowed  path= program=",
		}
		var said []string
		for _, r := range got {
			said = append(said, fmt.Sprintf("%s %d %s %s %s rule=%s reason=%s %s path=%s program=%s", r.Name, r.Port, r.Address, r.Proto, r.Verdict, r.Rule, r.Reason, r.Method, r.Path, r.Program))
			if r.Sandbox != "kept" || !regexp.MustCompile(`^sbx_[0-9a-f]{16}$`).MatchString(r.ID) || r.Connection == 0 || time.Since(r.Time) > time.Minute*10 {
				t.Errorf("record %+v", r)
			}
			if r.Verdict == "allow" && (r.BytesIn == 0 || r.BytesOut == 0) {
				t.Errorf("allowed without its bytes: %+v", r)
			}
		}
		if !slices.Equal(said, want) {
			t.Errorf("followed:\n%s\nwant:\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
		}
		_, _ = io.WriteString(box.Stdin, "go\n")
		if r := box.Wait(t, 20*time.Second).OK(t); strings.Contains(r.Stdout, "is seen") {
			t.Errorf("the sandbox sees the record: %s", r.Stdout)
		}
		if again := kept(t, y); len(again) != len(want) { // nothing runs any more
			t.Errorf("history: %+v", again)
		}
		if denied := kept(t, y, "--denied", "--sandbox", got[0].ID, "--since", "1h"); len(denied) != 2 {
			t.Errorf("denied: %+v", denied)
		}
		if none := y.Run(t, "net", "log", "--sandbox", "other").Exit(t, 125); none.Stdout != "" || !strings.Contains(none.Stderr, "none is on record") {
			t.Errorf("of another sandbox: %s%s", none.Stdout, none.Stderr)
		}
		shown, _ := table.Output()
		if strings.Contains(shown, "allow.test") || strings.Contains(shown, "\x1b") || strings.Count(shown, "\n") != 2 || !strings.Contains(shown, "not-allowed") {
			t.Errorf("table: %s", shown)
		}
		fieldsOf(t, y)
		private(t, y, secret)
	})
}

// fieldsOf looks that a record has the fields of docs/events.md.
func fieldsOf(t *testing.T, y *yard.Yard) {
	t.Helper()
	first, _, _ := strings.Cut(y.Run(t, "net", "log", "--json").OK(t).Stdout, "\n")
	var raw map[string]any
	if err := json.Unmarshal([]byte(first), &raw); err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq("time sandbox name port address proto verdict rule reason method path bytes_in bytes_out duration_ms program") {
		if _, ok := raw[name]; !ok {
			t.Errorf("no field %s in %s", name, first)
		}
	}
}

// private looks that the record is the user's alone and holds nothing secret.
func private(t *testing.T, y *yard.Yard, secret string) {
	t.Helper()
	dir := filepath.Join(stateOf(y), "net")
	files, err := filepath.Glob(dir + "/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	for _, path := range append(files, dir) {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o600)
		if fi.IsDir() {
			want = 0o700
		} else if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), secret) || strings.Contains(string(text), "/path") {
			t.Errorf("%s holds what was sent, %v: %s", path, err, text)
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || fi.Mode().Perm() != want || int(st.Uid) != y.UID {
			t.Errorf("%s: mode %v, owner %+v", path, fi.Mode(), st)
		}
		// Somebody else, who may pass the folders above.
		for above := filepath.Dir(dir); len(above) >= len(y.Home); above = filepath.Dir(above) {
			if err := os.Chmod(above, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for uid, works := range map[uint32]bool{uint32(y.UID): true, 65534: false} {
			cmd := exec.CommandContext(t.Context(), "ls", "-l", path)
			if !fi.IsDir() {
				cmd = exec.CommandContext(t.Context(), "cat", path)
			} else {
				cmd.Args = []string{"ls", path}
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			if out, err := cmd.CombinedOutput(); (err == nil) != works {
				t.Errorf("user %d, %s: %v %s", uid, path, err, out)
			}
		}
	}
}

// TestEGR11_RecordSurvivesAKill: what was decided stays when bailey is killed,
// the connection that was still open included.
func TestEGR11_RecordSurvivesAKill(t *testing.T) {
	t.Attr("claim", "EGR-11")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		world(lab)
		y.Wrap = lab.Enter
		const hold = `import socket, time
try: socket.create_connection(("11.0.0.66", 7)).recv(1)
except OSError as e: pass
s = socket.create_connection(("11.0.0.10", 7)); s.send(b"x\n"); print("echo", s.recv(2), flush=True)
time.sleep(600)`
		box := y.Start(t, "run", "--name", "killed", "--allow", "11.0.0.10:7", "--", python, "-c", hold)
		box.Await(t, "echo")
		held := func() (list []string) {
			for _, r := range kept(t, y) {
				list = append(list, fmt.Sprintf("%s %s open %t", r.Address, r.Verdict, r.Open))
			}
			return list
		}
		want := []string{"11.0.0.66 deny open false", "11.0.0.10 allow open true"}
		yard.Eventually(t, yard.Timeout, func() bool { return slices.Equal(held(), want) }, func() string { return fmt.Sprint(held()) })
		if err := box.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		box.Wait(t, 20*time.Second)
		if got := held(); !slices.Equal(got, want) {
			t.Errorf("after the kill: %q", got)
		}
		if out := y.Run(t, "net", "log").OK(t).Stdout; strings.Count(out, "\n") != 2 || !strings.Contains(out, "  open") {
			t.Errorf("table: %s", out)
		}
	})
}

// TestEGR11_FloodIsBounded: A177. A flood of refusals is counted, and what was
// allowed meanwhile is on record, each.
func TestEGR11_FloodIsBounded(t *testing.T) {
	t.Attr("claim", "EGR-11")
	t.Parallel()
	const long, flood, allowed = 40, 600, 40 // refused with a long name, refused at once, allowed
	text := fmt.Sprintf(`import socket, threading
def get(addr, port, head):
    s = socket.create_connection((addr, port)); s.settimeout(20); s.sendall(head)
    while s.recv(65536): pass
def many(n, *args):
    for i in range(n):
        try: get(*args)
        except OSError: pass
def head(host): return b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
list = [threading.Thread(target=many, args=(%d // 8, "11.0.0.66", 80, head(b"evil.test"))) for i in range(8)]
list.append(threading.Thread(target=many, args=(%d, "11.0.0.66", 80, head(b"h" * 8192))))
for t in list: t.start()
many(%d, "11.0.0.10", 80, head(b"allow.test"))
for t in list: t.join()
print("flooded")`, flood, long, allowed)
	t.Run("A177", func(t *testing.T) {
		t.Parallel()
		yard.Each(t, func(t *testing.T, y *yard.Yard) {
			lab := netlab.New(t)
			world(lab)
			y.Wrap = lab.Enter
			r := y.Run(t, "run", "--name", "flood", "--allow", "allow.test", "--", python, "-c", text).OK(t)
			if !strings.Contains(r.Stdout, "flooded") {
				t.Fatal(r.Stdout, r.Stderr)
			}
			allow, deny, left := 0, 0, 0
			for _, rec := range kept(t, y) {
				var n int
				switch {
				case rec.Open:
				case rec.Verdict == "allow":
					allow++
				case rec.Verdict == "deny":
					deny++
				case rec.Reason == "not-recorded":
					if _, err := fmt.Sscanf(rec.Message, "%d more", &n); err != nil {
						t.Errorf("%v: %+v", err, rec)
					}
					left += n
				}
			}
			t.Logf("allowed %d, denied %d, left out %d", allow, deny, left)
			if allow != allowed || deny+left != flood+long || deny == 0 {
				t.Errorf("of %d allowed %d are on record; of %d denied %d, and %d counted", allowed, allow, flood+long, deny, left)
			}
			var size int64
			files, _ := filepath.Glob(filepath.Join(stateOf(y), "net/*"))
			for _, f := range files {
				if fi, err := os.Stat(f); err == nil {
					size += fi.Size()
				}
			}
			if size > 4<<20 {
				t.Errorf("the record has %d bytes", size)
			}
			if n := strings.Count(r.Stderr, "\n"); n > 30 {
				t.Errorf("the footer has %d lines", n)
			}
		})
	})
}

// TestEGR11_FullDisk: A178. What cannot be recorded is said once; decisions are
// made as before.
func TestEGR11_FullDisk(t *testing.T) {
	t.Attr("claim", "EGR-11")
	t.Parallel()
	list := []attempt{
		web("allowed", "11.0.0.10:80", "allow.test", nil, reaches(helloAllowed)),
		web("refused", "11.0.0.66:80", "evil.test", nil, gets403("not-allowed")),
		web("refused again", "11.0.0.66:80", "evil.test", nil, gets403("not-allowed")),
	}
	const said = "decisions of the network are not recorded: "
	t.Run("A178", func(t *testing.T) {
		t.Parallel()
		yard.Each(t, func(t *testing.T, y *yard.Yard) {
			lab := netlab.New(t)
			world(lab)
			y.Wrap = lab.Enter
			putProbe(t, y, list)
			state := filepath.Join(y.Home, "state")
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("none", state, "tmpfs", 0, fmt.Sprintf("size=64k,mode=0700,uid=%d,gid=%d", y.UID, y.GID)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
			there := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+state) }
			run := func() yard.Result {
				r := y.RunWith(t, there, "run", "--allow", "allow.test", "--", "./netprobe", "attempts.json").OK(t)
				holdAll(t, "inside", list, r.Stdout, func(a attempt) want { return a.inside })
				return r
			}
			if r := run(); strings.Contains(r.Stderr, said) { // the twin
				t.Errorf("there is room: %s", r.Stderr)
			}
			if err := os.WriteFile(filepath.Join(state, "ballast"), make([]byte, 1<<20), 0o600); err == nil {
				t.Fatal("the disk is not full")
			}
			if r := run(); strings.Count(r.Stderr, said) != 1 || !strings.Contains(r.Stderr, "no space left on device") || !strings.Contains(r.Stderr, "evil.test (not-allowed, 2 times)") {
				t.Errorf("on a full disk: %s", r.Stderr)
			}
			log := y.RunWith(t, there, "net", "log", "--json").OK(t)
			if got := recordsIn(t, log.Stdout); len(got) != len(list) {
				t.Errorf("on record: %+v", got)
			}
		})
	})
}

// TestEGR11_WhyNamesTheFix: what would be decided, what was, and what would
// allow it, by the files here and by a sandbox that runs; and the socket that
// programs follow.
func TestEGR11_WhyNamesTheFix(t *testing.T) {
	t.Attr("claim", "EGR-11")
	t.Parallel()
	list := []attempt{
		web("allowed", "11.0.0.10:80", "allow.test", nil, reaches(helloAllowed)),
		web("refused", "11.0.0.66:80", "evil.test", nil, gets403("not-allowed")),
	}
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		world(lab)
		y.Wrap = lab.Enter
		putProbe(t, y, list)
		box := y.Start(t, "run", "--name", "why", "--allow", "allow.test", "--", "sh", "-c", "echo ready; read line; ./netprobe attempts.json; echo done; read line")
		box.Await(t, "ready")
		conn, err := net.Dial("unix", filepath.Join(filepath.Dir(y.Home), "run/bailey/why.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(yard.Timeout))
		_, _ = io.WriteString(conn, `{"op":"events"}`+"\n")
		lines := bufio.NewScanner(conn)
		if !lines.Scan() || lines.Text() != "{}" {
			t.Fatalf("answer %q, %v", lines.Text(), lines.Err())
		}
		_, _ = io.WriteString(box.Stdin, "go\n")
		followed := map[string]bool{} // the end of what is served goes on record by itself, a refusal before it is seen
		for range 2 {
			var r netRecord
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &r) != nil || r.Sandbox != "why" {
				t.Errorf("followed %q, %v", lines.Text(), lines.Err())
			}
			followed[r.Name] = true
		}
		if !followed["allow.test"] || !followed["evil.test"] {
			t.Errorf("followed %v", followed)
		}
		box.Await(t, "done")
		type report struct {
			Decisions []struct {
				Verdict, Reason string
				Port            uint16
				Allow           struct{ Flag, YAML, File string }
			}
			Last []netRecord
		}
		why := func(args ...string) (r report) {
			t.Helper()
			out := y.Run(t, append([]string{"net", "why", "--json"}, args...)...).OK(t).Stdout
			if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Decisions) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			return r
		}
		r := why("evil.test", "--sandbox", "why")
		if d := r.Decisions[0]; d.Verdict != "deny" || d.Reason != "not-allowed" || d.Port != 80 || d.Allow.Flag != "--allow evil.test:80" || len(r.Last) != 1 || r.Last[0].Name != "evil.test" {
			t.Errorf("evil.test: %+v", r)
		}
		if ok := why("allow.test:443", "--sandbox", "why").Decisions[0]; ok.Verdict != "allow" || ok.Allow.Flag != "" {
			t.Errorf("allow.test: %+v", ok)
		}
		if here := why("allow.test").Decisions[0]; here.Verdict != "deny" || here.Reason != "mode-none" {
			t.Errorf("allow.test, by what holds here: %+v", here)
		}
		_, _ = io.WriteString(box.Stdin, "go\n")
		box.Wait(t, 20*time.Second).OK(t)
		for lines.Scan() { // it ends with the run
		}
		// What it names is the fix.
		fix := r.Decisions[0].Allow
		if want := filepath.Join(y.Home, ".config/bailey/config.yaml"); fix.File != want {
			t.Fatalf("the file is %s, want %s", fix.File, want)
		}
		y.WriteHome(t, ".config/bailey/config.yaml", fix.YAML+"\n")
		if d := why("evil.test").Decisions[0]; d.Verdict != "allow" {
			t.Errorf("with %s: %+v", fix.YAML, d)
		}
		y.Run(t, "run", "--", "./netprobe", "attempts.json").OK(t)
		if last := why("evil.test").Last[0]; last.Verdict != "allow" {
			t.Errorf("with the fix: %+v", last)
		}
	})
}
