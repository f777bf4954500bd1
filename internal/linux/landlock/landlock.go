package landlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	ll "github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Level returns the Landlock ABI of the running kernel; 0 means that it has
// none, or that it was switched off at boot.
func Level() int {
	v, err := llsys.LandlockGetABIVersion()
	if err != nil || v < 0 {
		return 0
	}
	return v
}

// Confine leaves the process only reading of the given files and of what is
// below the given folders; paths that do not exist are passed over. Nothing
// can be written or executed, no TCP port bound, and (from ABI 6 on) no
// abstract Unix socket reached and no signal sent out of the domain. TCP
// connections, UDP and multipath TCP (which Landlock does not see) are not
// touched. It cannot be undone.
//
// It also sets no-new-privileges on all threads, which Landlock requires.
func Confine(files, folders []string) error {
	config := ll.Config{
		HandledAccessFS:  ll.V6.HandledAccessFS,
		HandledAccessNet: llsys.AccessNetBindTCP,
		Scoped:           ll.V6.Scoped,
	}
	rules := []ll.Rule{
		ll.ROFiles(files...).IgnoreIfMissing(),
		ll.RODirs(folders...).IgnoreIfMissing(),
	}
	if err := config.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("confine with landlock: %w", err)
	}
	return nil
}

// ConfineToFolder leaves the process only what is below one folder, where it
// may read, write, make and remove files and folders, and nothing else of the
// file system, the network's ports or other processes: as Confine, and no TCP
// connection either. Sockets that it has stay what they are. It cannot be
// undone.
func ConfineToFolder(folder string) error {
	config := ll.Config{
		HandledAccessFS:  ll.V6.HandledAccessFS,
		HandledAccessNet: llsys.AccessNetBindTCP | llsys.AccessNetConnectTCP,
		Scoped:           ll.V6.Scoped,
	}
	const within = llsys.AccessFSReadFile | llsys.AccessFSReadDir | llsys.AccessFSWriteFile | llsys.AccessFSTruncate |
		llsys.AccessFSMakeReg | llsys.AccessFSMakeDir | llsys.AccessFSRemoveFile | llsys.AccessFSRemoveDir | llsys.AccessFSRefer
	if err := config.BestEffort().Restrict(ll.PathAccess(within, folder)); err != nil {
		return fmt.Errorf("confine with landlock: %w", err)
	}
	return nil
}

// Targets returns the folders that symbolic links among the files lead to, as
// /etc/resolv.conf often does: whoever replaces such a file renames a new one
// into that folder, and a rule on the old file would not reach it.
func Targets(files []string) []string {
	var folders []string
	for _, f := range files {
		if info, err := os.Lstat(f); err != nil || info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		real, err := filepath.EvalSymlinks(f)
		if err != nil || filepath.Dir(real) == filepath.Dir(f) || filepath.Dir(real) == "/" {
			continue
		}
		folders = append(folders, filepath.Dir(real))
	}
	return folders
}

// hostsFile is the machine's own word about names (hosts(5)).
const hostsFile = "/etc/hosts"

// ConfineToNames is Confine to what a resolver of names reads again and again.
func ConfineToNames() error {
	files := []string{"/etc/resolv.conf", hostsFile, "/etc/nsswitch.conf", "/etc/mdns.allow"}
	folders := Targets(files)
	if os.Geteuid() != 0 {
		// A resolv.conf that is a plain file gets replaced by a new one when
		// the network changes, and a rule for the old file does not reach it.
		// Whoever is not root reads nothing secret in /etc.
		folders = append(folders, "/etc")
	}
	return Confine(files, folders)
}

// Rights are all that ConfineTo leaves. Paths that do not exist are passed
// over.
type Rights struct {
	ReadFiles []string
	ReadDirs  []string // and all that is below
	Execute   []string // files: read and executed
	Write     []string // folders: all is done below them but executing
	Devices   []string // read and written
	Remove    []string // folders: empty ones are removed below them
}

