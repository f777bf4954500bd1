package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// BackstopTasks is a limit on tasks that no honest sandbox meets. It stops a
// fork bomb of the sandbox's own kernel, which answers a tight limit with a
// crash; the limit that an agent meets is RLIMIT_NPROC inside.
const BackstopTasks = 4096

// Limits to put on a group. Zero means: not asked for.
type Limits struct {
	MemoryBytes int64 // RAM, the kernel's part included; no swap on top
	MilliCPUs   int64 // 1000 is the time of one CPU
	Tasks       int64 // processes and threads
}

// The names of the limits in a Status; they are also the controllers' names.
const (
	Memory = "memory"
	CPU    = "cpu"
	Tasks  = "pids"
)

// Status says how one limit that was asked for is kept.
type Status struct {
	Limit    string // Memory, CPU or Tasks
	Enforced bool   // by the kernel; else it must be watched
	Why      string // why it is not enforced, or is only in part; may be empty
}

// Config says which group to find.
type Config struct {
	ID     string // names the group: one path element
	Parent string // version 2: the folder of a group that was delegated to the caller; empty to look for one
	Limits Limits
	Proc   string // where proc is mounted; empty for /proc
	PID    int    // of the process that makes the group; 0 for this one
}

// Place is where the parts of one sandbox's group are. It is all that is needed
// to kill and remove it, and survives in JSON. The zero Place is nowhere.
type Place struct {
	Version int      `json:"version"` // 1, 2, or 0 for no group
	Dirs    []string `json:"dirs"`    // one a hierarchy; version 2 has one
}

// parent is the one folder that all of bailey's groups of a hierarchy lie in.
const parent = "bailey"

// Find looks where the group can be made and makes nothing. The error says
// that /proc cannot be read or that the ID is no name; a machine that offers no
// cgroup gives a Group of version 0, whose limits are all to be watched.
func Find(cfg Config) (*Group, error) {
	if cfg.ID == "" || cfg.ID == "." || cfg.ID == ".." || strings.ContainsAny(cfg.ID, "/\x00\n") {
		return nil, fmt.Errorf("cgroup id %q is not a name", cfg.ID)
	}
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	list, err := hierarchies(cfg.process())
	if err != nil {
		return nil, err
	}
	g := &Group{
		id: cfg.ID, wanted: cfg.Limits.list(),
		makeDir: func(dir string) error { return os.Mkdir(dir, 0o755) },
	}
	if findV1(g, list) {
		return g, nil
	}
	findV2(g, list, cfg.Parent)
	return g, nil
}

// process is the folder in proc of the process that makes the group.
func (c Config) process() string {
	if c.PID == 0 {
		return path.Join(c.Proc, "self")
	}
	return path.Join(c.Proc, strconv.Itoa(c.PID))
}

func (l Limits) list() []limit {
	var list []limit
	for _, x := range []limit{{Memory, l.MemoryBytes}, {CPU, l.MilliCPUs}, {Tasks, l.Tasks}} {
		if x.value > 0 {
			list = append(list, x)
		}
	}
	return list
}

type limit struct {
	name  string
	value int64
}

// part is the folder in which some of the limits are set.
type part struct {
	dir    string
	limits []limit
}

// findV1 uses version 1 as soon as one controller is mounted there; on hybrid
// machines the mounted version 2 then has none.
func findV1(g *Group, list []hierarchy) bool {
	missing := map[string]string{}
	for _, l := range g.wanted {
		i := slices.IndexFunc(list, func(h hierarchy) bool { return h.version == 1 && slices.Contains(h.controllers, l.name) })
		if i < 0 {
			missing[l.name] = "this machine mounts no " + l.name + " cgroup"
			continue
		}
		h := list[i]
		if err := writable(h.dir, path.Join(h.dir, parent)); err != nil {
			missing[l.name] = fmt.Sprintf("cgroups of version 1 belong to root (%v)", err)
			continue
		}
		g.add(path.Join(h.dir, parent, g.id), l)
	}
	if len(missing) == len(g.wanted) && !slices.ContainsFunc(list, func(h hierarchy) bool { return h.version == 1 && isLimit(h) }) {
		return false
	}
	if len(g.parts) > 0 {
		g.version = 1
	}
	g.missing = missing
	return true
}

func isLimit(h hierarchy) bool {
	return slices.ContainsFunc(h.controllers, func(c string) bool { return c == Memory || c == CPU || c == Tasks })
}

// findV2 takes the group that was named, or the nearest one above the caller's
// own that the caller may write, which is what delegation means (cgroups(7)).
func findV2(g *Group, list []hierarchy, hint string) {
	g.missing = map[string]string{}
	why := "this machine mounts no cgroup"
	for _, h := range list {
		if h.version != 2 {
			continue
		}
		dir, err := delegated(h, hint)
		if err == nil {
			g.version = 2
			g.add(path.Join(dir, parent, g.id), g.wanted...)
			return
		}
		why = err.Error()
	}
	for _, l := range g.wanted {
		g.missing[l.name] = why
	}
}

// delegated returns the folder of the group to work in. A process may be moved
// by whoever may write the procs file of the nearest group that lies above
// both its old and its new place, so it is not enough to be able to make
// folders.
func delegated(h hierarchy, hint string) (string, error) {
	candidates := []string{hint}
	if hint == "" {
		candidates = nil
		if h.own == "" {
			return "", errors.New("the own cgroup is not visible here")
		}
		// The own group holds this process, and a group with processes
		// cannot hand controllers down, but for the root.
		for d := h.own; len(d) > len(h.dir); {
			d = path.Dir(d)
			candidates = append(candidates, d)
		}
		if h.own == h.dir {
			candidates = []string{h.dir}
		}
	}
	why := errors.New("no cgroup is delegated to this user")
	for _, dir := range candidates {
		err := errors.Join(writable(dir, path.Join(dir, parent)), writable(path.Join(dir, "cgroup.procs"), ""))
		if err == nil {
			return dir, nil
		}
		if hint != "" {
			why = fmt.Errorf("cgroup %s is not delegated to this user: %w", dir, err)
		}
	}
	return "", why
}

// writable reports whether the caller may write better, or, if that does not
// exist, dir.
func writable(dir, better string) error {
	err := unix.ENOENT
	if better != "" {
		err = access(better)
	}
	if err == unix.ENOENT { // it may also have been removed just now
		err = access(dir)
	}
	if err != 0 {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

func access(dir string) syscall.Errno {
	err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK, unix.AT_EACCESS)
	errno, _ := errors.AsType[syscall.Errno](err)
	return errno
}
