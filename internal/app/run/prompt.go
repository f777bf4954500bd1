package run

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// promptPause is how long a question stands before a key can be its answer:
// what a person was typing when it came is not meant for it.
const promptPause = 500 * time.Millisecond

// prompt asks at the terminal, where it is bailey's alone: the sandbox's
// program neither reads from it nor writes to it. Anywhere else a program
// could draw the question, or draw another one over it, so there a person
// answers with `bailey net`. A pipe is anywhere else: tee or a pager at its end
// shows on the terminal what the program says.
func (r *ruling) prompt(ctx context.Context) {
	h := r.u.host
	if pty.IsTerminal(h.Stdin) || !stored(h.Stdout) || !stored(h.Stderr) || r.u.req.Quiet {
		return
	}
	keys, err := pty.OpenKeys()
	if err != nil {
		return // there is no terminal
	}
	defer func() { _ = keys.Close() }()
	for ctx.Err() == nil {
		p, changed := r.asking.first()
		if p == nil || !keys.Mine() {
			select {
			case <-ctx.Done():
			case <-changed:
			case <-time.After(promptPause): // another job may have had the terminal
			}
			continue
		}
		if r.ask(ctx, keys, *p) != nil {
			return
		}
	}
}

// stored reports whether what is written to a file stays in it, or is gone.
func stored(f *os.File) bool {
	if f == nil {
		return true
	}
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return fi.Mode().IsRegular() || err == nil && os.SameFile(fi, null)
}

// ask shows one question and does what the answer says. It returns when that
// question is answered, here or elsewhere, or is over.
func (r *ruling) ask(ctx context.Context, keys *pty.Keys, p control.Pending) error {
	if err := keys.Begin(); err != nil {
		return err
	}
	defer func() { _ = keys.End() }()
	target := fmt.Sprintf("%s:%d", p.Host, p.Port)
	_, _ = fmt.Fprintf(keys, "bailey: sandbox %s wants to reach %s (%s), which no rule names. Let it: [o]nce, for this [r]un, [a]lways; or [d]eny? ",
		r.u.plan.name, terminal.Sanitize(target), terminal.Sanitize(p.Protocol))
	over := func() bool {
		first, _ := r.asking.first()
		return ctx.Err() != nil || first == nil || first.Host != p.Host || first.Port != p.Port || !first.Asked.Equal(p.Asked)
	}
	said := "no answer here"
	select {
	case <-ctx.Done():
	case <-time.After(promptPause):
	}
	if err := keys.Discard(); err != nil {
		return err
	}
	for !over() {
		key, ok, err := keys.Key(over)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if q, known := answerOf(key, target); known {
			said = r.doneAs(q)
			break
		}
	}
	_, _ = fmt.Fprintf(keys, "\r\nbailey: %s: %s\r\n", terminal.Sanitize(target), terminal.Sanitize(said))
	return nil
}

// doneAs does what was answered, and says what came of it.
func (r *ruling) doneAs(q control.NetRequest) string {
	a, err := r.order(q)
	if err == nil {
		return a.Said
	}
	once, undone := q, text(err)
	if q.Do == control.NetAllow && q.For == control.ForAlways {
		return undone // it holds for the run, and the file could not be written
	}
	once.Do, once.For = control.NetDeny, control.ForOnce
	_, _ = r.order(once) // it would be asked again at once
	return undone
}

// answerOf is what a key says.
func answerOf(key byte, target string) (control.NetRequest, bool) {
	q := control.NetRequest{Do: control.NetAllow, Rule: target}
	switch key {
	case 'o':
		q.For = control.ForOnce
	case 'r':
		q.For = control.ForRun
	case 'a':
		q.For = control.ForAlways
	case 'd':
		q.Do, q.For = control.NetDeny, control.ForOnce
	default:
		return q, false
	}
	return q, true
}
