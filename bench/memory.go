package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// memory is what a running sandbox weighs on the host.
type memory struct {
	Name      string    `json:"name"`
	OursMB    float64   `json:"ours_pss_mb"`   // bailey's own processes
	GvisorMB  float64   `json:"gvisor_pss_mb"` // sentry, gofer, runsc and what runs in them
	Processes []process `json:"processes"`
}

// process is one process of a running sandbox.
type process struct {
	PID    int     `json:"pid"`
	Name   string  `json:"name"` // argv[0] and the first argument
	PSSMB  float64 `json:"pss_mb"`
	Gvisor bool    `json:"gvisor"`
	parent int
}

// memory weighs the sandbox's processes: the started one, its descendants,
// and whatever else runs the same program and is not below another start.
func (r *running) memory(bailey string) (memory, error) {
	all := processes()
	var m memory
	for pid := range family(all, r.cmd.Process.Pid, bailey) {
		p, ok := all[pid]
		if !ok {
			continue
		}
		var err error
		p.PSSMB, err = pss(filepath.Join("/proc", strconv.Itoa(pid)))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return m, fmt.Errorf("weigh %q: %w", p.Name, err)
		}
		if p.Gvisor = isGvisor(all, p); p.Gvisor {
			m.GvisorMB += p.PSSMB
		} else {
			m.OursMB += p.PSSMB
		}
		m.Processes = append(m.Processes, p)
	}
	slices.SortFunc(m.Processes, func(a, b process) int { return a.PID - b.PID })
	if m.OursMB == 0 || m.GvisorMB == 0 {
		return m, errors.New("the sandbox's processes were not found")
	}
	return m, nil
}

// family is root, what is below it, and each start of the program that is
// below none.
func family(all map[int]process, root int, bailey string) map[int]bool {
	in := map[int]bool{root: true}
	for changed := true; changed; {
		changed = false
		for pid, p := range all {
			if !in[pid] && (in[p.parent] || p.parent <= 1 && sameProgram(pid, bailey)) {
				in[pid], changed = true, true
			}
		}
	}
	return in
}

func processes() map[int]process {
	all := map[int]process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		// After the name in parentheses, which may hold anything: state, parent.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		all[pid] = process{PID: pid, Name: nameOf(pid), parent: parent}
	}
	return all
}

func nameOf(pid int) string {
	cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	if len(args) > 2 {
		args = args[:2]
	}
	return strings.Join(args, " ")
}

// isGvisor reports whether the process or one above it is gVisor's.
func isGvisor(all map[int]process, p process) bool {
	for range len(all) {
		if strings.HasPrefix(filepath.Base(strings.SplitN(p.Name, " ", 2)[0]), "runsc") {
			return true
		}
		above, ok := all[p.parent]
		if !ok {
			return false
		}
		p = above
	}
	return false
}

func sameProgram(pid int, bailey string) bool {
	exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return err == nil && exe == bailey
}

// pss reads what a process, given by its folder in /proc, weighs, in MB.
func pss(dir string) (float64, error) {
	rollup, err := os.ReadFile(filepath.Join(dir, "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(rollup), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "Pss:" {
			kb, err := strconv.ParseFloat(fields[1], 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("smaps_rollup has no line Pss")
}
