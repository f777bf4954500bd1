package carrier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/role"
)

// Starter starts the role.
type Starter struct {
	Program string // bailey; empty for the program that runs
	Git     string // empty for the one on the caller's PATH
	Folder  string // of the task: the shadow and the clone are in it. Root gives it to the repository's owner.
	Disk    string // in it, or empty: the clone is in that, and it is given to the same

	// Run runs the command, for a caller that keeps account of its children; nil
	// for cmd.Run.
	Run func(cmd *exec.Cmd) error
}

// Start has an operation done and returns the answer, as a file at its
// beginning that cannot be changed any more and that the caller closes: one
// line of JSON, and behind that of a Collect the diff. It ends with ctx. The
// errors that a person can cause are *bailey.Error.
//
// Owner, Git and Now of the request are filled in.
func (s Starter) Start(ctx context.Context, r carry.Request) (*os.File, error) {
	o, err := s.order(r)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode request to git: %w", err)
	}
	fd, err := unix.MemfdCreate("answer", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make file for the answer: %w", err)
	}
	answer := os.NewFile(uintptr(fd), "answer")
	if err := s.run(ctx, o, data, answer); err != nil {
		_ = answer.Close() // nobody reads it
		return nil, err
	}
	if _, err := unix.FcntlInt(answer.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("seal the answer: %w", errors.Join(err, answer.Close()))
	}
	if _, err := answer.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the answer: %w", errors.Join(err, answer.Close()))
	}
	return answer, nil
}

// order fills in a request.
func (s Starter) order(r carry.Request) (order, error) {
	r.Now = time.Now()
	if s.Git != "" {
		r.Git = s.Git
	}
	if r.Git == "" {
		found, err := exec.LookPath("git")
		if err != nil {
			return order{}, bailey.WrapError(bailey.Unavailable, "there is no git on this machine", err, "install git")
		}
		r.Git = found
	}
	real, err := filepath.EvalSymlinks(r.Git)
	if err != nil {
		return order{}, bailey.WrapError(bailey.Unavailable, "git cannot be found", err, "install git")
	}
	r.Git = real
	o := order{UID: os.Getuid(), GID: os.Getgid(), Folder: s.Folder, Disk: s.Disk, Request: r}
	if o.UID == 0 {
		if err := o.ownerOf(r.Subject()); err != nil {
			return order{}, err
		}
		if err := o.give(); err != nil {
			return order{}, err
		}
	}
	o.Request.SetOwner(o.UID)
	return o, nil
}

// ownerOf makes the role that of a folder's owner, or of the folder that one
// that is not there would be in: it is the role that says what is wrong with
// a path. It is looked at and not into.
func (o *order) ownerOf(path string) error {
	for ; ; path = filepath.Dir(path) {
		dir, err := beneath.Path(path)
		if err != nil && filepath.Dir(path) != path {
			continue
		}
		if err != nil {
			return err
		}
		info, err := beneath.Lstat(dir, "")
		_ = dir.Close() // O_PATH: nothing to lose
		if err == nil {
			o.UID, o.GID = info.UID, info.GID
		}
		return err
	}
}

// give makes the task's folder the owner's.
func (o *order) give() error {
	for _, dir := range []string{o.Folder, o.Disk} {
		if dir == "" || o.UID == 0 {
			continue
		}
		if err := os.Lchown(dir, o.UID, o.GID); err != nil {
			return fmt.Errorf("give the task's folder to the owner of the repository: %w", err)
		}
	}
	return nil
}

// run starts the role and waits for it. The kernel ties the death signal to
// the thread that forks, so that one is kept until then.
func (s Starter) run(ctx context.Context, o order, data []byte, answer *os.File) error {
	const most = 64 << 10
	program := s.Program
	if program == "" {
		program = "/proc/self/exe"
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.Dir, cmd.Env = []string{role.Git}, "/", []string{}
	cmd.Stdin, cmd.Stdout = bytes.NewReader(data), answer
	complaint := &capped{left: most}
	cmd.Stderr = complaint
	cmd.SysProcAttr = namespaces(o)
	if os.Getuid() != 0 {
		cmd.Args = append(cmd.Args, enclose)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	}
	cmd.WaitDelay = time.Second
	do := s.Run
	if do == nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		do = (*exec.Cmd).Run
	}
	err := do(cmd)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("carry: %w", context.Cause(ctx))
	}
	var p problem
	if json.Unmarshal(complaint.Bytes(), &p) == nil && p.Message != "" {
		return bailey.NewError(p.Kind, p.Message, p.Hint)
	}
	return fmt.Errorf("carry: %w: %.2000q", err, complaint.String())
}

// enclose has the role start itself once more, in its namespaces. A starter that
// cannot be looked into, as the launcher is, could not do that for an ordinary
// user: the files by which ids are mapped are root's then, as long as the child
// has the starter's memory (proc(5), "dumpable").
const enclose = "enclose"

// enclosed is the first of the two processes: it waits for the other, and dies
// with its starter as that one dies with it. It returns the exit code.
func enclosed() int {
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{role.Git}, Dir: "/", Env: []string{},
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: namespaces(order{UID: os.Getuid(), GID: os.Getgid()}),
	}
	runtime.LockOSThread() // to which the death signal is tied
	err := cmd.Start()
	if err == nil {
		err = errors.Join(harden.Undumpable(), cmd.Wait())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode()
	}
	if err != nil {
		return complain(fmt.Errorf("make namespaces for git: %w", err))
	}
	return 0
}

// capped keeps the first bytes that are written to it.
type capped struct {
	bytes.Buffer
	left int
}

// Write never fails.
func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	_, _ = c.Buffer.Write(p[:n]) // never fails
	return len(p), nil
}

// ReadFrom is hidden: it would pass Write by.
func (c *capped) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// namespaces has the role begin in its own. The owner of the repository is
// mapped to itself, and so is root where the owner is another: it makes the
// way to the task's folder before it becomes the owner.
func namespaces(o order) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: o.UID, HostID: o.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: o.GID, HostID: o.GID, Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
		Setsid:      true,
	}
	if os.Getuid() != 0 {
		return attr
	}
	attr.GidMappingsEnableSetgroups = true
	root := syscall.SysProcIDMap{ContainerID: 0, HostID: 0, Size: 1}
	if o.UID != 0 {
		attr.UidMappings = append(attr.UidMappings, root)
	}
	if o.GID != 0 {
		attr.GidMappings = append(attr.GidMappings, root)
	}
	return attr
}

// Read decodes the line of an answer and closes the file.
func Read(answer *os.File, to any) error {
	defer func() { _ = answer.Close() }() // read only: nothing to lose
	const most = 16 << 20
	if err := json.NewDecoder(io.LimitReader(answer, most)).Decode(to); err != nil {
		return fmt.Errorf("read the answer of git: %w", err)
	}
	return nil
}
