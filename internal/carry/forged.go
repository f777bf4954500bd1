package carry

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// verifyTime is how long the verification of a unit's objects may take: more
// than that of a whole repository of usual size does.
const verifyTime = 5 * time.Minute

// marks marks the object stores.
func (r *repository) marks() (map[string]gitdata.StoreMark, error) {
	marks := make(map[string]gitdata.StoreMark, len(r.objects))
	for _, path := range r.objects {
		dir, err := beneath.Dir(path)
		if err != nil {
			return nil, fmt.Errorf("look at objects: %w", err)
		}
		marks[path] = gitdata.MarkStore(dir)
		_ = dir.Close() // O_PATH: nothing to lose
	}
	return marks, nil
}

// forged makes sure of the objects that appeared or changed since the unit
// began, and says what is wrong. Git itself would not: it hashes no object that
// it reads, and writes none whose name it finds in a store. What git would make
// anew (gitdata.Derived) does not count here: this package's git reads none of
// it, by its settings.
func (w *Worker) forged(ctx context.Context, s *phaseState) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	const most = 20
	var list []string
	for _, path := range w.repo.objects {
		dir, err := beneath.Dir(path)
		if err != nil {
			return nil, fmt.Errorf("look at objects: %w", err)
		}
		for _, f := range s.Stores[path].Verify(ctx, dir, w.repo.hash) {
			if f.Kind != gitdata.Derived && len(list) < most {
				list = append(list, quoted(filepath.Join(path, f.Path))+" "+f.What)
			}
		}
		_ = dir.Close() // O_PATH: nothing to lose
	}
	return list, nil
}
