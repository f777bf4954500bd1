package spec_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// probed is this program in the place of git: it says on standard error what it
// can do, in one line. It reports whether it was.
func probed() bool {
	dir := os.Getenv("GIT_DIR")
	if os.Args[0] != "git" || dir == "" || len(os.Args) < 2 {
		return false
	}
	if os.Args[1] == "rev-parse" { // the role asks what a word means before it does anything
		id, _, _ := strings.Cut(os.Args[len(os.Args)-1], "^")
		fmt.Println(id)
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, probe())
	return true
}

// probe tells what this process may do.
func probe() string {
	var b strings.Builder
	say := func(what string, err error) {
		word := "no"
		if err == nil {
			word = "yes"
		}
		fmt.Fprintf(&b, "%s=%s ", what, word)
	}
	nnp, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	filter, _ := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	_ = unix.Capget(hdr, &caps[0])
	fmt.Fprintf(&b, "uid=%d caps=%x nnp=%d seccomp=%d first=%v ", os.Geteuid(), uint64(caps[0].Permitted|caps[0].Effective)|uint64(caps[1].Permitted|caps[1].Effective)<<32, nnp, filter, os.Getppid() <= 1)
	target, err := os.ReadFile(filepath.Join(os.Getenv("GIT_DIR"), "target"))
	if err != nil {
		target, _ = os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("GIT_DIR")), "target"))
	}
	addr, folder, _ := strings.Cut(string(target), " ")
	c, err := net.DialTimeout("tcp4", addr, time.Second)
	if err == nil {
		_ = c.Close()
	}
	say("net", err)
	links, err := net.Interfaces()
	if err == nil && (len(links) == 0 || len(links) == 1 && links[0].Flags&net.FlagUp == 0) {
		err = syscall.ENETDOWN
	}
	say("links", err)
	_, err = os.ReadFile("/etc/passwd")
	say("passwd", err)
	_, err = os.ReadFile("/proc/1/environ")
	say("proc", err)
	_, err = os.ReadFile(folder + "/secret")
	say("home", err)
	say("exec", exec.Command("/bin/true").Run())
	say("mkdir", os.Mkdir(folder+"/made", 0o700))
	err = os.WriteFile(filepath.Join(folder, "..", "work", "repo", "written"), nil, 0o600)
	say("repo", err)
	_, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	say("raw", err)
	c, err = net.Dial("unix", folder+"/socket")
	if err == nil {
		_ = c.Close()
	}
	say("unix", err)
	return strings.TrimSpace(b.String())
}
