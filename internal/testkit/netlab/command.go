package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// User is somebody to be inside a lab.
type User struct {
	Name string
	UID  uint32
	GID  uint32
	Home string
}

// entry puts the lab's files over the host's in a mount namespace of the
// command's own and becomes the command: one process, no shell left between.
const entry = `set -e
dir=$1; shift
for f in resolv.conf hosts passwd group; do
	if [ -e "$dir/$f" ]; then mount --bind "$dir/$f" "/etc/$f"; fi
done
if [ -d "$dir/certs" ]; then mount --bind "$dir/certs" /etc/ssl/certs; fi
exec "$@"`

// Command prepares a command that takes the lab for the network of its host
// and runs as root. Its process is the one that Process names: nothing stays
// between, so signals and kill reach it. Env is that of the test unless set.
func (l *Lab) Command(name string, args ...string) *exec.Cmd {
	return l.command(nil, name, args)
}

// CommandAs is Command as another user, without any capability, with HOME,
// USER and LOGNAME set and nothing of root's folders in the environment.
func (l *Lab) CommandAs(u User, name string, args ...string) *exec.Cmd {
	cmd := l.command(dropTo(u.UID, u.GID), name, args)
	cmd.Env = l.environ(u)
	return cmd
}

func (l *Lab) command(drop []string, name string, args []string) *exec.Cmd {
	argv := []string{
		fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), l.ns.Fd()),
		"unshare", "--mount", "--propagation", "private", "--",
		"sh", "-c", entry, "sh", l.dir,
	}
	argv = slices.Concat(argv, drop, []string{name}, args)
	return exec.Command("nsenter", argv...)
}

// environ is the test's environment as another user would have it.
func (l *Lab) environ(u User) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == "HOME" || name == "USER" || name == "LOGNAME" || name == "TMPDIR" ||
			name == "GOCACHE" || name == "GOPATH" || strings.HasPrefix(name, "XDG_")
	})
	return append(env, "HOME="+u.Home, "USER="+u.Name, "LOGNAME="+u.Name)
}

// Tester returns an unprivileged user with a home folder of its own in the
// lab's folder, known by name inside the lab. The host's user database is not
// touched: the lab's commands see a copy with one more line.
func (l *Lab) Tester() User {
	l.tb.Helper()
	u := User{Name: "labtester", UID: 64700, GID: 64700, Home: filepath.Join(l.dir, "home", "labtester")}
	if known, err := user.Lookup("tester"); err == nil {
		id, errID := strconv.ParseUint(known.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(known.Gid, 10, 32)
		if errID == nil && errGID == nil {
			u.Name, u.UID, u.GID = known.Username, uint32(id), uint32(gid)
		}
	}
	if err := l.addUser(u); err != nil {
		l.tb.Fatalf("netlab: %v", err)
	}
	return u
}

func (l *Lab) addUser(u User) error {
	if err := os.MkdirAll(filepath.Dir(u.Home), 0o755); err != nil {
		return fmt.Errorf("make homes: %w", err)
	}
	if err := os.Mkdir(u.Home, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make home: %w", err)
	}
	if err := os.Chown(u.Home, int(u.UID), int(u.GID)); err != nil {
		return fmt.Errorf("give home to %s: %w", u.Name, err)
	}
	for file, line := range map[string]string{
		"passwd": fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh", u.Name, u.UID, u.GID, u.Home),
		"group":  fmt.Sprintf("%s:x:%d:", u.Name, u.GID),
	} {
		if err := l.addLine(file, u.Name, line); err != nil {
			return err
		}
	}
	return nil
}

// addLine copies a database of the host into the lab with one entry replaced.
func (l *Lab) addLine(file, name, line string) error {
	data, err := os.ReadFile(filepath.Join("/etc", file))
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(string(data), "\n"), "\n"), func(s string) bool {
		return strings.HasPrefix(s, name+":")
	})
	lines = append(lines, line, "")
	if err := os.WriteFile(filepath.Join(l.dir, file), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		return fmt.Errorf("write %s of lab: %w", file, err)
	}
	return nil
}

// Enter changes a command that was not started yet, so that it runs in the
// lab. Credentials set on it are taken on inside, without any capability; its
// environment and folder stay as they are. It fits yard.Yard's Wrap.
func (l *Lab) Enter(cmd *exec.Cmd) {
	l.tb.Helper()
	var drop []string
	if attr := cmd.SysProcAttr; attr != nil && attr.Credential != nil {
		c := attr.Credential
		drop = dropTo(c.Uid, c.Gid)
		attr.Credential = nil
	}
	inner := l.command(drop, cmd.Path, cmd.Args[1:])
	if inner.Err != nil {
		l.tb.Fatalf("netlab: %v", inner.Err)
	}
	cmd.Path, cmd.Args, cmd.Err = inner.Path, inner.Args, nil
}

// dropTo is the command line that takes on another identity.
func dropTo(uid, gid uint32) []string {
	return []string{
		"setpriv",
		"--reuid", strconv.FormatUint(uint64(uid), 10),
		"--regid", strconv.FormatUint(uint64(gid), 10),
		"--clear-groups", "--inh-caps=-all", "--",
	}
}
