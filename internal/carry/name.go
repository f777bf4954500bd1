package carry

import "github.com/bailey-dev/bailey/internal/task"

// Planted judges a new file by its name, and where only parts of such a file
// matter, by its contents: whether it makes something run later for whoever has
// it in a work tree, or changes what a program or an agent there does.
func Planted(name string, data []byte) (task.Planted, bool) {
	const plain = 0o100644
	p := plantedAt(name, plain, data, func() []byte { return nil })
	return p, p.Kind != ""
}
