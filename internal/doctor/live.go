package doctor

import (
	"bytes"
	"errors"
	"slices"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launch"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/posture"
)

// Expectation is what is known about a sandbox from outside.
type Expectation struct {
	UID, GID  int              // of the bailey that holds it
	ID        bailey.SandboxID // empty: found by the processes themselves
	Net       bool
	Workspace string
	Writable  []string // host paths that it may write, workspace and git folders
	AnyEnv    bool     // the names of the command's variables are not known
	AnyDir    bool     // nor where it runs
	Debug     bool
	Native    bool // it has the host's kernel
	KeptRoot  bool
	Beside    []Beside // what it may write beside these
}

// Beside is something of the host that a sandbox may write at another place.
type Beside struct{ Source, Target string }

// config turns it into what posture compares with.
func (e Expectation) config(list []posture.Posture, inside posture.Report) (posture.Config, error) {
	if len(list) == 0 {
		return posture.Config{}, errors.New("no process to compare")
	}
	caller := posture.IDs{UID: e.UID, GID: e.GID}
	c := posture.Config{
		Caller: list[0], Sandbox: caller, Proxy: caller, Gateway: caller, Inside: posture.IDs(launch.Inside(e.UID, e.GID)), AllCaps: posture.Reader{}.AllCaps(),
		Proxied: e.Net, Own: slices.Clone(e.Writable), Cwd: e.Workspace, Debug: e.Debug, Native: e.Native, KeptRoot: e.KeptRoot,
		Cgo: posture.WithCgo(),
	}
	writable := slices.Clone(e.Writable)
	for _, b := range e.Beside {
		writable, c.Own = append(writable, b.Source), append(c.Own, b.Target)
	}
	for _, w := range writable {
		source, err := posture.Reader{}.Source(list[0].PID, w)
		if err != nil {
			return c, err
		}
		c.Writable = append(c.Writable, source)
	}
	if e.AnyEnv {
		c.Names = []string{"*"}
	}
	if e.AnyDir {
		c.Cwd = inside.Self.Cwd
	}
	if e.UID == 0 {
		e.rootIDs(&c, list)
	}
	var err error
	c.Grouped, err = grouped(list[0].PID)
	return c, err
}

// grouped reports whether the holder of a sandbox could make a cgroup for it.
// That depends on where the holder is (systemd delegates a scope), not on where
// this process is.
func grouped(holder int) (bool, error) {
	g, err := cgroup.Find(cgroup.Config{
		ID: "doctor", PID: holder, Limits: cgroup.Limits{MemoryBytes: tryMemory, Tasks: cgroup.BackstopTasks},
	})
	if err != nil {
		return false, err
	}
	return g.Place().Version != 0, nil
}

// rootIDs are those of a root caller's sandbox: its own, made of its id, if
// that is known, and else any that belong to nobody, as long as they are two.
func (e Expectation) rootIDs(c *posture.Config, list []posture.Posture) {
	c.Root = true
	if e.ID != "" {
		n := launch.UnusedID(e.ID)
		c.Sandbox = posture.IDs{UID: n, GID: n}
	} else {
		c.Sandbox = unused(list, posture.Helper)
	}
	c.Proxy = posture.IDs{UID: launch.ProxyID(c.Sandbox.UID), GID: launch.ProxyID(c.Sandbox.GID)}
	c.Gateway = posture.IDs{UID: launch.GatewayID(c.Sandbox.UID), GID: launch.GatewayID(c.Sandbox.GID)}
}

// unused returns the ids of a process if they are of the unused range, else
// ids that fit nobody.
func unused(list []posture.Posture, role posture.Role) posture.IDs {
	for _, p := range list {
		if p.Role == role && launch.IsUnused(p.UIDs[0]) {
			return posture.IDs{UID: p.UIDs[0], GID: p.UIDs[0]}
		}
	}
	return posture.IDs{UID: -1, GID: -1}
}

// Live compares a running sandbox with what it must be. Holder is the process
// that holds it; inside is what an exec of the posture command printed there.
func Live(holder int, inside []byte, e Expectation) ([]posture.Posture, []posture.Deviation, error) {
	report, err := readReport(bytes.NewReader(inside))
	if err != nil {
		return nil, nil, err
	}
	list, err := posture.Reader{}.Run(holder)
	if err != nil {
		return nil, nil, err
	}
	e.AnyEnv, e.AnyDir = true, true
	c, err := e.config(list, report)
	if err != nil {
		return nil, nil, err
	}
	list = append(list, report.Self, report.First)
	return list, posture.Judge(list, c), nil
}
