package posture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// descriptors classifies what is open. Whether a file belongs to the host is
// told by its mount, never by its path, which means another file in another
// mount namespace.
func (r Reader) descriptors(p *Posture, reference int) error {
	entries, err := os.ReadDir(r.path(p.PID, "fd"))
	if err != nil {
		return err
	}
	ours, err := r.mountinfo(reference)
	if err != nil {
		return err
	}
	p.FDs = []string{}
	for _, e := range entries {
		target, err := os.Readlink(r.path(p.PID, "fd/"+e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile, or the one that reads the folder
		}
		if err != nil {
			return err
		}
		kind := r.kindOf(p.PID, e.Name(), target, ours)
		if kind != "" && !slices.Contains(p.FDs, kind) {
			p.FDs = append(p.FDs, kind)
		}
	}
	slices.Sort(p.FDs)
	return nil
}

// kindOf names a descriptor; one that is gone has no name.
func (r Reader) kindOf(pid int, fd, target string, ours []mountLine) string {
	switch kind := descriptor(target); {
	case kind == "":
		return r.file(pid, fd, target, ours)
	case kind == "anon:pidfd" && r.ofNobody(pid, fd):
		return "anon:pidfd of nobody"
	default:
		return kind
	}
}

// ofNobody reports whether a pidfd's process is gone: it has no power then, and
// never gets any again (pidfd_open(2); the kernel shows pid -1).
func (r Reader) ofNobody(pid int, fd string) bool {
	b, err := os.ReadFile(r.path(pid, "fdinfo/"+fd))
	return err == nil && strings.Contains(string(b), "\nPid:\t-1\n")
}

// descriptor names what is no file: proc_pid_fd(5).
func descriptor(target string) string {
	if kind, ok := strings.CutPrefix(target, "anon_inode:"); ok {
		return "anon:" + strings.Trim(kind, "[]")
	}
	if name, ok := strings.CutPrefix(target, "/memfd:"); ok {
		return "memfd:" + strings.TrimSuffix(name, " (deleted)")
	}
	if kind, _, ok := strings.Cut(target, ":["); ok && !strings.HasPrefix(target, "/") {
		return kind
	}
	return ""
}

// file tells a file of the host from one of the sandbox by its mount.
func (r Reader) file(pid int, fd, target string, ours []mountLine) string {
	b, err := os.ReadFile(r.path(pid, "fdinfo/"+fd))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	_, rest, found := strings.Cut(string(b), "mnt_id:")
	id, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	if found && !slices.ContainsFunc(ours, func(m mountLine) bool { return m.id == id }) {
		return "sandbox"
	}
	return "host:" + target
}

// mountLine is one line of proc_pid_mountinfo(5).
type mountLine struct {
	id, device, root, point string
	flags                   []string
}

func (r Reader) mountinfo(pid int) ([]mountLine, error) {
	b, err := os.ReadFile(r.path(pid, "mountinfo"))
	if err != nil {
		return nil, err
	}
	var list []mountLine
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return nil, fmt.Errorf("mountinfo has a line of %d fields", len(f))
		}
		list = append(list, mountLine{id: f[0], device: f[2], root: unescape(f[3]), point: unescape(f[4]), flags: strings.Split(f[5], ",")})
	}
	return list, nil
}

func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// mounts lists what is in sight. The mounts of the reference's own namespace
// are the host's and not listed for others: nothing is expected of them. They
// are told by their numbers, which no two namespaces share.
func (r Reader) mounts(p *Posture, reference int) error {
	p.Mounts = []string{}
	list, err := r.mountinfo(p.PID)
	if err != nil {
		return err
	}
	ours, err := r.mountinfo(reference)
	if err != nil {
		return err
	}
	if p.PID != reference && len(list) > 0 && slices.ContainsFunc(ours, func(m mountLine) bool { return m.id == list[0].id }) {
		return nil
	}
	own := ""
	for _, m := range list {
		if m.point == "/" {
			own = m.device
		}
	}
	for _, m := range list {
		p.Mounts = append(p.Mounts, m.text(own))
	}
	slices.Sort(p.Mounts)
	p.Mounts = slices.Compact(p.Mounts)
	return nil
}

func (m mountLine) text(own string) string {
	source := m.device + ":" + m.root
	if m.device == own {
		source = "own:" + m.root
	}
	flags := "rw"
	if slices.Contains(m.flags, "ro") {
		flags = "ro"
	}
	for _, f := range []string{"suid", "dev"} {
		if !slices.Contains(m.flags, "no"+f) {
			flags += "," + f
		}
	}
	return m.point + " " + source + " " + flags
}

// Source returns how Mounts names a file or folder of the caller's own mount
// namespace when another one has it bound.
func (r Reader) Source(pid int, name string) (string, error) {
	list, err := r.mountinfo(pid)
	if err != nil {
		return "", fmt.Errorf("find mount of %s: %w", name, err)
	}
	best := -1
	for i, m := range list {
		inside := m.point == "/" || name == m.point || strings.HasPrefix(name, m.point+"/")
		if inside && (best < 0 || len(m.point) >= len(list[best].point)) {
			best = i
		}
	}
	if best < 0 {
		return "", fmt.Errorf("find mount of %s: it is in none", name)
	}
	m := list[best]
	rest := strings.TrimPrefix(strings.TrimPrefix(name, m.point), "/")
	source := strings.TrimSuffix(m.root, "/") + "/" + rest
	return m.device + ":" + strings.TrimSuffix(source, "/"), nil
}
