package gitdata

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Limits of the look for nested repositories: it is done before every start,
// so its cost may not grow with the tree.
const (
	maxNestedDepth   = 3
	maxNestedEntries = 2000
	folderCost       = 10 // names: opening a folder takes as long as reading so many
)

// Nested lists the folders below a work tree, relative to it, that have a .git
// of their own, whatever it is. The look is bounded: three levels down, level
// by level, a few thousand names, on one file system, not into .git and
// node_modules. It is a help against what usually happens and proves nothing.
func Nested(worktree string, limit int) ([]string, error) {
	root, err := beneath.Dir(worktree)
	if err != nil {
		return nil, fmt.Errorf("open work tree: %w", err)
	}
	defer func() { _ = root.Close() }() // O_PATH: nothing to lose
	n := nestedLook{root: root, left: maxNestedEntries, limit: limit, found: nil}
	level := []string{""}
	for depth := 0; depth <= maxNestedDepth && len(level) > 0; depth++ {
		var next []string
		for _, rel := range level {
			next = append(next, n.folder(rel)...)
		}
		level = next
	}
	return n.found, nil
}

type nestedLook struct {
	root  *os.File
	left  int
	limit int
	found []string
}

// folder looks at one folder and returns those in it. What cannot be read is
// passed over.
func (n *nestedLook) folder(rel string) (folders []string) {
	if n.left <= 0 || len(n.found) >= n.limit {
		return nil
	}
	entries, _ := beneath.ReadDirSameDevice(n.root, rel, n.left) // a part is better than nothing
	n.left -= len(entries) + folderCost
	for _, e := range entries {
		switch {
		case e.Name == ".git":
			if rel != "" && (e.Type.IsDir() || e.Type.IsRegular()) && len(n.found) < n.limit {
				n.found = append(n.found, rel)
			}
		case e.Type.IsDir() && e.Name != "node_modules":
			folders = append(folders, filepath.Join(rel, e.Name))
		}
	}
	return folders
}
