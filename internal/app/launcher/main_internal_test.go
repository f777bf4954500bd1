package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/taskrun"
)

// The test's own program plays the children, and the launcher that is killed.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case taskrun.Argv0:
		os.Exit(playRunner())
	case role.Control:
		os.Exit(playControl())
	case role.Git:
		os.Exit(playGit())
	case crashName:
		os.Exit(playCrash())
	case lingerName:
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

const (
	crashName  = "test-crash"
	lingerName = "test-linger"
)

// playRunner does what the prompt says: "end" ends at once, "wait" when it is
// told to, "hang" never, "die" without an End, "linger" leaves a process.
func playRunner() int {
	var s taskrun.Settings
	if err := inherit.Document(os.NewFile(taskrun.SettingsFD, "settings"), taskrun.MaxSettings, &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	order := s.Prompt + s.Command
	fmt.Println("does " + order)
	fmt.Fprintln(os.Stderr, "an error")
	fmt.Fprintln(os.NewFile(taskrun.EventsFD, "events"), `{"type":"event"}`)
	_ = os.WriteFile(filepath.Join(s.Dir, "made"), []byte(s.ID), 0o600)
	e := taskrun.End{ExitCode: 3, Ended: time.Now(), HostUID: 4711, Notes: []string{"a note"}}
	switch order {
	case "wait":
		<-told
		e.Limit = "stop"
	case "hang":
		signal.Ignore(syscall.SIGTERM)
		select {}
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "linger":
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{lingerName}
		_ = cmd.Start()
		e.Error = fmt.Sprint(cmd.Process.Pid)
	}
	_ = json.NewEncoder(os.NewFile(taskrun.EndFD, "end")).Encode(e)
	return 0
}

// playGit is a role for git that takes until somebody makes a file named go in
// the repository's folder. Beside it each says how many there are with it.
func playGit() int {
	var order struct {
		Request struct {
			DeleteBranch struct{ Path string } `json:"delete_branch"`
		}
	}
	if err := json.NewDecoder(os.Stdin).Decode(&order); err != nil {
		return 1
	}
	dir := order.Request.DeleteBranch.Path
	own, err := os.CreateTemp(dir, "works-")
	if err != nil {
		return 1
	}
	all, _ := filepath.Glob(dir + "/works-*")
	if err := os.WriteFile(strings.Replace(own.Name(), "works-", "saw-", 1), fmt.Append(nil, len(all)), 0o600); err != nil {
		return 1
	}
	for {
		if _, err := os.Stat(dir + "/go"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := os.Remove(own.Name()); err != nil {
		return 1
	}
	fmt.Println(`{"deleted":true}`)
	return 0
}

// plainHelpers do in this process what helpers do.
type plainHelpers struct {
	fail  error
	calls []string
}

func (h *plainHelpers) did(name string) error {
	h.calls = append(h.calls, name)
	return h.fail
}

func (h *plainHelpers) examine(_ context.Context, r launcher.ExamineRequest, at place) (string, error) {
	return r.Path, errors.Join(os.Mkdir(at.shadow, 0o700), h.did("examine"))
}

func (h *plainHelpers) snapshot(_ context.Context, r launcher.SnapshotRequest, at place) (launcher.Snapshot, error) {
	if err := errors.Join(os.Mkdir(at.workspace, 0o700), os.Mkdir(at.shadow, 0o700)); err != nil {
		return launcher.Snapshot{}, err
	}
	return launcher.Snapshot{Repo: r.Path, Base: "base"}, h.did("snapshot")
}

func (h *plainHelpers) checkout(_ context.Context, _ launcher.CheckRequest, at place) (launcher.Snapshot, error) {
	return launcher.Snapshot{Base: "commit"}, errors.Join(os.Mkdir(at.workspace, 0o700), h.did("checkout"))
}

func (h *plainHelpers) collect(_ context.Context, _ task.ID, at place, to *os.File) error {
	made, err := os.ReadFile(filepath.Join(at.workspace, "made"))
	if err == nil {
		_, err = fmt.Fprintf(to, "{}\n%s", made)
	}
	return errors.Join(err, h.did("collect"))
}

func (h *plainHelpers) deliver(_ context.Context, id task.ID, _ string, _ place) (launcher.Delivered, error) {
	return launcher.Delivered{Branch: id.Branch(), Commit: "work"}, h.did("deliver")
}

func (h *plainHelpers) deleteBranch(context.Context, string, string) (launcher.Deleted, error) {
	return launcher.Deleted{Deleted: true, Commit: "work"}, h.did("delete")
}

// newEngine is one with a folder.
func newEngine(data string) (*engine, *plainHelpers, error) {
	home, err := newHousehold()
	if err != nil {
		return nil, nil, err
	}
	s, err := openStore(data, "engine", os.Getuid())
	if err != nil {
		return nil, nil, err
	}
	h := &plainHelpers{}
	e := &engine{
		settings: launcher.Settings{Data: data, Env: []string{}}, store: s, home: home, helpers: h, log: slog.New(slog.DiscardHandler),
		now: time.Now, changed: func() {}, point: func(string) {}, late: lateBy, units: make(map[task.ID]*unit),
		reads: func(context.Context, bool) (launcher.Catalog, error) {
			return launcher.Catalog{Tasks: launcher.Tasks{Roots: []string{"/repo"}}}, nil
		},
	}
	return e, h, e.recover(context.Background())
}

func mustEngine(t *testing.T, data string) (*engine, *plainHelpers) {
	t.Helper()
	e, h, err := newEngine(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stopAll)
	return e, h
}

func snapshotOf(id task.ID) launcher.SnapshotRequest {
	return launcher.SnapshotRequest{ID: id, Path: "/repo"}
}

func agentOf(id task.ID, order string) launcher.AgentRequest {
	return launcher.AgentRequest{ID: id, Harness: "claude", Model: "m", Prompt: order, MaxTurns: 1, Timeout: time.Hour}
}

func checkOf(id task.ID, order string) launcher.CheckRequest {
	return launcher.CheckRequest{ID: id, Path: "/repo", Branch: "agent/x", Command: order, Timeout: time.Hour}
}

func begin(t *testing.T, e *engine, id task.ID, order string) {
	t.Helper()
	if _, err := e.Snapshot(t.Context(), snapshotOf(id)); err != nil {
		t.Fatal(err)
	}
	s, err := e.StartAgent(t.Context(), agentOf(id, order))
	if err != nil {
		t.Fatal(err)
	}
	closeAll(s.Output, s.Errors, s.Events)
}

func text(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	return string(b)
}

// crashLife is the whole life of a task, in which the launcher is killed at a
// point. It prints the points that it comes by.
const (
	crashPoint  = "CRASH_POINT"
	crashFolder = "CRASH_FOLDER"
)

func playCrash() int {
	ctx := context.Background()
	e, _, err := newEngine(os.Getenv(crashFolder))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	e.point = func(name string) {
		fmt.Println("point: " + name)
		if name == os.Getenv(crashPoint) {
			e.home.mu.Lock()
			for _, c := range e.home.known {
				fmt.Printf("child: %d %d\n", c.id.PID, c.id.Start)
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	order := "end"
	if strings.HasSuffix(os.Getenv(crashPoint), string(running)) {
		order = "wait"
	}
	steps := []func() error{
		func() error { _, err := e.Snapshot(ctx, snapshotOf("a")); return err },
		func() error {
			s, err := e.StartAgent(ctx, agentOf("a", order))
			closeAll(s.Output, s.Errors, s.Events)
			return err
		},
		func() error { _, err := e.Status(ctx, "a", true); return err },
		func() error { c, err := e.HandBack(ctx, "a"); closeAll(c.File); return err },
		func() error { _, err := e.Deliver(ctx, "a"); return err },
		func() error { return e.Remove(ctx, "a") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}
