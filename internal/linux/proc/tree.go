package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// maxTree bounds a walk, whatever hostile processes do meanwhile.
const maxTree = 100_000

// Descendants returns the processes below root in the tree of parents, root
// itself not among them, zombies included. Of a pid namespace's first process
// these are the members of the namespace and of those nested in it, since the
// kernel gives orphans to the first process. No right over the processes is
// needed. It is a snapshot: what forks meanwhile may be missing.
func Descendants(root int) ([]Identity, error) {
	ids, err := byChildren(root)
	if errors.Is(err, errNoChildren) {
		return byParents(root)
	}
	return ids, err
}

// errNoChildren means a kernel without CONFIG_PROC_CHILDREN.
var errNoChildren = errors.New("no list of children in /proc")

// byChildren walks down, which costs only as much as the tree is large.
func byChildren(root int) ([]Identity, error) {
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err != nil {
		return nil, errNoChildren
	}
	var ids []Identity
	seen := map[int]bool{root: true}
	for todo := []int{root}; len(todo) > 0; {
		pid := todo[0]
		todo = todo[1:]
		for _, c := range children(pid) {
			if seen[c] || len(ids) >= maxTree {
				continue
			}
			seen[c] = true
			if id, err := Identify(c); err == nil {
				ids = append(ids, id)
				todo = append(todo, c)
			}
		}
	}
	return ids, nil
}

// children of all threads of a process; none if it is gone.
func children(pid int) []int {
	dir, err := os.Open(path(pid, "task"))
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	tasks, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var pids []int
	for _, t := range tasks {
		b, err := os.ReadFile(path(pid, "task/"+t+"/children"))
		if err != nil {
			continue // the thread has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			if c, err := strconv.Atoi(f); err == nil {
				pids = append(pids, c)
			}
		}
	}
	return pids
}

// byParents reads every process of the machine once.
func byParents(root int) ([]Identity, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	below := make(map[int][]Identity, len(pids))
	for _, pid := range pids {
		if s, err := ReadStat(pid); err == nil {
			below[s.PPID] = append(below[s.PPID], Identity{PID: pid, Start: s.Start})
		}
	}
	var ids []Identity
	for todo := []int{root}; len(todo) > 0; {
		kids := below[todo[0]]
		delete(below, todo[0]) // once only: a snapshot can hold a circle
		todo = todo[1:]
		for _, k := range kids {
			ids, todo = append(ids, k), append(todo, k.PID)
		}
	}
	return ids, nil
}

// Members returns the processes of one pid namespace. Those that the caller
// may not look into are left out.
func Members(namespace uint64) ([]Identity, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	var ids []Identity
	for _, pid := range pids {
		if ns, err := PIDNamespace(pid); err != nil || ns != namespace {
			continue
		}
		if id, err := Identify(pid); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// all lists the pids of /proc.
func all() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	pids := make([]int, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
