// Package carrying has operations on repositories done by the built binary's
// role for git, as root and as an ordinary user, in folders of the test's own.
package carrying

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/carrier"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// Request is one operation.
type Request = carry.Request

// Repository names a user's repository.
type Repository = carry.Repository

// Snapshot copies a commit out.
type Snapshot = carry.Snapshot

// Collect reads the work.
type Collect = carry.Collect

// Deliver makes the branch.
type Deliver = carry.Deliver

// DeleteBranch deletes it.
type DeleteBranch = carry.DeleteBranch

// Checkout copies a branch for a check.
type Checkout = carry.Checkout

// Remove removes a folder.
type Remove = carry.Remove

// Collected is what the work was found to be.
type Collected = launcher.Collected

// ID names a task.
type ID = task.ID

// argv0 is the name of the test's own program when it starts the role as
// another user.
const argv0 = "bailey-carrying"

// job is what that program reads.
type job struct {
	Program, Git, Folder string
	Request              carry.Request
}

// reply is what it writes.
type reply struct {
	Answer  []byte
	Kind    bailey.Kind
	Message string
	Failed  bool
}

// Main is called by TestMain before anything else. It does not return in the
// program that starts the role.
func Main() {
	if os.Args[0] != argv0 {
		return
	}
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		os.Exit(1)
	}
	answer, err := j.start()
	r := reply{Answer: answer, Failed: err != nil}
	if err != nil {
		r.Kind, r.Message = bailey.KindOf(err), err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func (j job) start() ([]byte, error) {
	s := carrier.Starter{Program: j.Program, Git: j.Git, Folder: j.Folder}
	ctx, cancel := context.WithTimeout(context.Background(), yard.Timeout)
	defer cancel()
	f, err := s.Start(ctx, j.Request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

// Desk is a user's repository, the folder of a task, and who starts the role.
type Desk struct {
	*yard.Yard
	Repo   string // of the yard's identity
	Folder string
	Git    string // the program; empty for the machine's
	as     int    // who starts the role
}

// Each runs f as root, as an ordinary user, and as root for the repository of
// an ordinary user, whom the folders of root's are closed to.
func Each(t *testing.T, f func(t *testing.T, d *Desk)) {
	t.Helper()
	t.Run("root", func(t *testing.T) { f(t, newDesk(t, yard.Root(t), 0)) })
	t.Run("user", func(t *testing.T) {
		y := yard.Unprivileged(t)
		f(t, newDesk(t, y, y.UID))
	})
	t.Run("root for a user", func(t *testing.T) { f(t, newDesk(t, yard.Unprivileged(t), 0)) })
}

func newDesk(t *testing.T, y *yard.Yard, as int) *Desk {
	t.Helper()
	d := &Desk{Yard: y, Repo: y.Dir + "/repo", as: as}
	state, err := os.MkdirTemp("", "desk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	d.Folder = filepath.Join(state, "tasks", "t1")
	if err := os.MkdirAll(d.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if as != 0 {
		d.Own(t, state)
	}
	d.Host(t, "git", "init", "-q", "-b", "main", d.Repo)
	return d
}

// Own gives a tree to the yard's identity.
func (d *Desk) Own(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, d.UID, d.GID)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Shadow and Clone are the two folders of the task.
func (d *Desk) Shadow() string { return d.Folder + "/shadow.git" }

// Clone is the agent's.
func (d *Desk) Clone() string { return d.Folder + "/clone" }

// Place is the repository as a request names it.
func (d *Desk) Place() carry.Repository {
	return carry.Repository{Path: d.Repo, Roots: []string{d.Dir}}
}

// Script runs a shell script in a folder with the rights of root, and gives
// what it made to the identity. It returns what it printed.
func (d *Desk) Script(t testing.TB, dir, script string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.Home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@example.org",
		"GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.org", "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=protocol.file.allow", "GIT_CONFIG_VALUE_1=always", "CLONE=" + d.Clone(), "REPO=" + d.Repo,
	}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	for _, top := range []string{d.Repo, d.Clone()} {
		if strings.HasPrefix(dir+"/", top+"/") {
			d.Own(t, top)
		}
	}
	return string(out)
}

// Do has one operation done, and returns the answer as it came.
func (d *Desk) Do(t testing.TB, r carry.Request) ([]byte, error) {
	t.Helper()
	j := job{Program: d.Bin, Git: d.Git, Folder: d.Folder, Request: r}
	if d.as == os.Getuid() {
		return j.start()
	}
	data, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), OwnProgram(t))
	cmd.Args, cmd.Dir = []string{argv0}, "/"
	cmd.Env = []string{"HOME=" + d.Home, "PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Stdin = bytes.NewReader(data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(d.as), Gid: uint32(d.GID)}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("start the role as another: %v", err)
	}
	var got reply
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Failed {
		return nil, bailey.NewError(got.Kind, got.Message, "")
	}
	return got.Answer, nil
}

// Take makes the snapshot of HEAD, which has to succeed.
func (d *Desk) Take(t testing.TB) launcher.Snapshot {
	t.Helper()
	answer, err := d.Do(t, carry.Request{Snapshot: &carry.Snapshot{Repository: d.Place(), ID: "t1", Home: d.Home, Shadow: d.Shadow(), Clone: d.Clone()}})
	if err != nil {
		t.Fatal(err)
	}
	var s launcher.Snapshot
	if err := json.Unmarshal(answer, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Gather collects, which has to succeed, and returns the diff too.
func (d *Desk) Gather(t testing.TB) (launcher.Collected, string) {
	t.Helper()
	answer, err := d.Do(t, carry.Request{Collect: &carry.Collect{ID: "t1", Shadow: d.Shadow(), Clone: d.Clone()}})
	if err != nil {
		t.Fatal(err)
	}
	head, diff, _ := bytes.Cut(answer, []byte("\n"))
	var c launcher.Collected
	if err := json.Unmarshal(head, &c); err != nil {
		t.Fatal(err)
	}
	return c, string(diff)
}

// Send delivers.
func (d *Desk) Send(t testing.TB) error {
	t.Helper()
	_, err := d.Do(t, carry.Request{Deliver: &carry.Deliver{Repository: d.Place(), ID: "t1", Shadow: d.Shadow()}})
	return err
}

var (
	ownOnce sync.Once
	own     string
	errOwn  error
)

// OwnProgram is a copy of the test's program that every user can execute.
func OwnProgram(t testing.TB) string {
	t.Helper()
	ownOnce.Do(func() {
		var dir, exe string
		if exe, errOwn = os.Executable(); errOwn != nil {
			return
		}
		if dir, errOwn = os.MkdirTemp("", "carrying-"); errOwn != nil {
			return
		}
		own = filepath.Join(dir, "program")
		errOwn = errors.Join(os.Chmod(dir, 0o755), copyProgram(exe, own))
	})
	if errOwn != nil {
		t.Fatal(errOwn)
	}
	return own
}

func copyProgram(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// Clean removes what was copied. Call it from TestMain after m.Run.
func Clean() {
	if own != "" {
		_ = os.RemoveAll(filepath.Dir(own))
	}
}
