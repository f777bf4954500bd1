package delegate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

// Bounds of what is taken over of a Collected.
const (
	mostHead     = 4 << 20
	mostStat     = 32 << 10
	mostPlanted  = 200
	mostRefused  = 50
	mostPathText = 512
)

// gather has the work read as data, whatever the agent's end was.
func (s *Service) gather(ctx context.Context, e *entry) step {
	c, err := again(ctx, s, func() (launcher.Collected, error) { return s.handBack(ctx, e.id) })
	if err != nil {
		e.edit(func(r *record) {
			r.Keep = true
			r.fail("the work could not be collected: " + said(err) + "; its copy is kept until the task is removed")
		})
		return stepClear
	}
	e.edit(func(r *record) { take(r, c) })
	if c.Commit == "" {
		return stepClear
	}
	return stepDeliver
}

// handBack takes the diff into its part, and returns what the file says first.
func (s *Service) handBack(ctx context.Context, id task.ID) (launcher.Collected, error) {
	var c launcher.Collected
	got, err := s.cfg.Engine.HandBack(ctx, id)
	if err != nil {
		return c, err
	}
	defer closeAll(got.File)
	in := bufio.NewReaderSize(io.NewSectionReader(got.File, 0, mostRead), chunk)
	head, err := headLine(in)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(head, &c); err != nil {
		return c, fmt.Errorf("read what was collected: %w", err)
	}
	if !objectID(c.Commit) && c.Commit != "" {
		return c, errors.New("read what was collected: it names no commit")
	}
	diff, err := s.store.create(id, partDiff)
	if err != nil {
		return c, err
	}
	_, err = io.Copy(diff, in)
	if err = errors.Join(err, diff.close()); err != nil {
		return c, fmt.Errorf("keep the diff: %w", err)
	}
	c.DiffBytes = max(c.DiffBytes, diff.size)
	return c, nil
}

// headLine reads the first line, which is bounded.
func headLine(in *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		piece, err := in.ReadSlice('\n')
		head = append(head, piece...)
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return head, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("read what was collected: %w", err)
		case len(head) > mostHead:
			return nil, errors.New("read what was collected: its first line is too long")
		}
	}
}

// objectID reports the form of git's ids: SHA-1 or SHA-256 in hex.
func objectID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// take takes over what was found, all of it a stranger's word.
func take(r *record, c launcher.Collected) {
	r.Commit = c.Commit
	var used int
	if r.DiffStat, used = Neutral(c.DiffStat, mostStat); used < len(c.DiffStat) {
		r.DiffStat += "\n…\n"
	}
	r.Planted = nil
	for i, p := range c.Planted {
		if i == mostPlanted {
			r.warn(fmt.Sprintf("%d files would act on your machine later; the first %d are listed", len(c.Planted), mostPlanted))
			break
		}
		r.Planted = append(r.Planted, task.Planted{Path: line(p.Path, mostPathText), Kind: line(p.Kind, mostName), Why: line(p.Why, mostSaidBytes)})
	}
	for _, w := range c.Warnings {
		r.warn(line(w, mostSaidBytes))
	}
	if len(c.Refused) > 0 {
		r.Keep = true
		for _, l := range lines(c.Refused, mostRefused, mostPathText) {
			r.warn("left out: " + l)
		}
	}
}

// deliver has the commit put into the user's repository.
func (s *Service) deliver(ctx context.Context, e *entry) step {
	d, err := again(ctx, s, func() (launcher.Delivered, error) { return s.cfg.Engine.Deliver(ctx, e.id) })
	if err == nil && (d.Branch != e.id.Branch() || !objectID(d.Commit)) {
		err = fmt.Errorf("bug: the launcher delivered %q", d.Branch)
	}
	if err != nil {
		e.edit(func(r *record) {
			r.Keep = true
			r.fail("the branch could not be made in the repository: " + said(err) + "; the work is kept until the task is removed")
		})
		return stepClear
	}
	e.edit(func(r *record) {
		r.Task.Branch, r.Commit = d.Branch, d.Commit
	})
	return stepCheck
}

// clear has the copies of the work taken away, which is in the repository now.
// Where something of it is nowhere else they stay.
func (s *Service) clear(ctx context.Context, e *entry) step {
	if e.keeps() {
		return stepDone
	}
	_, err := again(ctx, s, func() (struct{}, error) { return struct{}{}, s.cfg.Engine.Remove(ctx, e.id) })
	if err != nil && !absent(err) && ctx.Err() == nil {
		s.cfg.Log("remove the copies of " + string(e.id) + ": " + err.Error())
	}
	return stepDone
}
