package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
)

// holder is a sandbox as the socket shows it.
type holder struct {
	info  control.Info
	stops chan struct{}
}

// Info is what it was made with.
func (h *holder) Info() control.Info { return h.info }

// Stop is counted.
func (h *holder) Net(r control.NetRequest) (control.NetAnswer, error) {
	if r.Do == control.NetPending {
		return control.NetAnswer{Pending: []control.Pending{{Host: "evil.test", Port: 443}}}, nil
	}
	return control.NetAnswer{}, bailey.NewError(bailey.Invalid, "no such order", "try another")
}

func (h *holder) Stop() { h.stops <- struct{}{} }

// Exec says what it is told.
func (h *holder) Exec(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// Seat refuses the one that is called lonely.
func (h *holder) Seat() error {
	if h.info.Name == "lonely" {
		return bailey.NewError(bailey.Invalid, "no seat", "stand")
	}
	return nil
}

// Attach says what it is told.
func (h *holder) Attach(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// Sample has numbers.
func (h *holder) Sample() control.Sample {
	return control.Sample{Name: h.info.Name, Memory: &control.Gauge{Used: 7, Limit: 8}}
}

// Events says one line.
func (h *holder) Events(conn net.Conn) { _, _ = io.WriteString(conn, "{}\n") }

// Why repeats the question.
func (h *holder) Why(q control.Question) control.Answer {
	return control.Answer{Verdict: "deny", Detail: fmt.Sprint(q.Host, " ", q.Port), Mode: bailey.NetOpen}
}

func folder(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "run")
}

// hold claims a name and answers for it until the end of the test.
func hold(t *testing.T, dir string, info control.Info) *holder {
	t.Helper()
	s, err := control.Listen(t.Context(), dir, info.Name, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h := &holder{info: info, stops: make(chan struct{}, 1)}
	go s.Serve(h)
	return h
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	infos, err := control.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names
}

// TestListen_NotForTheService: the service's socket lies in the same folder. It
// is no sandbox's, and none takes its place.
func TestListen_NotForTheService(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	hold(t, dir, control.Info{Name: "server"}) // the twin
	if _, err := control.Listen(t.Context(), dir, "serve", os.Getuid()); bailey.KindOf(err) != bailey.Conflict {
		t.Errorf("a sandbox of that name: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "serve.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := names(t, dir); !cmp.Equal(got, []string{"server"}) {
		t.Errorf("listed: %v", got)
	}
	if _, _, err := control.Ask(t.Context(), dir, "serve", control.Status); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("it was asked: %v", err)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	h := hold(t, dir, control.Info{Name: "a", Command: []string{"true", ""}, Status: "running"})

	if info, _, err := control.Ask(t.Context(), dir, "a", control.Status); err != nil || !cmp.Equal(info, h.info) {
		t.Errorf("status: %+v, %v", info, err)
	}
	if info, _, err := control.Ask(t.Context(), dir, "a", control.Stop); err != nil || info.Name != "a" {
		t.Errorf("stop: %+v, %v", info, err)
	}
	<-h.stops
	if _, _, err := control.Ask(t.Context(), dir, "a", "dance"); err == nil || !strings.Contains(err.Error(), "dance") {
		t.Errorf("unknown operation: %v", err)
	}
	for _, name := range []string{"b", "", "../" + filepath.Base(dir) + "/a"} {
		if _, _, err := control.Ask(t.Context(), dir, name, control.Status); bailey.KindOf(err) != bailey.NotFound {
			t.Errorf("unknown name %q: %v", name, err)
		}
	}

	_, conn, err := control.Ask(t.Context(), dir, "a", control.Exec)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echo := make([]byte, 4)
	if _, err := conn.Write([]byte("said")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "said" {
		t.Errorf("session: %q, %v", echo, err)
	}
}

// TestAsk_AnyCommand: a command of any length leaves its sandbox in sight.
func TestAsk_AnyCommand(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"one":     {"sh", "-c", strings.Repeat("\x01", 1<<20)},
		"many":    append([]string{"echo"}, make([]string, 1<<20)...),
		"letters": {strings.Repeat("é", 1<<19)},
	} {
		dir := folder(t)
		hold(t, dir, control.Info{Name: name, Command: command})
		info, _, err := control.Ask(t.Context(), dir, name, control.Status)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		shown := strings.Join(info.Command, " ")
		if !strings.HasSuffix(shown, "…") || len(shown) < 4000 || !strings.HasPrefix(shown, command[0][:2]) || strings.Contains(shown, "\ufffd") {
			t.Errorf("%s: shown as %.20q, %d bytes", name, shown, len(shown))
		}
		if got := names(t, dir); len(got) != 1 {
			t.Errorf("%s: listed: %q", name, got)
		}
	}
}

// TestListen_OneOfMany: of those that claim one name at the same moment one
// gets it, and its socket stays.
func TestListen_OneOfMany(t *testing.T) {
	t.Parallel()
	for round := range 30 {
		dir := folder(t)
		var (
			mu   sync.Mutex
			held []*control.Server
			wg   sync.WaitGroup
		)
		begin := make(chan struct{})
		for i := range 8 {
			// Others start beside them, and sweep.
			for _, name := range []string{"same", fmt.Sprintf("other-%d", i)} {
				wg.Go(func() {
					<-begin
					s, err := control.Listen(t.Context(), dir, name, os.Getuid())
					if err != nil && bailey.KindOf(err) != bailey.Conflict {
						t.Errorf("%s: %v", name, err)
					}
					if err != nil {
						return
					}
					go s.Serve(&holder{info: control.Info{Name: name}})
					mu.Lock()
					defer mu.Unlock()
					held = append(held, s)
				})
			}
		}
		close(begin)
		wg.Wait()
		if got := names(t, dir); len(held) != 9 || len(got) != 9 {
			t.Errorf("round %d: %d hold a name, in sight: %q", round, len(held), got)
		}
		for _, s := range held {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// TestListen_StaleSockets: a socket whose holder is gone is taken over or
// swept; one whose holder is alive is not, even when it takes no connection.
func TestListen_StaleSockets(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gone", "gone-too"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: control.Path(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	busy(t, control.Path(dir, "busy"))
	hold(t, dir, control.Info{Name: "gone"})
	if _, err := os.Stat(control.Path(dir, "gone-too")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("not swept: %v", err)
	}
	for _, name := range []string{"gone", "busy"} {
		if s, err := control.Listen(t.Context(), dir, name, os.Getuid()); bailey.KindOf(err) != bailey.Conflict {
			t.Errorf("%s was claimed twice: %v, %v", name, s, err)
		}
	}
	if _, _, err := control.Ask(t.Context(), dir, "busy", control.Status); bailey.KindOf(err) != bailey.Unavailable {
		t.Errorf("a holder that does not answer: %v", err)
	}
}

// busy listens on path and has its backlog full.
func busy(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the backlog does not fill")
}

func TestListen_WaitsForTheLock(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := control.Listen(ctx, dir, "a", os.Getuid()); bailey.KindOf(err) != bailey.Unavailable {
		t.Errorf("with the lock taken: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	hold(t, dir, control.Info{Name: "a"})
}

func TestListen_PrivateFolder(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(t.Context(), dir, "a", os.Getuid()); bailey.KindOf(err) != bailey.Forbidden {
		t.Errorf("a folder that others can read: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	hold(t, dir, control.Info{Name: "a"})
}

// TestAsk_AHolderThatIsStopped does as one that Ctrl-Z stopped: the kernel
// takes connections for it, and it answers none. It is listed and named, and
// does nothing later of what it was asked by somebody who gave up. The twin is
// that who waits is served.
func TestAsk_AHolderThatIsStopped(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s, err := control.Listen(t.Context(), dir, "still", os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := control.Info{Name: "still", PID: os.Getpid(), Status: control.NotAnswering}
	infos, err := control.List(t.Context(), dir)
	if err != nil || !cmp.Equal(infos, []control.Info{want}) {
		t.Errorf("listed: %+v, %v", infos, err)
	}
	info, _, err := control.Ask(t.Context(), dir, "still", control.Stop)
	e, ok := errors.AsType[*bailey.Error](err)
	if !ok || e.Kind != bailey.Unavailable || !strings.Contains(e.Hint, fmt.Sprintf("kill -CONT %d", os.Getpid())) || !cmp.Equal(info, want) {
		t.Errorf("stop: %+v, %v", info, err)
	}
	h := &holder{info: control.Info{Name: "still", Status: "running"}, stops: make(chan struct{}, 2)}
	go s.Serve(h)
	if info, _, err := control.Ask(t.Context(), dir, "still", control.Status); err != nil || info.Status != "running" {
		t.Errorf("when it goes on: %+v, %v", info, err)
	}
	if len(h.stops) != 0 {
		t.Error("it did what nobody waits for any more")
	}
	if _, _, err := control.Ask(t.Context(), dir, "still", control.Stop); err != nil || len(h.stops) != 1 {
		t.Errorf("twin: stop: %d, %v", len(h.stops), err)
	}
}

// Who follows gets the connection, and a question its answer.
func TestAsk_AboutDecisions(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	hold(t, dir, control.Info{Name: "box"})
	_, conn, err := control.Ask(t.Context(), dir, "box", control.Events)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "{}\n" {
		t.Errorf("events: %q, %v", b, err)
	}
	got, err := control.AskWhy(t.Context(), dir, "box", control.Question{Host: "a.test", Port: 22})
	if want := (control.Answer{Verdict: "deny", Detail: "a.test 22", Mode: bailey.NetOpen}); err != nil || got != want {
		t.Errorf("why: %+v, %v", got, err)
	}
	if _, err := control.AskWhy(t.Context(), dir, "none", control.Question{}); bailey.KindOf(err) != bailey.NotFound {
		t.Errorf("nobody there: %v", err)
	}
}

func TestAskAttach(t *testing.T) {
	dir := folder(t)
	hold(t, dir, control.Info{Name: "open", TTY: true})
	hold(t, dir, control.Info{Name: "lonely"})
	info, conn, err := control.AskAttach(t.Context(), dir, "open")
	if err != nil || !info.TTY {
		t.Fatal(info, err)
	}
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Errorf("%q %v", got, err)
	}
	_ = conn.Close()
	_, _, err = control.AskAttach(t.Context(), dir, "lonely")
	if e, ok := errors.AsType[*bailey.Error](err); !ok || e.Hint != "stand" {
		t.Error(err)
	}
	if _, _, err = control.AskAttach(t.Context(), dir, "nobody"); bailey.KindOf(err) != bailey.NotFound {
		t.Error(err)
	}
}

func TestAskStats(t *testing.T) {
	dir := folder(t)
	hold(t, dir, control.Info{Name: "a"})
	s, err := control.AskStats(t.Context(), dir, "a")
	if err != nil || s.Name != "a" || s.Memory.Used != 7 {
		t.Error(s, err)
	}
}
