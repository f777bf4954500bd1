package posture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Reader collects postures. The zero Reader reads the live /proc.
type Reader struct {
	Proc string // where proc is mounted; empty for /proc
}

func (r Reader) path(pid int, name string) string {
	root := r.Proc
	if root == "" {
		root = "/proc"
	}
	return path.Join(root, strconv.Itoa(pid), name)
}

// Collect reads the posture of a process, namespaces and mounts judged against
// those of the process reference. What the caller has no right to read is
// listed in Hidden; an error means that the process is gone or that /proc is
// not what it should be.
func (r Reader) Collect(pid, reference int) (Posture, error) {
	p := Posture{PID: pid, Namespaces: map[string]string{}, Limits: map[string]string{}}
	status, err := os.ReadFile(r.path(pid, "status"))
	if err != nil {
		return p, fmt.Errorf("read posture of process %d: %w", pid, err)
	}
	if err := p.readStatus(string(status)); err != nil {
		return p, fmt.Errorf("read posture of process %d: %w", pid, err)
	}
	steps := []struct {
		fields []string
		read   func(*Posture, int) error
	}{
		{[]string{"Namespaces"}, r.namespaces},
		{[]string{"FDs"}, r.descriptors},
		{[]string{"Mounts"}, r.mounts},
		{[]string{"Root", "Cwd"}, r.folders},
		{[]string{"Env"}, r.environment},
		{[]string{"CoreBytes", "Limits"}, r.limits},
		{[]string{"InGroup", "Cgroups"}, r.cgroups},
		{[]string{"Uniform", "Threads"}, r.threads},
	}
	for _, s := range steps {
		err := s.read(&p, reference)
		switch {
		case errors.Is(err, fs.ErrPermission):
			p.hide(s.fields...)
		case errors.Is(err, syscall.ESRCH), // of environ: it has no memory any more
			errors.Is(err, syscall.EINVAL): // of mountinfo: it has no namespaces any more
			return p, fmt.Errorf("read posture of process %d: %w", pid, errors.Join(fs.ErrNotExist, err))
		case err != nil:
			return p, fmt.Errorf("read posture of process %d: %w", pid, err)
		}
	}
	p.Dumpable = r.dumpable(&p)
	return p, nil
}

// readStatus takes what proc_pid_status(5) lists. Each line must be there: a
// kernel that does not report one would make the comparison incomplete.
func (p *Posture) readStatus(text string) error {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		values[name] = strings.TrimSpace(value)
	}
	var errs []error
	number := func(name string, base int) uint64 {
		n, err := strconv.ParseUint(values[name], base, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("status has %s %q", name, values[name]))
		}
		return n
	}
	p.Caps = Caps{
		Inheritable: number("CapInh", 16), Permitted: number("CapPrm", 16), Effective: number("CapEff", 16),
		Bounding: number("CapBnd", 16), Ambient: optionalHex(values["CapAmb"]),
	}
	p.NoNewPrivs = number("NoNewPrivs", 10) == 1
	p.Seccomp = int(number("Seccomp", 10))
	p.UIDs, p.GIDs, p.Groups = ints(values["Uid"]), ints(values["Gid"]), ints(values["Groups"])
	if len(p.UIDs) != 4 || len(p.GIDs) != 4 {
		errs = append(errs, errors.New("status has no ids"))
	}
	slices.Sort(p.Groups)
	return errors.Join(errs...)
}

// optionalHex reads CapAmb, which gVisor's kernel, having no ambient set, does
// not list.
func optionalHex(s string) uint64 {
	n, _ := strconv.ParseUint(s, 16, 64)
	return n
}

// AllCaps is the mask of every capability that the kernel knows.
func (r Reader) AllCaps() uint64 {
	root := r.Proc
	if root == "" {
		root = "/proc"
	}
	b, err := os.ReadFile(path.Join(root, "sys/kernel/cap_last_cap"))
	last, err2 := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || err2 != nil || last < 0 || last > 62 {
		return 0
	}
	return 1<<(last+1) - 1
}

