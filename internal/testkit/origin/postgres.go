package origin

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Postgres runs a real PostgreSQL server for the test and serves it on a
// listener, which it closes at the end; the server itself listens on a Unix
// socket alone. Any user can log in, without a password or TLS.
func Postgres(tb testing.TB, ln net.Listener) {
	tb.Helper()
	initdb := programs(tb, "/usr/lib/postgresql/*/bin/initdb")
	dir, as := postgresHome(tb)
	data := filepath.Join(dir, "data")
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(filepath.Dir(initdb), name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + dir}
		return cmd
	}
	if out, err := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	server := run("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-F")
	if err := server.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = ln.Close()
		_ = server.Process.Signal(syscall.SIGQUIT) // "immediate shutdown"
		_ = server.Wait()
	})
	socket := filepath.Join(dir, ".s.PGSQL.5432")
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := dialUnix(socket)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Since(begun) > time.Minute {
			tb.Fatalf("PostgreSQL does not listen: %v", err)
		}
	}
	go bridge(ln, socket)
}

// programs returns the last file that fits a pattern.
func programs(tb testing.TB, pattern string) string {
	tb.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		tb.Fatalf("no %s: run .ci/deps test", pattern)
	}
	return slices.Max(found)
}

// postgresHome returns a folder and the identity that the server has, which
// refuses to be root.
func postgresHome(tb testing.TB) (string, *syscall.SysProcAttr) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "pg-") // a socket's path has to be short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{}
	if os.Getuid() != 0 {
		return dir, attr
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		tb.Fatalf("no user to run PostgreSQL: %v (run .ci/deps test)", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		tb.Fatal(err)
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return dir, attr
}

func dialUnix(socket string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
}

func bridge(ln net.Listener, socket string) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			s, err := dialUnix(socket)
			if err != nil {
				return
			}
			defer s.Close()
			go func() {
				_, _ = io.Copy(s, c)
				_ = s.Close()
			}()
			_, _ = io.Copy(c, s)
		}()
	}
}
