package userns

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// MapFD returns a user namespace whose map turns disk ids into visible ids,
// one each way round: a mount with this map shows files of diskUID as files
// of seenUID. Only a caller with CAP_SETUID in its own namespace (root) may
// make one for ids that are not its own.
func MapFD(diskUID, seenUID, diskGID, seenGID int) (*os.File, error) {
	// The child is stopped by ptrace before its first instruction; it exists
	// to hold the namespace while a descriptor of it is opened.
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		Ptrace:      true,
		Pdeathsig:   syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: diskUID, HostID: seenUID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: diskGID, HostID: seenGID, Size: 1}},
	}
	p, err := os.StartProcess("/proc/self/exe", []string{"bailey-idmap"}, &os.ProcAttr{Sys: attr})
	if err != nil {
		return nil, fmt.Errorf("make user namespace for an id map: %w", err)
	}
	f, openErr := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	killErr := p.Kill()
	_, waitErr := p.Wait()
	if err := errors.Join(openErr, killErr, waitErr); err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, fmt.Errorf("hold user namespace for an id map: %w", err)
	}
	return f, nil
}

// Restriction says what keeps an ordinary user from making user namespaces on
// this machine, as far as the kernel's own switches tell; empty if nothing.
// Sources: user_namespaces(7); Debian's kernel.unprivileged_userns_clone;
// Ubuntu's kernel.apparmor_restrict_unprivileged_userns (23.10 and later).
func Restriction() (what, fix string) {
	for _, s := range []struct{ file, bad, what, fix string }{
		{"/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts unprivileged user namespaces", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that grants userns to the bailey binary"},
	} {
		b, err := os.ReadFile(s.file)
		if err == nil && strings.TrimSpace(string(b)) == s.bad {
			return s.what, s.fix
		}
	}
	return "", ""
}
