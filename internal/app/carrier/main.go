package carrier

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/linux/seccomp"
	"github.com/bailey-dev/bailey/internal/linux/userns"
)

// order is what the role reads on standard input.
type order struct {
	UID     int           `json:"uid"` // who it is to be
	GID     int           `json:"gid"`
	Folder  string        `json:"folder"` // of the task; the user may not be able to reach it by its path
	Disk    string        `json:"-"`      // the role has no need to know
	Request carry.Request `json:"request"`
}

// maxOrder bounds an order in bytes.
const maxOrder = 1 << 20

// problem is what standard error gets.
type problem struct {
	Kind    bailey.Kind `json:"kind"`
	Message string      `json:"message"`
	Hint    string      `json:"hint"`
}

// Main is the process; it returns the exit code. Args are those behind its name.
func Main(args []string) int {
	if len(args) == 1 && args[0] == enclose {
		return enclosed()
	}
	err := errors.Join(harden.NoCore(), harden.Undumpable())
	if err == nil {
		err = work(os.Stdin, os.Stdout)
	}
	if err == nil {
		return 0
	}
	return complain(err)
}

// complain says what is wrong to whoever started the role.
func complain(err error) int {
	p := problem{Kind: bailey.KindOf(err), Message: err.Error()}
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		p.Hint = e.Hint
	}
	_ = json.NewEncoder(os.Stderr).Encode(p)
	return bailey.ExitBailey
}

func work(from io.Reader, to io.Writer) error {
	var o order
	if err := inherit.Document(from, maxOrder, &o); err != nil {
		return err
	}
	if err := become(o); err != nil {
		return err
	}
	timeout := o.Request.Timeout
	if timeout <= 0 {
		timeout = carry.DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout) //nolint:forbidigo // the role is a main
	defer cancel()
	worker, err := carry.Prepare(o.Request)
	if err != nil {
		return err
	}
	if err := confine(o.Request.Git, worker.Needs()); err != nil {
		return err
	}
	answer, err := worker.Do(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return bailey.WrapError(bailey.Exhausted, fmt.Sprintf("git took longer than %v", timeout), err, "")
	}
	if err != nil {
		return err
	}
	if err := json.NewEncoder(to).Encode(answer.Head); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	if answer.Diff == nil {
		return nil
	}
	_, err = io.Copy(to, answer.Diff)
	return err
}

// become makes the process the user that the repository belongs to, with no
// capability for good. A process that root started is root in its own
// namespaces until then.
func become(o order) error {
	if os.Getuid() != o.UID {
		if err := reach(o); err != nil {
			return err
		}
		if err := settle(o.UID, o.GID); err != nil {
			return err
		}
	}
	if err := userns.DropAll(); err != nil {
		return err
	}
	if os.Getuid() != o.UID || os.Getgid() != o.GID {
		return fmt.Errorf("become user %d: is %d", o.UID, os.Getuid())
	}
	if o.Request.Snapshot != nil || o.Request.Checkout != nil {
		const files = 0o022
		syscall.Umask(files)
	}
	return bound()
}

func settle(uid, gid int) error {
	if err := syscall.Setgroups([]int{}); err != nil {
		return fmt.Errorf("leave groups: %w", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("become group %d: %w", gid, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("become user %d: %w", uid, err)
	}
	// The kernel makes a process that changes its user dumpable or not by a
	// setting of the machine.
	return harden.Undumpable()
}

// reach lets the user get to the task's folder by its path, which leads through
// folders of root's alone: the first of those is covered, in this process's
// namespace, with an empty one that has the task's folder in it and nothing
// else.
func reach(o order) error {
	closed := firstClosed(o.Folder, o.UID, o.GID)
	if closed == "" {
		return nil
	}
	if err := mount.Private(); err != nil {
		return err
	}
	folder, err := mount.Clone(o.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // the mount is attached by then
	if err := mount.Tmpfs(closed, "size=64k,nr_inodes=64,mode=0755"); err != nil {
		return err
	}
	const open = 0o755
	if err := os.MkdirAll(o.Folder, open); err != nil {
		return fmt.Errorf("make way to the task's folder: %w", err)
	}
	return mount.Attach(folder, o.Folder)
}

// firstClosed is the first folder on the way to a folder, which is not on the
// way itself, that a user may not pass through; "" if there is none.
func firstClosed(folder string, uid, gid int) string {
	parts := strings.Split(strings.TrimPrefix(filepath.Dir(folder), "/"), "/")
	for at, i := "/", 0; i < len(parts); i++ {
		at = filepath.Join(at, parts[i])
		var st syscall.Stat_t
		if syscall.Stat(at, &st) != nil {
			return at
		}
		bit := uint32(0o001)
		switch {
		case int(st.Uid) == uid:
			bit = 0o100
		case int(st.Gid) == gid:
			bit = 0o010
		}
		if st.Mode&bit == 0 {
			return at
		}
	}
	return ""
}

// maxMemory bounds the address space of the role, and of each git.
const maxMemory = 8 << 30

func bound() error {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &was); err != nil {
		return fmt.Errorf("read limit: %w", err)
	}
	most := min(maxMemory, was.Max)
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	return nil
}

// confine leaves the process git, what git is linked with, and the operation's
// folders, and takes from both the system calls that such work has no need of.
func confine(git string, n carry.Needs) error {
	programs := []string{git}
	loader, err := interpreter(git)
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, git+" is not a program", err, "install git, as a package of your system")
	}
	if loader != "" {
		programs = append(programs, loader)
	}
	err = landlock.ConfineTo(landlock.Rights{
		ReadFiles: []string{"/etc/ld.so.cache", "/dev/urandom"},
		ReadDirs: append([]string{
			"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", "/gnu/store",
		}, n.Read...),
		Execute: programs,
		Write:   n.Write,
		Devices: []string{"/dev/null"},
		Remove:  n.Remove,
	})
	if err != nil {
		return err
	}
	return seccomp.ConfineStarter()
}

// interpreter is the dynamic loader that a program names; "" for a static one.
func interpreter(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("read program: %w", err)
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > unix.PathMax {
			continue
		}
		name, err := io.ReadAll(io.LimitReader(p.Open(), unix.PathMax))
		if err != nil {
			return "", fmt.Errorf("read program: %w", err)
		}
		return strings.TrimRight(string(name), "\x00"), nil
	}
	return "", nil
}
