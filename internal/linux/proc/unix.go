package proc

import (
	"fmt"
	"os"
	"strings"
)

// UnixSockets lists the absolute paths of the Unix sockets of the caller's
// network namespace, each as the program that bound it named it (proc(5),
// /proc/net/unix). Of what is bound by a relative name the folder is not known.
func UnixSockets() ([]string, error) {
	b, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		return nil, fmt.Errorf("list Unix sockets: %w", err)
	}
	var list []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		// Num RefCount Protocol Flags Type St Inode Path: all that follows is the path.
		if i := strings.Index(line, " /"); i >= 0 {
			path := strings.TrimSuffix(line[i+1:], "\n")
			if !seen[path] {
				seen[path] = true
				list = append(list, path)
			}
		}
	}
	return list, nil
}
