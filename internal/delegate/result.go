package delegate

import (
	"context"
	"fmt"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/task"
)

// mostPiece is how much of a part one answer holds.
const mostPiece = 64 << 10

// resultOf is a task's result as it is handed out, with marks of its own.
func (s *Service) resultOf(r *record) (*task.Result, error) {
	f := NewFence()
	report, reportAll, err := s.store.piece(r.Task.ID, partReport, 0, task.MaxReport+mostTag)
	if err != nil {
		return nil, err
	}
	diff, diffAll, err := s.store.piece(r.Task.ID, partDiff, 0, task.MaxDiff+mostTag)
	if err != nil {
		return nil, err
	}
	out := &task.Result{
		ID: r.Task.ID, Branch: r.Task.Branch, Base: r.Snapshot.Base, Commit: r.Commit, Status: r.Task.Status,
		Turns: r.Task.Turns, Usage: r.Task.Usage, CostUSD: r.Task.CostUSD,
		WaitSeconds: seconds(r.Task.Created, firstOf(r.Task.Started, r.Task.Ended)), RunSeconds: seconds(r.Task.Started, r.Task.Ended),
		Planted: r.Planted, Kept: r.Keep, Warnings: append([]string{}, r.Warnings...), Truncated: []string{}, UntrustedNotice: f.Notice(),
	}
	if r.End != nil {
		out.ExitCode = r.End.ExitCode
	} else {
		out.ExitCode = bailey.ExitBailey
	}
	var used int
	if out.Report, used = f.WrapPiece("report of the agent", string(report), 0, task.MaxReport); int64(used) < reportAll {
		out.Truncated = append(out.Truncated, string(task.PartReport))
	}
	if out.Diff, used = f.WrapPiece("diff", string(diff), 0, task.MaxDiff); int64(used) < diffAll {
		out.Truncated = append(out.Truncated, string(task.PartDiff))
	}
	out.DiffStat = f.Wrap("diffstat", r.DiffStat)
	if r.Check != nil {
		output, _, err := s.store.piece(r.Task.ID, partChecks, 0, mostPart)
		if err != nil {
			return nil, err
		}
		c := checkResult(f, *r.Check, output)
		out.Checks = &c
	}
	return out, nil
}

// unread is the result of a task whose record cannot be read; nil for others.
func (e *entry) unread() *task.Result {
	if e.broken == nil {
		return nil
	}
	f := NewFence()
	return &task.Result{
		ID: e.id, Status: task.HarnessError, ExitCode: bailey.ExitBailey, Truncated: []string{}, UntrustedNotice: f.Notice(),
		Report: f.Wrap("report of the agent", ""), Diff: f.Wrap("diff", ""), DiffStat: f.Wrap("diffstat", ""),
		Warnings: []string{"the record of this task cannot be read: " + line(e.broken.Error(), mostSaidBytes) + "; its branch, if it has one, is " + e.id.Branch()},
	}
}

// Result hands out a part of a result from an offset.
func (s *Service) Result(_ context.Context, id task.ID, p task.Part, offset int64) (task.Piece, error) {
	e, err := s.find(id)
	if err != nil {
		return task.Piece{}, err
	}
	var (
		kept part
		what string
	)
	switch p {
	case task.PartReport:
		kept, what = partReport, "report of the agent"
	case task.PartDiff:
		kept, what = partDiff, "diff"
	case task.PartLog:
		kept, what = partLog, "event stream of the agent"
	case task.PartChecks:
		kept, what = partChecks, "output of the checks"
	default:
		return task.Piece{}, invalid(fmt.Sprintf("there is no part %q", line(string(p), mostName)), "report, diff, log or checks")
	}
	if offset < 0 {
		return task.Piece{}, invalid("the offset is less than 0", "begin with 0, and go on with next")
	}
	before := min(offset, mostTag) // and as much behind it, for tags that are cut
	data, total, err := s.store.piece(e.id, kept, offset-before, int(before)+mostPiece+mostTag)
	if err != nil {
		return task.Piece{}, fmt.Errorf("read the %s of %s: %w", p, id, err)
	}
	f := NewFence()
	text, used := f.WrapPiece(what, string(data), min(int(before), len(data)), mostPiece)
	out := task.Piece{ID: id, Part: p, Offset: offset, Text: text, Total: total, UntrustedNotice: f.Notice()}
	if next := offset + int64(used); next < total && used > 0 {
		out.Next = next
	}
	return out, nil
}
