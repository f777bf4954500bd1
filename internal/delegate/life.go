package delegate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/transcript"
)

// life drives a task from the step that its record names to its end. The end
// of ctx leaves it where it is: the next start goes on from there.
func (s *Service) life(ctx context.Context, e *entry, known *launcher.Status) {
	for ctx.Err() == nil {
		step := e.step()
		if step == stepDone {
			break
		}
		next := s.take(ctx, e, step, known)
		if ctx.Err() != nil || next == step {
			return // what was half done is done again
		}
		s.proceed(e, next)
	}
	if e.step() == stepDone {
		s.finish(e)
	}
}

// take does one step and returns the next.
func (s *Service) take(ctx context.Context, e *entry, st step, known *launcher.Status) step {
	switch st {
	case stepQueue:
		return s.line(ctx, e)
	case stepCopy:
		return s.copy(ctx, e)
	case stepAgent:
		return s.agent(ctx, e, known)
	case stepGather:
		return s.gather(ctx, e)
	case stepDeliver:
		return s.deliver(ctx, e)
	case stepCheck:
		return s.checks(ctx, e)
	case stepClear:
		return s.clear(ctx, e)
	case stepDone:
	}
	return stepDone
}

// line waits for a place.
func (s *Service) line(ctx context.Context, e *entry) step {
	select {
	case <-e.ticket.ready:
		return stepCopy
	case <-e.cancel:
		return stepDone
	case <-s.ending:
	case <-ctx.Done():
	}
	return stepQueue
}

// copy has the commit copied that the work begins from.
func (s *Service) copy(ctx context.Context, e *entry) step {
	switch {
	case e.cancelled():
		return stepClear
	case s.drained():
		return stepCopy
	}
	r := e.request()
	snap, err := again(ctx, s, func() (launcher.Snapshot, error) {
		return s.cfg.Engine.Snapshot(ctx, launcher.SnapshotRequest{ID: e.id, Path: r.RepoPath, Ref: r.Ref, IncludeDirty: r.IncludeDirty})
	})
	if err != nil {
		e.edit(func(r *record) { r.fail(said(err)) })
		return stepClear
	}
	e.edit(func(r *record) {
		r.Snapshot = snap
		r.Task.Repo = snap.Repo
		for _, w := range snap.Warnings {
			r.warn(line(w, mostSaidBytes))
		}
	})
	return stepAgent
}

// said is an error as a sentence of a result, with its hint.
func said(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	const most = 1000
	return line(text, most)
}

// agent starts the agent, or finds the one that was started, and returns when
// it has ended.
func (s *Service) agent(ctx context.Context, e *entry, known *launcher.Status) step {
	begun := e.begun()
	switch {
	case begun && known == nil && e.old:
		e.edit(func(r *record) {
			r.fail("the agent's sandbox was lost, and the launcher keeps nothing of it: what it had done is gone")
		})
		return stepClear
	case !begun && e.cancelled():
		return stepClear
	case !begun && s.drained():
		return stepAgent
	}
	s.begin(e)
	_, err := again(ctx, s, func() (struct{}, error) { return struct{}{}, s.start(ctx, e) })
	if err != nil && ctx.Err() == nil {
		e.edit(func(r *record) { r.fail("the agent could not be run: " + said(err)) })
	}
	if ctx.Err() == nil {
		s.queue.leave(e.ticket)
	}
	return stepGather
}

// start starts the agent and watches it.
func (s *Service) start(ctx context.Context, e *entry) error {
	req := e.request()
	streams, err := s.cfg.Engine.StartAgent(ctx, launcher.AgentRequest{
		ID: e.id, Harness: req.Harness, Model: req.Model, Prompt: promptOf(req, e.subdir()),
		MaxTurns: turnsOf(req), Timeout: timeoutOf(req.TimeoutMinutes, req.TimeoutSeconds, task.DefaultTimeout), Budget: req.Budget, Environment: req.Environment,
		Guide: yes(req.Guide), ThinkingTokens: req.ThinkingTokens,
	})
	if err != nil {
		return err
	}
	return s.watch(ctx, e, streams)
}

// tries of an operation whose failure may pass by itself: the launcher may just
// be going, and then this process goes too and the next goes on.
const tries = 5

// again does what can be done again, while it is not available.
func again[T any](ctx context.Context, s *Service, do func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		v, err := do()
		if err == nil || n == tries || bailey.KindOf(err) != bailey.Unavailable {
			return v, err
		}
		t := time.NewTimer(s.cfg.Retry)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return v, err
		}
	}
}

// begin writes down that the agent is started from now on.
func (s *Service) begin(e *entry) {
	e.edit(func(r *record) {
		r.Begun = true
		r.Task.State = task.Running
	})
	s.save(e)
	s.tell(e, task.Progress{Kind: "state", State: task.Running})
}

// watch reads the streams of an agent until it has ended.
func (s *Service) watch(ctx context.Context, e *entry, streams launcher.Streams) error {
	defer closeAll(streams.Output, streams.Errors, streams.Events)
	w, err := s.newWatcher(e)
	if err != nil {
		return err
	}
	defer w.close()
	if st, err := s.cfg.Engine.Status(ctx, e.id, false); err == nil && !st.Started.IsZero() {
		e.edit(func(r *record) { r.Task.Started = st.Started })
	}
	tails := []*tail{newTail(streams.Output, w), newTail(streams.Errors, &w.last), newTail(streams.Events, w.meter)}
	st, err := s.follow(ctx, e.id, tails, e.cancel, w.each)
	if err != nil {
		return err
	}
	w.end(st)
	return nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // read only: nothing to lose
		}
	}
}

