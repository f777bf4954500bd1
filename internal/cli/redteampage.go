package cli

import (
	"fmt"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/redteam"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// reportPage is the file of --html. It is begun before anything is attacked, so
// that a path that is no good is known before minutes of work, and is put in its
// place at the end: a link there is replaced. Nil is none.
type reportPage struct{ draft *beneath.Draft }

func openPage(path, workspace string) (*reportPage, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // none was asked for
	}
	draft, err := beneath.NewDraft(path, 0o644, workspace)
	if err != nil {
		return nil, pageError(path, err)
	}
	return &reportPage{draft}, nil
}

func pageError(path string, err error) error {
	return bailey.WrapError(bailey.Invalid, "--html: write the report to "+path, err, "name a file, with no link of the workspace on the way, in a folder that you may write to")
}

// write writes the report in the place of what the file held.
func (p *reportPage) write(r *redteam.Report) error {
	if p == nil {
		return nil
	}
	if err := r.HTML(p.draft.File); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := p.draft.Keep(true); err != nil {
		return pageError(p.draft.Name(), err)
	}
	return nil
}

// discard takes away what was begun for nothing.
func (p *reportPage) discard() {
	if p != nil {
		p.draft.Drop()
	}
}