// ConfineTo is Confine with more than reading: a process that has work to do on
// files and starts known programs, which inherit the confinement.
func ConfineTo(r Rights) error {
	config := ll.Config{
		HandledAccessFS:  ll.V6.HandledAccessFS,
		HandledAccessNet: llsys.AccessNetBindTCP | llsys.AccessNetConnectTCP,
		Scoped:           ll.V6.Scoped,
	}
	const (
		readFile = llsys.AccessFSReadFile
		readDir  = llsys.AccessFSReadDir
		change   = llsys.AccessFSWriteFile | llsys.AccessFSTruncate | llsys.AccessFSRemoveDir | llsys.AccessFSRemoveFile |
			llsys.AccessFSMakeDir | llsys.AccessFSMakeReg | llsys.AccessFSMakeSym | llsys.AccessFSRefer
	)
	rules := []ll.Rule{
		ll.PathAccess(readFile, r.ReadFiles...).IgnoreIfMissing(),
		ll.PathAccess(readFile|readDir, r.ReadDirs...).IgnoreIfMissing(),
		ll.PathAccess(readFile|llsys.AccessFSExecute, r.Execute...).IgnoreIfMissing(),
		ll.PathAccess(readFile|readDir|change, r.Write...).IgnoreIfMissing(),
		ll.PathAccess(readFile|llsys.AccessFSWriteFile, r.Devices...).IgnoreIfMissing(),
		ll.PathAccess(llsys.AccessFSRemoveDir, r.Remove...).IgnoreIfMissing(),
	}
	if err := config.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("confine with landlock: %w", err)
	}
	return nil
}

// Sandbox says what ConfineSandbox leaves. Everything may be read and executed,
// as far as it is there at all.
type Sandbox struct {
	Memory  []string // folders: below them all is done, but devices made
	Dirs    []string // likewise, and no FIFO is made, unless it lies in Memory: on a disk it would hold up who reads there later
	Files   []string // written
	Special []string // folders of devices, terminals and processes: what is there is written, and nothing made
}

// ConfineSandbox is for a sandbox that has the host's kernel: nothing is written
// but where the mounts let it be too, no signal is sent to and no socket without
// a path reached outside, and from ABI 9 on no Unix socket with a path either
// that was not made inside. It cannot be undone, and binds what is started. A
// kernel without Landlock is an error.
func ConfineSandbox(s Sandbox) error {
	if Level() < SandboxLevel {
		return ErrAbsent
	}
	config := ll.Config{HandledAccessFS: ll.V9.HandledAccessFS, Scoped: ll.V9.Scoped}
	const (
		read   = llsys.AccessFSReadFile | llsys.AccessFSReadDir | llsys.AccessFSExecute
		write  = llsys.AccessFSWriteFile | llsys.AccessFSTruncate
		change = write | llsys.AccessFSRemoveDir | llsys.AccessFSRemoveFile | llsys.AccessFSMakeDir | llsys.AccessFSMakeReg |
			llsys.AccessFSMakeSock | llsys.AccessFSMakeSym | llsys.AccessFSRefer
	)
	rules := []ll.Rule{
		ll.PathAccess(read, "/"),
		ll.PathAccess(change|llsys.AccessFSMakeFifo, s.Memory...),
		ll.PathAccess(change, s.Dirs...),
		ll.PathAccess(write, s.Files...),
		ll.PathAccess(write|llsys.AccessFSIoctlDev, s.Special...),
	}
	if err := config.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("confine with landlock: %w", err)
	}
	return nil
}

// SandboxLevel is the ABI that ConfineSandbox needs: the first has no right to
// move files between folders, and would refuse it everywhere.
const SandboxLevel = 2

// ErrAbsent is a kernel without Landlock.
var ErrAbsent = errors.New("this kernel has no Landlock of ABI 2 (Linux 5.19), or it was switched off at boot")
