package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/task"
)

// reporter tells the caller of one call how it goes, if it asked for that.
type reporter struct {
	ctx     context.Context //nolint:containedctx // it lives as long as its call
	session *sdk.ServerSession
	token   any
	now     func() time.Time
	began   time.Time
	quit    chan struct{}
	gone    chan struct{}

	mu    sync.Mutex
	n     float64 // of notifications
	last  time.Time
	said  string      // the last message
	held  []held      // what is said when the last message is old enough
	later *time.Timer // says it; nil if nothing is held
	over  bool
}

// held is a message that waits. A newer one of its kind takes its place.
type held struct{ kind, words string }

// thinned is how close notifications of an agent's single steps may follow
// each other.
const thinned = 200 * time.Millisecond

// report begins to tell. The reporter is to be stopped.
func (s *Server) report(ctx context.Context, req *request) *reporter {
	r := &reporter{
		ctx: ctx, session: req.Session, token: req.Params.GetProgressToken(), now: s.cfg.Now, began: s.cfg.Now(),
		quit: make(chan struct{}), gone: make(chan struct{}), said: "waiting",
	}
	if r.token == nil {
		close(r.gone)
		return r
	}
	go r.beat(s.cfg.Beat)
	return r
}

func (r *reporter) stop() {
	r.mu.Lock()
	r.over = true
	if r.later != nil {
		r.later.Stop()
	}
	r.mu.Unlock()
	close(r.quit)
	<-r.gone
}

// beat repeats the last message when there is nothing new: clients give up on
// calls that are silent.
func (r *reporter) beat(every time.Duration) {
	defer close(r.gone)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-r.ctx.Done():
			return
		case <-t.C:
			r.mu.Lock()
			if now := r.now(); now.Sub(r.last) >= every {
				r.notify(fmt.Sprintf("%s (%s)", r.said, now.Sub(r.began).Round(time.Second)))
			}
			r.mu.Unlock()
		}
	}
}

// progress tells of one thing that happened.
func (r *reporter) progress(p task.Progress) {
	words := progressText(p)
	if words == "" || r.token == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch p.Kind {
	case "state", "queue", "warning", "done":
		r.flush()
		r.send(words)
		return
	}
	if r.later == nil && r.now().Sub(r.last) >= thinned {
		r.send(words)
		return
	}
	r.hold(p.Kind, words)
}

// hold wants the lock.
func (r *reporter) hold(kind, words string) {
	r.held = append(slices.DeleteFunc(r.held, func(h held) bool { return h.kind == kind }), held{kind, words})
	if r.later != nil || r.over {
		return
	}
	r.later = time.AfterFunc(thinned, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.over {
			r.flush()
		}
	})
}

// flush says what is held. It wants the lock.
func (r *reporter) flush() {
	for _, h := range r.held {
		r.send(h.words)
	}
	if r.later != nil {
		r.later.Stop()
	}
	r.held, r.later = nil, nil
}

// send wants the lock.
func (r *reporter) send(words string) {
	r.said = words
	r.notify(words)
}

// notify wants the lock.
func (r *reporter) notify(words string) {
	r.n++
	r.last = r.now()
	// A caller that cannot be told does not keep the task from going on.
	_ = r.session.NotifyProgress(r.ctx, &sdk.ProgressNotificationParams{ProgressToken: r.token, Progress: r.n, Message: words})
}

// progressText is one line about a thing that happened. The agent's words are
// in quotes that they cannot end.
func progressText(p task.Progress) string {
	turn := ""
	if p.Turn > 0 {
		turn = fmt.Sprintf("turn %d: ", p.Turn)
	}
	switch p.Kind {
	case "queue":
		if p.Place > 0 {
			return fmt.Sprintf("waiting for a place: number %d in the queue of the model", p.Place)
		}
		return "a place is free"
	case "state":
		if p.State == task.Queued && p.Place > 0 {
			return fmt.Sprintf("queued: number %d in the queue of the model", p.Place)
		}
		return string(p.State)
	case "turn":
		return strings.TrimSuffix(turn, ": ")
	case "tool":
		return turn + "the agent uses " + quoted(strings.TrimSpace(p.Tool+" "+p.Message))
	case "text":
		return turn + "the agent says " + quoted(p.Message)
	case "usage":
		return usedText(p)
	case "warning", "done":
		return printable(p.Message, p.Kind)
	}
	return ""
}

func usedText(p task.Progress) string {
	if p.Usage == nil {
		return ""
	}
	out := fmt.Sprintf("%s so far, %s in and %s out", spell.Count(int(p.Usage.Calls), "model call"),
		tokens(p.Usage.InputTokens+p.Usage.CacheReadTokens+p.Usage.CacheWriteTokens), tokens(p.Usage.OutputTokens))
	if p.CostUSD != nil {
		out += fmt.Sprintf(", %.4f USD", *p.CostUSD)
	}
	return out
}