func ints(s string) []int {
	list := []int{}
	for f := range strings.FieldsSeq(s) {
		if n, err := strconv.Atoi(f); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// kinds are the namespaces of namespaces(7) but for time, which is nobody's
// business here.
func kinds() []string { return []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} }

func (r Reader) namespaces(p *Posture, reference int) error {
	for _, kind := range kinds() {
		own, err := os.Readlink(r.path(p.PID, "ns/"+kind))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && p.PID == reference {
				continue // gVisor's kernel does not list all of them
			}
			return err
		}
		theirs, err := os.Readlink(r.path(reference, "ns/"+kind))
		if err != nil {
			return err
		}
		p.Namespaces[kind] = "own"
		if own == theirs {
			p.Namespaces[kind] = "shared"
		}
	}
	return nil
}

func (r Reader) folders(p *Posture, _ int) error {
	var err, err2 error
	p.Root, err = os.Readlink(r.path(p.PID, "root"))
	p.Cwd, err2 = os.Readlink(r.path(p.PID, "cwd"))
	return errors.Join(err, err2)
}

func (r Reader) environment(p *Posture, _ int) error {
	b, err := os.ReadFile(r.path(p.PID, "environ"))
	if err != nil {
		return err
	}
	p.Env = []string{}
	for pair := range strings.SplitSeq(string(b), "\x00") {
		if name, _, ok := strings.Cut(pair, "="); ok {
			p.Env = append(p.Env, name)
		}
	}
	slices.Sort(p.Env)
	return nil
}

// limits reads proc_pid_limits(5), whose columns are of fixed width.
func (r Reader) limits(p *Posture, _ int) error {
	b, err := os.ReadFile(r.path(p.PID, "limits"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		if len(line) < 68 || !strings.HasPrefix(line, "Max ") {
			continue
		}
		name := strings.TrimSpace(line[4:26])
		p.Limits[name] = strings.TrimSpace(line[26:47]) + "/" + strings.TrimSpace(line[47:68])
	}
	_, p.CoreBytes, _ = strings.Cut(p.Limits["core file size"], "/")
	return nil
}

func (r Reader) cgroups(p *Posture, _ int) error {
	b, err := os.ReadFile(r.path(p.PID, "cgroup"))
	if err != nil {
		return err
	}
	p.Cgroups = strings.Fields(string(b))
	p.InGroup = slices.ContainsFunc(p.Cgroups, func(s string) bool { return strings.Contains(s, "/bailey/sbx_") })
	return nil
}

// threads compares what belongs to each thread alone (capabilities(7),
// credentials(7), seccomp(2)).
func (r Reader) threads(p *Posture, _ int) error {
	tasks, err := os.ReadDir(r.path(p.PID, "task"))
	if err != nil {
		return err
	}
	p.Threads, p.Uniform = len(tasks), true
	for _, t := range tasks {
		b, err := os.ReadFile(r.path(p.PID, "task/"+t.Name()+"/status"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return err
		}
		var one Posture
		if err := one.readStatus(string(b)); err != nil {
			return err
		}
		same := one.Caps == p.Caps && one.NoNewPrivs == p.NoNewPrivs && one.Seccomp == p.Seccomp &&
			slices.Equal(one.UIDs, p.UIDs) && slices.Equal(one.GIDs, p.GIDs) && slices.Equal(one.Groups, p.Groups)
		p.Uniform = p.Uniform && same
	}
	return nil
}

// dumpable tells by the owner of the files in /proc/PID (proc(5)): those of a
// process that is not dumpable belong to root. Of root's own it cannot be
// told.
func (r Reader) dumpable(p *Posture) Seen {
	var st syscall.Stat_t
	if err := syscall.Stat(r.path(p.PID, "status"), &st); err != nil || p.UIDs[1] == 0 {
		return Unseen
	}
	if int(st.Uid) == p.UIDs[1] {
		return Yes
	}
	return No
}
