package carry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/task"
)

// PhaseCollect reads what a unit changed in the work tree into the folder.
type PhaseCollect struct {
	Repository
	Home   string `json:"home,omitempty"`
	Folder string `json:"folder"`
}

// PhaseCollected is the answer to PhaseCollect.
type PhaseCollected struct {
	Work     string         `json:"work"` // a commit of the folder; empty where nothing changed
	Stat     string         `json:"stat"` // what a person reads of it
	Tip      string         `json:"tip"`  // what HEAD is now; empty for none
	On       string         `json:"on"`   // the reference that HEAD names now; empty for none
	Planted  []task.Planted `json:"planted"`
	Refused  []string       `json:"refused"`
	Warnings []string       `json:"warnings"`

	// Forged says of objects that the unit wrote what is wrong with them, if
	// anything is. Then nothing was collected.
	Forged []string `json:"forged,omitempty"`
}

// phaseCollect does it. What an earlier try collected is forgotten.
func (w *Worker) phaseCollect(ctx context.Context, p PhaseCollect) (PhaseCollected, error) {
	none := PhaseCollected{}
	s, err := w.readPhase(p.Folder)
	if err != nil {
		return none, err
	}
	if forged, err := w.forged(ctx, s); err != nil || len(forged) > 0 {
		got := PhaseCollected{Forged: forged}
		got.at(w.repo)
		_, removeErr := removeTree(s.path(phaseWork))
		return got, errors.Join(err, removeErr)
	}
	g := s.own(w)
	files, err := w.tree(ctx, g, s.Base)
	if err != nil {
		return none, err
	}
	i, err := startImport(ctx, g)
	if err != nil {
		return none, err
	}
	inspector := newInspector(ctx, g, files, i)
	walk := w.phaseWalk(files, &phaseSink{inspector: inspector, lfs: s.LFS})
	inspector.refused = &walk.refused
	if walk.held, err = s.ignored(); err == nil {
		s.know(w, walk)
		err = walk.run(w.repo.rootDir)
	}
	if err != nil {
		i.abandon()
		return none, err
	}
	got := PhaseCollected{Planted: inspector.planted, Refused: walk.refused.all(), Warnings: inspector.warnings()}
	got.at(w.repo)
	if _, err := removeTree(s.path(phaseTip)); err != nil {
		return none, err
	}
	if got.Work, err = i.commit(workRef, s.Base, "work of the unit\n", w.now); err != nil {
		return none, err
	}
	if got.Work != "" {
		stat, err := g.diff(ctx, maxStat, s.Base, got.Work, "--stat=100,70,200", "--summary")
		if err != nil {
			return none, err
		}
		got.Stat = stat.text()
	}
	return got, writeJSON(s.path(phaseWork), got)
}

// at notes where HEAD is now.
func (c *PhaseCollected) at(r *repository) {
	if tip, err := r.head(); err == nil {
		c.Tip = tip
	}
	if on, err := r.headName(); err == nil {
		c.On = on
	}
}

// ignored are the paths that were there before the unit and that the rules left
// out then. A unit that changes the rules does not make them its own.
func (s *phaseState) ignored() (map[string]bool, error) {
	data, err := os.ReadFile(s.path(phaseIgnored))
	if err != nil {
		return nil, fmt.Errorf("read what was ignored: %w", err)
	}
	held := map[string]bool{}
	for name := range strings.SplitSeq(string(data), "\x00") {
		if name != "" {
			held[name] = true
		}
	}
	return held, nil
}

// know takes from the index as it was what was known of the files then: the
// unit may have written another.
func (s *phaseState) know(w *Worker, walk *walk) {
	data, err := os.ReadFile(s.path(phaseIndex))
	if err != nil {
		return // every file is read
	}
	entries, _, err := gitdata.ParseEntries(data, w.repo.hash)
	if err != nil {
		return
	}
	walk.know(entries, s.Indexed)
}

// phaseSink leaves out what Git LFS keeps: its contents are no object of git's,
// and what would make a pointer of them is a program.
type phaseSink struct {
	*inspector
	lfs bool
}

func (p *phaseSink) put(path string, mode uint32, data []byte) error {
	if base := p.files[path]; p.lfs && base != nil && bytes.HasPrefix(p.base(base), []byte(pointer)) && !bytes.HasPrefix(data, []byte(pointer)) {
		p.refused.add(path, "a file that Git LFS keeps")
		return nil
	}
	return p.inspector.put(path, mode, data)
}

// readWork reads what was collected.
func (s *phaseState) readWork() (PhaseCollected, error) {
	var c PhaseCollected
	data, err := os.ReadFile(s.path(phaseWork))
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read the work of the unit: %w", err)
	}
	return c, nil
}
