package posture

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Run reads the posture of every process that a bailey run consists of on the
// host's side: holder, the process that was started by a person, and what
// descends from it. A process that ends meanwhile is left out.
func (r Reader) Run(holder int) ([]Posture, error) { return r.tree(holder, CLI) }

// Service reads the posture of every process of a service for tasks: of its
// launcher, and of what descends from it.
func (r Reader) Service(launcher int) ([]Posture, error) { return r.tree(launcher, Launcher) }

func (r Reader) tree(holder int, first Role) ([]Posture, error) {
	var list []Posture
	todo := []int{holder}
	seen := map[int]bool{}
	roles := map[int]Role{holder: first}
	for len(todo) > 0 && len(seen) < maxProcesses {
		pid := todo[0]
		todo = todo[1:]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		p, err := r.Collect(pid, holder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p.Role = roles[pid]
		list = append(list, p)
		for _, child := range r.children(pid) {
			roles[child] = r.role(child, p.Role)
			todo = append(todo, child)
		}
	}
	return list, nil
}

// maxProcesses bounds the walk; a sandbox has a few stubs for each of its
// processes.
const maxProcesses = 10000

// role tells by name and descent what a process is for.
func (r Reader) role(pid int, parent Role) Role {
	b, _ := os.ReadFile(r.path(pid, "cmdline"))
	name, _, _ := strings.Cut(string(b), "\x00")
	held := map[string]Role{"bailey-watchdog": Watchdog, "bailey-proxy": Proxy, "bailey-gateway": Gateway, "bailey-key": Key, "bailey-signer": Signer, "bailey-helper": Helper}
	known := map[Role]map[string]Role{ //nolint:exhaustive // the others start nobody
		Launcher: {"bailey-control": Control, "bailey-runner": Runner, "bailey-git": Git, "bailey-catalog": Catalog, "bailey-watchdog": Watchdog},
		CLI:      held,
		Runner:   held,
		Git:      {"git": Git, "bailey-git": Git},
		Helper:   {"runsc": Runsc, "runsc-wait": Runsc, "bailey": Native, "bailey-native": Native},
		Runsc:    {"runsc-gofer": Gofer, "runsc-sandbox": Sentry},
	}
	if role, ok := known[parent][path.Base(name)]; ok {
		return role
	}
	switch parent { //nolint:exhaustive // the others' children have names
	case Sentry, Stub:
		return Stub
	case Native, Shared:
		return Shared
	}
	return Unknown
}

func (r Reader) children(pid int) []int {
	tasks, err := os.ReadDir(r.path(pid, "task"))
	if err != nil {
		return nil
	}
	var list []int
	for _, t := range tasks {
		b, err := os.ReadFile(r.path(pid, "task/"+t.Name()+"/children"))
		if err != nil {
			continue // the thread has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}
