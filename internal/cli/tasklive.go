package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// watcher shows what happens to tasks: as JSON lines, as lines, or as a view
// that is drawn again and again. It is safe for concurrent use.
type watcher struct {
	w     io.Writer
	json  bool
	names bool // lines begin with the task's id
	view  *view
	now   func() time.Time

	mu     sync.Mutex
	tasks  map[task.ID]*followed
	failed error // the first error of w
	stop   chan struct{}
	drawn  sync.WaitGroup
}

// followed is what is known of a task.
type followed struct {
	id    task.ID
	state string
	turn  int
	usage task.Usage
	cost  *float64
	plan  []task.Step
	calls []string // the last ones
	said  string
	began time.Time // of the agent
	ended bool
}

// watcher makes one for stderr. The view is for a terminal alone.
func (a *app) watcher(follow, asJSON, several bool) *watcher {
	s := &watcher{w: a.stderr, json: asJSON, names: several, now: a.now, tasks: map[task.ID]*followed{}}
	if follow && !asJSON && pty.IsTerminal(a.host.Stderr) {
		s.view = &view{size: func() (int, int) {
			size, err := pty.GetSize(a.host.Stderr)
			if err != nil || size.Rows == 0 || size.Cols == 0 {
				return 24, 80
			}
			return int(size.Rows), int(size.Cols)
		}}
		s.stop = make(chan struct{})
		s.drawn.Go(s.redraw)
	}
	return s
}

// redraw keeps the view's clock going.
func (s *watcher) redraw() {
	const every = 250 * time.Millisecond
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.mu.Lock()
			s.draw(false)
			s.mu.Unlock()
		}
	}
}

// end leaves the last view standing.
func (s *watcher) end() {
	if s.view == nil {
		return
	}
	close(s.stop)
	s.drawn.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw(true)
}

func (s *watcher) draw(last bool) {
	list := make([]*followed, 0, len(s.tasks))
	for _, f := range s.tasks {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *followed) int { return strings.Compare(string(a.id), string(b.id)) })
	s.write(s.view.frame(list, s.now(), last))
}

func (s *watcher) write(text string) {
	if s.failed == nil && text != "" {
		_, s.failed = io.WriteString(s.w, text)
	}
}

// tell shows one thing that happened.
func (s *watcher) tell(p task.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.tasks[p.Task]
	if f == nil {
		f = &followed{id: p.Task}
		s.tasks[p.Task] = f
	}
	f.note(p)
	switch {
	case s.json:
		if b, err := json.Marshal(p); err == nil {
			s.write(string(terminal.SanitizeJSON(b)) + "\n")
		}
	case s.view == nil:
		s.write(s.line(f, p))
	}
}

func (f *followed) note(p task.Progress) {
	const kept = 6
	switch p.Kind {
	case "state", "queue":
		f.state = string(p.State)
		if p.Place > 0 {
			f.state = fmt.Sprintf("%s, place %d", p.State, p.Place)
		}
		if p.State == task.Running && f.began.IsZero() {
			f.began = p.Time
		}
	case "turn":
		f.turn = p.Turn
	case "tool":
		f.calls = append(f.calls, strings.TrimSpace(p.Tool+"  "+p.Message))
		if len(f.calls) > kept {
			f.calls = f.calls[1:]
		}
	case "text":
		f.said = p.Message
	case "plan":
		f.plan = p.Plan
	case "done":
		f.state, f.ended = p.Message, true
	}
	if p.Usage != nil {
		f.usage, f.cost = *p.Usage, p.CostUSD
	}
}

// line is one thing that happened, as a line for a person; "" for what says
// nothing new by itself.
func (s *watcher) line(f *followed, p task.Progress) string {
	var what string
	switch p.Kind {
	case "state":
		what = strings.TrimSpace(string(p.State) + "  " + p.Message)
	case "queue":
		what = fmt.Sprintf("%s, %s", p.State, p.Message)
	case "turn":
		what = fmt.Sprintf("turn %d  %s tokens  %s", p.Turn, tokensText(f.usage), costText(f.cost))
	case "tool":
		what = "  " + p.Tool + "  " + p.Message
	case "text":
		what = "  says: " + p.Message
	case "plan":
		what = "  plan: " + planText(p.Plan)
	case "warning":
		what = "warning: " + p.Message
	case "done":
		what = fmt.Sprintf("done: %s  %s tokens  %s", p.Message, tokensText(f.usage), costText(f.cost))
	default:
		return ""
	}
	name := ""
	if s.names {
		name = string(p.Task) + "  "
	}
	return p.Time.Local().Format(time.TimeOnly) + "  " + terminal.Sanitize(name+what) + "\n"
}

func planText(plan []task.Step) string {
	done, now := 0, ""
	for _, s := range plan {
		switch s.State {
		case "done", "dropped":
			done++
		case "active":
			now = s.Text
		}
	}
	text := fmt.Sprintf("%d of %d", done, len(plan))
	if now != "" {
		text += ", now: " + now
	}
	return text
}

// view draws tasks in a block of lines, over the block that it drew before.
type view struct {
	size  func() (rows, columns int)
	lines int // of the last block
}

// frame is what brings the terminal from the last block to this one. Nothing
// that an agent said is in it but as printable text within one line.
func (v *view) frame(tasks []*followed, now time.Time, last bool) string {
	rows, columns := v.size()
	var lines []string
	for _, f := range tasks {
		lines = append(lines, f.block(now, max(3, (rows-2)/max(1, len(tasks))))...)
	}
	if most := max(1, rows-1); len(lines) > most && !last {
		lines = lines[:most]
	}
	var out strings.Builder
	if v.lines > 0 {
		_, _ = fmt.Fprintf(&out, "\x1b[%dA", v.lines)
	}
	for _, l := range lines {
		out.WriteString("\r\x1b[2K" + clipped(terminal.Sanitize(l), columns-1) + "\n")
	}
	out.WriteString("\x1b[J")
	v.lines = len(lines)
	return out.String()
}

// block is one task in at most most lines.
func (f *followed) block(now time.Time, most int) []string {
	took := "-"
	if !f.began.IsZero() {
		took = now.Sub(f.began).Round(time.Second).String()
	}
	lines := []string{fmt.Sprintf("%s  %s  turn %d  %s tokens  %s  %s", f.id, f.state, f.turn, tokensText(f.usage), costText(f.cost), took)}
	marks := map[string]string{"done": "[x]", "active": "[>]", "dropped": "[-]"}
	for _, s := range f.plan {
		mark := marks[s.State]
		if mark == "" {
			mark = "[ ]"
		}
		lines = append(lines, "  "+mark+" "+s.Text)
	}
	room := max(0, most-len(lines)-1)
	calls := f.calls[max(0, len(f.calls)-room):]
	for _, c := range calls {
		lines = append(lines, "  · "+c)
	}
	if f.said != "" && !f.ended {
		lines = append(lines, "  “"+f.said+"”")
	}
	return lines[:min(len(lines), max(most, 1))]
}

// clipped keeps a line to so many characters. A wide one counts as two.
func clipped(s string, columns int) string {
	used := 0
	for i, r := range s {
		if used += width(r); used > columns {
			return s[:i]
		}
	}
	return s
}

// width is how many columns a character takes, the wide scripts and emoji by
// their blocks: too many is harmless, the line is shorter then.
func width(r rune) int {
	const firstWide = 0x1100
	if r >= firstWide {
		return 2
	}
	return 1
}
