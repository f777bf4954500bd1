package launcher

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/task"
)

// playControl says in its folder that it was started and what it was told, and
// does what a file there says: "crash", "babble", "close", or it serves until
// it is told to end, and then asks for one thing more.
func playControl() int {
	var s launcher.ControlSettings
	if err := inherit.Document(os.NewFile(launcher.FDSettings, "settings"), 1<<20, &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	root, err := os.OpenRoot(launcher.StatePath())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	conn := inherit.Polled(launcher.FDEngine, "engine")
	client := launcher.NewClient(conn)
	fmt.Fprintln(os.Stderr, "a line of control's")
	note := fmt.Sprintf("uid %d restarted %d mcp %q", os.Getuid(), s.Restarted, s.MCPAddr)
	_ = root.WriteFile(fmt.Sprintf("started-%d", s.Restarted), []byte(note), 0o600)
	order, _ := root.ReadFile("order")
	_ = root.Remove("order")
	switch string(order) {
	case "crash":
		return 2
	case "babble":
		_ = fdpass.SendFiles(conn, []byte("babble"), nil)
		select {}
	case "close":
		_ = conn.Close()
		select {}
	}
	go func() { _ = client.Run() }()
	_ = client.Activity(context.Background(), launcher.Activity{Clients: 1})
	<-told
	known, err := client.Known(context.Background())
	_ = root.WriteFile("last", fmt.Appendf(nil, "%d known, %v", len(known), err), 0o600)
	return 0
}

// spoken is a log that can be looked into.
type spoken struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// supervised is a control that is kept, in a folder.
func supervised(t *testing.T, order string) (state string, log *spoken, r *rest, end func()) {
	t.Helper()
	e, _ := mustEngine(t, t.TempDir())
	begin(t, e, "a", "wait")
	state, err := controlFolder(reachable(t), os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "order"), []byte(order), 0o666); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Lchown(filepath.Join(state, "order"), launch.ControlID, launch.ControlID); err != nil {
			t.Fatal(err)
		}
	}
	clients, err := listenClients(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clients.Close() })
	log = &spoken{}
	r = newRest(time.Hour, time.Now)
	c := &control{
		home: e.home, host: host{e, r, func(int) {}}, settings: launcher.ControlSettings{UID: os.Getuid()}, state: state, clients: clients,
		log: slog.New(slog.NewJSONHandler(log, nil)), now: time.Now,
	}
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); c.keep(ctx) }()
	end = func() { cancel(); <-kept }
	t.Cleanup(end)
	return state, log, r, end
}

// reachable is a temporary folder whose parents another id may not pass: by its
// path control cannot get into its own folder under root.
func reachable(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// TestControl_IsStartedAgain: after a crash, when it does not keep to the
// protocol, and when it lets go of its socket. What runs goes on.
func TestControl_IsStartedAgain(t *testing.T) {
	for _, order := range []string{"crash", "babble", "close"} {
		t.Run(order, func(t *testing.T) {
			state, log, r, end := supervised(t, order)
			eventually(t, func() bool { return exists(filepath.Join(state, "started-1")) && !r.idle() })
			end()
			if b, err := os.ReadFile(filepath.Join(state, "last")); err != nil || string(b) != "1 known, <nil>" {
				t.Errorf("what it asked for while it was told to end: %q, %v", b, err)
			}
			if b, err := os.ReadFile(filepath.Join(state, "started-1")); err != nil || !strings.Contains(string(b), "restarted 1") {
				t.Errorf("it was told: %q, %v", b, err)
			}
			eventually(t, func() bool { return strings.Contains(log.String(), `a line of control's`) })
			if !strings.Contains(log.String(), "control ended and is started again") {
				t.Errorf("the log: %s", log)
			}
			if exists(filepath.Join(state, "started-2")) {
				t.Error("it was started a third time")
			}
		})
	}
	t.Run("twin", func(t *testing.T) {
		state, _, r, end := supervised(t, "")
		eventually(t, func() bool { return exists(filepath.Join(state, "started-0")) && !r.idle() })
		end()
		if exists(filepath.Join(state, "started-1")) {
			t.Error("one that had not ended was started again")
		}
		want := "uid " + fmt.Sprint(os.Getuid())
		if os.Getuid() == 0 {
			want = "uid " + fmt.Sprint(launch.ControlID)
		}
		if b, _ := os.ReadFile(filepath.Join(state, "started-0")); !strings.HasPrefix(string(b), want+" ") {
			t.Errorf("it runs as %q, want %s", b, want)
		}
	})
}

// TestRest_Over: nobody needs it, for as long as it waits.
func TestRest_Over(t *testing.T) {
	t.Parallel()
	const wait = 50 * time.Millisecond
	r := newRest(wait, time.Now)
	r.tell(launcher.Activity{Clients: 1})
	over := r.over(t.Context(), func() bool { return true })
	select {
	case <-over:
		t.Error("it is over while there is a client")
	case <-time.After(5 * wait):
	}
	r.tell(launcher.Activity{Resumed: 1}) // what it was: nobody needs it for that
	<-over
	never := newRest(0, time.Now)
	select {
	case <-never.over(t.Context(), func() bool { return true }):
		t.Error("it is over though it never is")
	default:
	}
}

// TestRecovered is the table of what a ledger says after a crash.
func TestRecovered(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	for _, c := range []struct {
		was  record
		want launcher.Phase
		gone bool
	}{
		{was: record{Doing: snapshotting}, gone: true},
		{was: record{Doing: removing, Status: launcher.Status{Phase: launcher.Sent}}, gone: true},
		{was: record{Status: launcher.Status{Phase: launcher.Prepared}}, want: launcher.Prepared},
		{was: record{Doing: starting, Status: launcher.Status{Phase: launcher.Prepared}}, want: launcher.Ended},
		{was: record{Doing: running, Status: launcher.Status{Phase: launcher.Live}}, want: launcher.Ended},
		{was: record{Doing: collecting, Status: launcher.Status{Phase: launcher.Ended}}, want: launcher.Ended},
		{was: record{Doing: delivering, Status: launcher.Status{Phase: launcher.Gathered}}, want: launcher.Gathered},
		{was: record{Status: launcher.Status{Phase: launcher.Sent}}, want: launcher.Sent},
	} {
		got, gone := c.was.recovered(now)
		if gone != c.gone || !gone && (got.Status.Phase != c.want || got.Doing != idle) {
			t.Errorf("%+v: %+v, %v", c.was, got, gone)
		}
		if c.was.Doing == running && (got.Status.Limit != lost || got.Status.ExitCode != notKnown || !got.Status.Ended.Equal(now)) {
			t.Errorf("it was lost: %+v", got.Status)
		}
	}
}

// FuzzDecodeRecord: a ledger is read strictly, and of the task of its folder.
func FuzzDecodeRecord(f *testing.F) {
	good, err := (&record{ID: "a", Status: launcher.Status{ID: "a"}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a", good)
	f.Add("b", good)
	f.Add("../a", []byte(`{"format":1,"id":"../a"}`))
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		if r, err := decodeRecord(task.ID(id), data); err == nil && (string(r.ID) != id || !r.ID.Valid() || r.Format != recordFormat) {
			t.Errorf("%q: %+v", id, r)
		}
	})
}

// TestKeep: what is too much is read and left out, and said.
func TestKeep(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{"": "", "1234": "1234", "12345": "1234" + cutNote, strings.Repeat("x", 1<<20): "xxxx" + cutNote} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = w.WriteString(written); _ = w.Close() }()
		path := filepath.Join(t.TempDir(), "kept")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := keep(f, r, 4); err != nil {
			t.Error(err)
		}
		_, _ = f.Close(), r.Close()
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("%d bytes: %q, want %q", len(written), got, want)
		}
	}
}

