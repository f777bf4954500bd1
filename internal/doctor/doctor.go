package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/linux/userns"
)

// Status says whether a layer is there.
type Status string

// The statuses. Only Missing keeps `bailey run` from working as asked.
const (
	OK      Status = "ok"
	Warn    Status = "warn"
	Missing Status = "missing"
)

// Row is what was found out about one layer.
type Row struct {
	Layer  string `json:"layer"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to type or set; empty if there is nothing to mend
}

// Request is one sandbox that the doctor wants.
type Request struct {
	Dir      string
	Command  []string
	Allow    []string // with an entry there is an airlock
	Runtime  bailey.Runtime
	ReadOnly bool
}

// Sandbox is one that was started.
type Sandbox interface {
	io.Reader // its standard output
	// Finish ends its input, waits for its end and returns its exit code, and
	// bailey's own error if it did not run at all.
	Finish() (code int, stderr string, err error)
}

// Config is what the doctor is given.
type Config struct {
	Root  string                                            // where /proc and /sys are looked at; empty for the machine's own
	UID   int                                               // of the caller
	GID   int                                               //
	PID   int                                               // of this process, from which the sandboxes descend
	Dir   string                                            // the folder the person is in
	TTY   bool                                              // a person is there
	Start func(context.Context, Request) (Sandbox, error)   // starts a sandbox
	Temp  func() (dir string, remove func() error, e error) // makes an empty folder to be a workspace
	Begin func(layer string)                                // told before each check
	Done  func(Row)                                         // told after it
}

// Doctor examines one machine.
type Doctor struct {
	cfg  Config
	rows []Row
}

// New makes a Doctor.
func New(cfg Config) *Doctor { return &Doctor{cfg: cfg} }

// Examine checks every layer and returns the rows; an error means that the
// doctor itself failed.
func (d *Doctor) Examine(ctx context.Context) ([]Row, error) {
	checks := []struct {
		layer string
		check func() Row
	}{
		{"kernel", d.kernel},
		{"user namespaces", d.userNamespaces},
		{"apparmor", d.appArmor},
		{"mount api", d.mounts},
		{"proc", d.proc},
		{"seccomp", d.seccomp},
		{"landlock", d.landlock},
		{"cgroups", d.cgroups},
		{"terminal", d.terminal},
	}
	for _, c := range checks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d.begin(c.layer)
		d.add(c.layer, c.check())
	}
	if err := d.sandboxes(ctx); err != nil {
		return nil, err
	}
	return d.rows, ctx.Err()
}

// Fit reports whether `bailey run` would work.
func Fit(rows []Row) bool {
	for _, r := range rows {
		if r.Status == Missing {
			return false
		}
	}
	return true
}

func (d *Doctor) begin(layer string) {
	if d.cfg.Begin != nil {
		d.cfg.Begin(layer)
	}
}

func (d *Doctor) add(layer string, r Row) {
	if r.Status == "" {
		return // nothing to say on this machine
	}
	r.Layer = layer
	d.rows = append(d.rows, r)
	if d.cfg.Done != nil {
		d.cfg.Done(r)
	}
}

// read returns a small file of /proc or /sys, trimmed; empty if there is none.
func (d *Doctor) read(name string) string {
	b, err := os.ReadFile(path.Join("/", d.cfg.Root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (d *Doctor) kernel() Row {
	release := d.read("/proc/sys/kernel/osrelease")
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return Row{Status: Warn, Detail: "release " + release + " cannot be read"}
	}
	if major < 5 || major == 5 && minor < 12 {
		return Row{Status: Missing, Detail: "Linux " + release, Fix: "Linux 5.12 or later is needed (mount_setattr)"}
	}
	return Row{Status: OK, Detail: "Linux " + release}
}

// switches are the administrator's about user namespaces.
func (d *Doctor) switches() userns.Switches { return userns.Switches{Root: d.cfg.Root, UID: d.cfg.UID} }

func (d *Doctor) userNamespaces() Row {
	if what, fix := d.switches().Kernel(); what != "" {
		return Row{Status: Missing, Detail: what, Fix: fix}
	}
	if lacks := userns.Lacks(); d.cfg.UID == 0 && len(lacks) > 0 {
		return Row{Status: Missing, Detail: "this root has not " + strings.Join(lacks, ", "), Fix: "start bailey with them (docker run --cap-add), or as an ordinary user"}
	}
	if err := userns.Try(); err != nil {
		fix := "see the row apparmor; in a container, allow the system calls clone and unshare to make user namespaces"
		return Row{Status: Missing, Detail: err.Error(), Fix: fix}
	}
	return Row{Status: OK, Detail: "one was made"}
}

func (d *Doctor) appArmor() Row {
	restricted, detail := d.switches().AppArmor()
	if restricted {
		return Row{Status: Missing, Detail: detail, Fix: userns.AppArmorFix}
	}
	return Row{Status: OK, Detail: detail}
}

func (d *Doctor) mounts() Row {
	if err := mount.Supported(); err != nil {
		return Row{Status: Missing, Detail: err.Error(), Fix: "Linux 5.12 or later, and no seccomp filter that forbids open_tree and mount_setattr"}
	}
	return Row{Status: OK, Detail: "open_tree, move_mount and mount_setattr"}
}

// proc looks for mounts that hide parts of /proc: the kernel then refuses a
// new /proc to a user namespace (mount_too_revealing).
func (d *Doctor) proc() Row {
	var masked []string
	for line := range strings.Lines(d.read("/proc/self/mountinfo")) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[4], "/proc/") || strings.HasPrefix(f[4], "/proc/sys/fs/binfmt_misc") {
			continue
		}
		masked = append(masked, f[4])
	}
	if len(masked) > 0 {
		return Row{
			Status: Missing, Detail: "masked at " + strings.Join(masked, ", "),
			Fix: "run bailey outside of this container, or start the container with an unmasked /proc (docker run --security-opt systempaths=unconfined)",
		}
	}
	return Row{Status: OK, Detail: "whole"}
}

func (d *Doctor) seccomp() Row {
	actions := d.read("/proc/sys/kernel/seccomp/actions_avail")
	for _, need := range []string{"trap", "user_notif", "errno"} {
		if !strings.Contains(" "+actions+" ", " "+need+" ") {
			return Row{Status: Missing, Detail: "the kernel's filters cannot " + need, Fix: "a kernel with CONFIG_SECCOMP_FILTER, Linux 5.0 or later"}
		}
	}
	return Row{Status: OK, Detail: "filters: " + actions}
}

func (d *Doctor) landlock() Row {
	level := landlock.Level()
	if level == 0 {
		return Row{
			Status: Warn, Detail: "not there: the proxy, the model gateway and the service of tasks run without this layer",
			Fix: "add landlock to the kernel's lsm= parameter (" + d.read("/sys/kernel/security/lsm") + "), Linux 5.13 or later",
		}
	}
	return Row{Status: OK, Detail: fmt.Sprintf("ABI %d", level)}
}

// Limits that the doctor's cgroup asks for; no process is ever in it.
const (
	tryMemory = 1 << 30
	tryCPUs   = 1000
)

func (d *Doctor) cgroups() Row {
	g, err := cgroup.Find(cgroup.Config{
		ID:     fmt.Sprintf("doctor-%d", d.cfg.PID),
		Limits: cgroup.Limits{MemoryBytes: tryMemory, MilliCPUs: tryCPUs, Tasks: cgroup.BackstopTasks},
	})
	if err == nil {
		err = g.Create()
	}
	if err != nil {
		return Row{Status: Warn, Detail: err.Error()}
	}
	statuses, version := g.Statuses(), g.Place().Version
	if err := g.Remove(); err != nil {
		return Row{Status: Warn, Detail: err.Error()}
	}
	return d.cgroupRow(version, statuses)
}

func (d *Doctor) cgroupRow(version int, statuses []cgroup.Status) Row {
	var enforced, watched []string
	why := ""
	for _, s := range statuses {
		if s.Enforced {
			enforced = append(enforced, s.Limit)
			continue
		}
		watched = append(watched, s.Limit)
		why = s.Why
	}
	if len(watched) == 0 {
		return Row{Status: OK, Detail: fmt.Sprintf("version %d; enforced: %s", version, strings.Join(enforced, ", "))}
	}
	detail := keptOtherwise(watched) + " (" + why + ")"
	if len(enforced) > 0 {
		detail = fmt.Sprintf("version %d; enforced: %s; %s", version, strings.Join(enforced, ", "), detail)
	}
	return Row{Status: Warn, Detail: detail, Fix: d.cgroupFix()}
}

// keptOtherwise says what becomes of the limits that no cgroup keeps.
func keptOtherwise(limits []string) string {
	var parts []string
	for _, l := range limits {
		switch l {
		case cgroup.Memory:
			parts = append(parts, "memory is watched, not enforced: a watchdog measures it and ends the sandbox")
		case cgroup.CPU:
			parts = append(parts, "cpu is not limited")
		case cgroup.Tasks:
			parts = append(parts, "pids is enforced inside alone")
		}
	}
	return strings.Join(parts, "; ")
}

// cgroupFix is how this machine's caller comes by a cgroup. Version 1 can be
// handed to nobody safely (cgroups(7), systemd.resource-control(5)); version 2
// is handed on by systemd where it runs (sd_booted(3)), else by root.
func (d *Doctor) cgroupFix() string {
	if d.read("/sys/fs/cgroup/cgroup.controllers") == "" {
		return "boot with cgroups of version 2 (systemd.unified_cgroup_hierarchy=1 on the kernel's command line): version 1 is not delegated to users"
	}
	if info, err := os.Stat(path.Join("/", d.cfg.Root, "run/systemd/system")); err == nil && info.IsDir() {
		return "log in through systemd, or start bailey with: systemd-run --user --scope -p Delegate=yes bailey run …"
	}
	return "let root make a cgroup, hand it and its cgroup.procs to you, and start your session in a group below it (cgroups(7): delegation)"
}

func (d *Doctor) terminal() Row {
	if !d.cfg.TTY {
		return Row{Status: OK, Detail: "none here: a command's output and errors stay apart"}
	}
	return Row{Status: OK, Detail: "there is one: it is relayed and filtered"}
}

var errNoReport = errors.New("the sandbox did not tell its posture")
