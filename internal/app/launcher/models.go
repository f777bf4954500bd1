package launcher

import (
	"context"

	"github.com/bailey-dev/bailey/internal/task"
)

// Models is Engine's.
func (e *engine) Models(context.Context) ([]task.Model, error) {
	return []task.Model{}, nil
}