func TestRotating(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	r, err := openLog(path, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"aaaaaa\n", "bbbbbb\n", "cccccc\n", "dddddd\n", "eeeeee\n", "much longer than the size\n"} {
		if _, err := r.Write([]byte(line)); err != nil {
			t.Error(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	var got []string
	for _, name := range []string{path, path + ".1", path + ".2", path + ".3", path + ".4"} {
		b, _ := os.ReadFile(name)
		got = append(got, strings.TrimSpace(string(b)))
	}
	if want := []string{"much longer than the size", "eeeeee", "dddddd", "cccccc", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestToken is made once; one that others can read, that is a link or that is
// something else is not believed.
func TestToken(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "config")
	sum, err := token(dir, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, launcher.TokenName)
	text, err := os.ReadFile(path)
	if info, _ := os.Stat(path); err != nil || len(text) != 65 || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %v, %v", text, info.Mode(), err)
	}
	if again, err := token(dir, os.Getuid()); err != nil || !slices.Equal(again, sum) {
		t.Errorf("another one: %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("beside it are: %v", list)
	}
	spoil := map[string]func() error{
		"readable by others": func() error { return os.Chmod(path, 0o644) },
		"too short":          func() error { return os.WriteFile(path, []byte("abcd\n"), 0o600) },
		"too long":           func() error { return os.WriteFile(path, append(text, text...), 0o600) },
		"a link": func() error {
			_ = os.Rename(path, path+"-real")
			return os.Symlink(path+"-real", path)
		},
	}
	for name, do := range spoil {
		_ = os.Remove(path)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if _, err := token(dir, os.Getuid()); err == nil {
			t.Errorf("%s: it is believed", name)
		}
	}
}

// TestListenClients takes the place of a socket that nobody listens on.
func TestListenClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		f, err := listenClients(dir)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, launcher.SocketName))
		if err != nil || info.Mode().Perm() != 0o600 || info.Mode()&os.ModeSocket == 0 {
			t.Errorf("%v, %v", info, err)
		}
		_ = f.Close()
	}
	if _, err := listenClients(filepath.Join(dir, strings.Repeat("x", 120))); err == nil {
		t.Error("a path that is too long")
	}
}

// TestListenMCP: on loopback, and nowhere else.
func TestListenMCP(t *testing.T) {
	t.Parallel()
	f, at, err := listenMCP(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, _, err := listenMCP(t.Context(), at); err == nil {
		t.Error("a port that is taken was taken again")
	}
	for _, bad := range []string{"0.0.0.0:0", "[::]:0", "localhost:0", ":0", "127.0.0.1", "192.0.2.1:0"} {
		if f, _, err := listenMCP(t.Context(), bad); err == nil {
			_ = f.Close()
			t.Errorf("%s was listened on", bad)
		}
	}
}
