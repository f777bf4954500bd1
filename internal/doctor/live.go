package doctor

import (
	"bytes"
	"fmt"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/local"
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
}

// rootCallerID is the id inside a root caller's sandbox.
const rootCallerID = 1000

// config turns it into what posture compares with.
func (e Expectation) config(list []posture.Posture, inside posture.Report) (posture.Config, error) {
	if len(list) == 0 {
		return posture.Config{}, fmt.Errorf("no process to compare")
	}
	caller := posture.IDs{UID: e.UID, GID: e.GID}
	c := posture.Config{
		Caller: list[0], Sandbox: caller, Proxy: caller, Inside: caller, AllCaps: posture.Reader{}.AllCaps(),
		Proxied: e.Net, Own: e.Writable, Cwd: e.Workspace, Debug: e.Debug,
	}
	for _, w := range e.Writable {
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
	group, err := cgroup.Find(cgroup.Config{ID: "doctor", Limits: cgroup.Limits{MemoryBytes: tryMemory}})
	if err != nil {
		return c, err
	}
	c.Grouped = group.Place().Version != 0
	return c, nil
}

// rootIDs are those of a root caller's sandbox: its own, made of its id, if
// that is known, and else any that belong to nobody, as long as they are two.
func (e Expectation) rootIDs(c *posture.Config, list []posture.Posture) {
	c.Root, c.Inside = true, posture.IDs{UID: rootCallerID, GID: rootCallerID}
	if e.ID != "" {
		n := local.UnusedID(e.ID)
		c.Sandbox = posture.IDs{UID: n, GID: n}
	} else {
		c.Sandbox = unused(list, posture.Helper)
	}
	c.Proxy = posture.IDs{UID: local.ProxyID(c.Sandbox.UID), GID: local.ProxyID(c.Sandbox.GID)}
}

// unused returns the ids of a process if they are of the unused range, else
// ids that fit nobody.
func unused(list []posture.Posture, role posture.Role) posture.IDs {
	for _, p := range list {
		if p.Role == role && local.IsUnused(p.UIDs[0]) {
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
