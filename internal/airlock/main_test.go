package airlock_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests run in a fresh user namespace, as the engine's helper does: one id
// mapped, which is not 0, and a few ambient capabilities: those of the helper,
// and what the tests themselves need (raw sockets, a limit to set). A run by
// root does so from an unused id of the host, from the ordinary user "tester",
// who creates the namespace himself, and from that user with the helper's
// capabilities alone.

const stageVar = "BAILEY_AIRLOCK_TEST_STAGE"

func TestMain(m *testing.M) {
	switch stage := os.Getenv(stageVar); {
	case stage == "inside":
		os.Exit(m.Run())
	case stage == "bare": // already the ordinary user; two capabilities alone
		os.Exit(again("inside", ownNamespace(unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN), "-test.run=^TestBuild", "-test.skip=NamesTheLayer"))
	case stage == "user" || os.Geteuid() != 0:
		os.Exit(again("inside", ownNamespace(unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_NET_RAW, unix.CAP_SYS_RESOURCE)))
	}
	codes := []int{again("inside", movedRoot())}
	if attr, err := ordinaryUser("tester"); err != nil {
		fmt.Fprintln(os.Stderr, "airlock: not run as an ordinary user:", err)
		codes = append(codes, 1)
	} else {
		codes = append(codes, again("user", attr), again("bare", attr))
	}
	for _, c := range codes {
		if c != 0 {
			os.Exit(c)
		}
	}
}

func again(stage string, attr *syscall.SysProcAttr, extra ...string) int {
	cmd := exec.Command("/proc/self/exe", extra...)
	for _, a := range os.Args[1:] {
		if !strings.HasPrefix(a, "-test.testlogfile") && !strings.HasPrefix(a, "-test.coverprofile") &&
			!strings.HasPrefix(a, "-test.gocoverdir") {
			cmd.Args = append(cmd.Args, a)
		}
	}
	cmd.Args = append(cmd.Args, extra...)
	cmd.Env = append(os.Environ(), stageVar+"="+stage)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = attr
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "airlock: stage %s: %v\n", stage, err)
		return 1
	}
	return 0
}

func ownNamespace(caps ...uintptr) *syscall.SysProcAttr {
	return namespaces(1000, os.Geteuid(), os.Getegid(), caps)
}

// movedRoot is what the engine does for a root caller: an unused id.
func movedRoot() *syscall.SysProcAttr {
	attr := namespaces(1000, 64000, 64000, []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_NET_RAW, unix.CAP_SYS_RESOURCE})
	attr.Credential = &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true}
	return attr
}

func namespaces(inside, uid, gid int, caps []uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: gid, Size: 1}},
		AmbientCaps: caps,
	}
}

func ordinaryUser(name string) (*syscall.SysProcAttr, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
