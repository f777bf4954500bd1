package cgroup

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// hierarchy is one mounted cgroup file system and a process's place in it.
type hierarchy struct {
	version     int
	controllers []string // of version 1; version 2 lists them in each group
	dir         string   // where it is mounted
	own         string   // folder of that process's group; empty if it cannot be seen
}

// hierarchies reads what is mounted where a process is, and its place there,
// from its folder in /proc.
func hierarchies(process string) ([]hierarchy, error) {
	mounts, err := os.ReadFile(process + "/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	groups, err := os.ReadFile(process + "/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read own cgroups: %w", err)
	}
	var list []hierarchy
	for line := range strings.Lines(string(mounts)) {
		if h, root, ok := parseMount(line); ok {
			h.own = ownDir(h, root, string(groups))
			list = append(list, h)
		}
	}
	return list, nil
}

// parseMount reads one line of mountinfo (proc_pid_mountinfo(5)); root is the
// group that is mounted.
func parseMount(line string) (h hierarchy, root string, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	fields, fsFields := strings.Fields(before), strings.Fields(after)
	if !found || len(fields) < 5 || len(fsFields) < 3 {
		return hierarchy{}, "", false
	}
	root, h.dir = unescape(fields[3]), unescape(fields[4])
	switch fsFields[0] {
	case "cgroup2":
		h.version = 2
	case "cgroup":
		h.version, h.controllers = 1, strings.Split(fsFields[2], ",")
	default:
		return hierarchy{}, "", false
	}
	return h, root, true
}

// unescape undoes the octal escapes of mountinfo; other bytes never occur.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// ownDir finds the process's group of the hierarchy in /proc/PID/cgroup
// (cgroups(7): "ID:CONTROLLERS:PATH").
func ownDir(h hierarchy, root, groups string) string {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		named := strings.Split(f[1], ",")
		if h.version == 2 && f[0] != "0" || h.version == 1 && !slices.Contains(h.controllers, named[0]) {
			continue
		}
		below, ok := strings.CutPrefix(f[2], strings.TrimSuffix(root, "/"))
		if !ok || (below != "" && below[0] != '/') || strings.Contains(below, "/..") {
			return ""
		}
		return path.Join(h.dir, below)
	}
	return ""
}
