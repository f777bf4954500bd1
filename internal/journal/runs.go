package journal

import (
	"os"
	"path/filepath"
)

// Kept is a run whose output is kept.
type Kept struct {
	Run

	Lasts bool
	End   End // of one that has ended; its At is zero where nobody said how
}

// Runs returns the runs whose output is kept, newest first.
func Runs(state string, uid int) ([]Kept, error) {
	root, err := open(state, uid)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // read only: nothing to lose
	var runs []Kept
	for _, r := range list(root) {
		if k, err := read(root, r.dir); err == nil { // else it is being made, or pruned
			runs = append(runs, k)
		}
	}
	return runs, nil
}

func read(root *os.Root, dir string) (Kept, error) {
	k := Kept{Lasts: Lasts(root, dir)} // before the end is read: it is written under the lock
	if err := readJSON(root, filepath.Join(dir, metaName), &k.Run); err != nil {
		return k, err
	}
	err := readJSON(root, filepath.Join(dir, endName), &k.End)
	if isAbsent(err) {
		err = nil
	}
	return k, err
}