// watcher takes what an agent prints: into the log, and into what is told.
type watcher struct {
	s     *Service
	e     *entry
	log   *partFile
	agent Transcript
	meter *meter
	last  lastBytes // of the agent's stderr
	turns int       // most
}

func (s *Service) newWatcher(e *entry) (*watcher, error) {
	log, err := s.store.create(e.id, partLog)
	if err != nil {
		return nil, err
	}
	req := e.request()
	w := &watcher{s: s, e: e, log: log, meter: newMeter(), turns: turnsOf(req), last: lastBytes{most: 4 << 10}}
	if w.agent, err = s.cfg.Listen(req.Harness, w.heard); err != nil {
		_ = log.close()
		return nil, err
	}
	return w, nil
}

// Write takes what the agent printed. That the log cannot be written does not
// end the task.
func (w *watcher) Write(p []byte) (int, error) {
	_, _ = w.log.Write(p)
	return w.agent.Write(p)
}

// heard tells of one thing that the agent said.
func (w *watcher) heard(ev transcript.Event) {
	p := task.Progress{Kind: string(ev.Kind), Turn: ev.Turn, Tool: line(ev.Tool, mostName), Message: line(ev.Line, mostSaidBytes)}
	switch ev.Kind {
	case transcript.Fault:
		p.Kind, p.Message = "warning", "the agent says: "+quoted(ev.Line)
	case transcript.End:
		return // the agent's word; the end is told when it is there
	case transcript.Plan:
		for _, i := range ev.Plan {
			p.Plan = append(p.Plan, task.Step{Text: line(i.Text, mostSaidBytes), State: string(i.Step)})
		}
	case transcript.Turn, transcript.Call, transcript.Text:
	}
	w.s.tell(w.e, p)
}

// each is called when something was read. It reports that the agent has had
// its turns: one that begins another is stopped.
func (w *watcher) each() (enough bool) {
	sum := w.agent.Summary()
	over := sum.Turns > w.turns && !sum.Ended
	changed := w.meter.changed
	w.meter.changed = false
	w.e.edit(func(r *record) {
		r.Task.Turns, r.Task.Usage = min(sum.Turns, w.turns), w.meter.usage
		if c := w.meter.cost(); c != nil {
			r.Task.CostUSD = c
		}
		r.Task.Trouble = w.meter.trouble.why
		if over && r.Cause == causeNone {
			r.Cause = causeTurns
		}
	})
	if news := w.meter.trouble.tell(); news != "" {
		w.s.tell(w.e, task.Progress{Kind: "warning", Message: news})
	}
	if changed {
		t := w.e.task()
		w.s.tell(w.e, task.Progress{Kind: "usage", Usage: &t.Usage, CostUSD: t.CostUSD})
	}
	return over
}

// end takes down how the agent ended, and what it said last.
func (w *watcher) end(st launcher.Status) {
	_ = w.agent.Close()
	w.each()
	sum := w.agent.Summary()
	report := sum.Report
	if strings.TrimSpace(report) == "" {
		report = w.last.text()
	}
	err := w.s.store.put(w.e.id, partReport, []byte(report))
	w.e.edit(func(r *record) {
		r.End = &st
		r.Task.Started, r.Task.Ended = st.Started, st.Ended
		r.Heard = w.meter.heard
		r.Heard.Last = w.meter.trouble.row > 0
		r.Task.Trouble = ""
		r.Heard.Turns, r.Heard.Calls = sum.Turns, sum.Calls
		if sum.Ended {
			r.Heard.Reason = sum.Reason
		}
		r.Heard.Error = sum.Error
		if r.Cancel && r.Cause == causeNone {
			r.Cause = causeCancel
		}
		if err != nil {
			r.warn("the report could not be kept: " + line(err.Error(), mostSaidBytes))
		}
		explain(r)
		for _, text := range w.s.cfg.Warnings {
			r.warn(text)
		}
	})
}

func (w *watcher) close() {
	if err := w.log.close(); err != nil {
		w.s.cfg.Log(fmt.Sprintf("the log of %s: %v", w.e.id, err))
	}
}

// lastBytes keeps the end of what is written.
type lastBytes struct {
	most int
	b    []byte
	all  int64
}

// Write keeps the end.
func (l *lastBytes) Write(p []byte) (int, error) {
	l.all += int64(len(p))
	l.b = append(l.b, p...)
	if over := len(l.b) - l.most; over > l.most {
		l.b = append(l.b[:0:0], l.b[over:]...)
	}
	return len(p), nil
}

// text is the end, from a whole character on.
func (l *lastBytes) text() string {
	b := l.b[max(0, len(l.b)-l.most):]
	for i := 0; i < len(b) && i < 4 && l.cut() && b[i]&0xc0 == 0x80; {
		b = b[1:]
	}
	return string(b)
}

func (l *lastBytes) cut() bool { return l.all > int64(l.most) }
