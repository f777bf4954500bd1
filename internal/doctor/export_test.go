package doctor

import "github.com/bailey-dev/bailey/internal/linux/cgroup"

// CgroupRow is the row of a machine, below root, on which the limits are so.
func CgroupRow(root string, version int, statuses []cgroup.Status) Row {
	return New(Config{Root: root}).cgroupRow(version, statuses)
}
