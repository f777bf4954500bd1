package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// safeJSON is JSON whose strings drive no terminal.
func safeJSON(b []byte) []byte { return terminal.SanitizeJSON(b) }

// topView is the table on a terminal.
type topView struct {
	app     *app
	keys    *pty.Keys
	table   *topTable
	sandbox string
	cancel  context.CancelFunc

	rows   []topRow
	chosen topKey
	filter string
	typing bool   // the filter is being written
	said   string // what came of the last key
}

// Sequences of the terminal (xterm's ctlseqs): another screen, and what is on it.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	topLeft     = "\x1b[H"
	clearRest   = "\x1b[K"
	clearBelow  = "\x1b[J"
	reverse     = "\x1b[7m"
	normal      = "\x1b[0m"
)

// run draws until a person has enough.
func (v *topView) run(ctx context.Context, every time.Duration) (err error) { //nolint:gocognit // one event after the other
	if err := v.keys.BeginLine(); err != nil {
		return errors.Join(err, v.keys.Close())
	}
	_, _ = v.keys.Write([]byte(enterScreen))
	typed, ended := make(chan byte, 64), make(chan struct{})
	var over atomic.Bool
	go func() {
		defer close(ended)
		for !over.Load() {
			key, ok, err := v.keys.Key(over.Load)
			if err != nil {
				v.cancel()
				return
			}
			if !ok {
				continue
			}
			select {
			case typed <- key:
			case <-ctx.Done():
			}
		}
	}()
	defer func() {
		over.Store(true)
		v.cancel()
		<-ended
		_, _ = v.keys.Write([]byte(leaveScreen))
		err = errors.Join(err, v.keys.Close())
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for look := true; ; {
		if look {
			v.look()
		}
		v.draw()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			look = true
		case key := <-typed:
			look = false
			if v.press(key) {
				return nil
			}
		}
	}
}

func (v *topView) look() {
	waiting, _ := v.app.pending(v.sandbox)
	v.rows = v.table.look(v.app.now(), waiting, v.filter)
}

// at is the place of the chosen row.
func (v *topView) at() int {
	for i, r := range v.rows {
		if r.topKey == v.chosen {
			return i
		}
	}
	return 0
}

// press does what a key is for, and reports whether it is the end.
func (v *topView) press(key byte) (end bool) {
	const interrupt, escape, enter, newline, back, rub = 3, 27, '\r', '\n', 8, 127
	if v.typing {
		switch {
		case key == interrupt:
			return true
		case key == enter || key == newline || key == escape:
			v.typing = false
		case (key == back || key == rub) && v.filter != "":
			v.filter = v.filter[:len(v.filter)-1]
		case key >= ' ' && key < rub && len(v.filter) < 64:
			v.filter += string(key)
		}
		v.look()
		return false
	}
	switch key {
	case 'q', interrupt:
		return true
	case 'j', 'k':
		v.move(key == 'j')
	case '/':
		v.typing, v.filter = true, ""
	case 'o':
		v.order(control.NetAllow, control.ForOnce)
	case 'r':
		v.order(control.NetAllow, control.ForRun)
	case 'a':
		v.order(control.NetAllow, control.ForAlways)
	case 'd':
		v.order(control.NetDeny, control.ForRun)
	}
	return false
}

func (v *topView) move(down bool) {
	i := v.at()
	switch {
	case down && i+1 < len(v.rows):
		i++
	case !down && i > 0:
		i--
	}
	if i < len(v.rows) {
		v.chosen = v.rows[i].topKey
	}
}

// order has the chosen row's sandbox do something about its host.
func (v *topView) order(do, long string) {
	if len(v.rows) == 0 {
		return
	}
	row := v.rows[v.at()]
	if row.topKey != v.chosen { // it is not what a person sees chosen
		return
	}
	rule := bracketed(row.Host)
	if row.Port != 0 {
		rule += ":" + strconv.Itoa(int(row.Port))
	}
	got, err := control.AskNet(v.app.ctx, v.app.host.Dirs.Runtime, row.Sandbox, control.NetRequest{Do: do, Rule: rule, For: long})
	v.said = got.Said
	if err != nil {
		v.said = err.Error()
		if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
			v.said += " (" + e.Hint + ")"
		}
	}
	v.look()
}

// draw shows the table as large as the terminal is.
func (v *topView) draw() {
	size, err := pty.GetSize(v.app.host.Stdout)
	width, height := int(size.Cols), int(size.Rows)
	if err != nil || width < 20 || height < 5 {
		width, height = 80, 24
	}
	var out strings.Builder
	out.WriteString(topLeft)
	line := func(text string, marked bool) {
		text = cut(text, width-1)
		if marked {
			text = reverse + text + normal
		}
		out.WriteString(text + clearRest + "\r\n")
	}
	var in, sent int64
	for _, r := range v.rows {
		in, sent = in+r.InRate, sent+r.OutRate
	}
	line(fmt.Sprintf("bailey net top  %s  %d rows  in %s/s  out %s/s", v.app.now().Local().Format(time.TimeOnly), len(v.rows), amount(in), amount(sent)), false)
	line(fmt.Sprintf("%-20s %-36s %-5s %-7s %5s %8s %8s %8s %8s  %s", "SANDBOX", "HOST", "PROTO", "VERDICT", "OPEN", "IN/s", "OUT/s", "IN", "OUT", "WHY"), true)
	chosen, room := v.at(), height-4
	if len(v.rows) > 0 {
		v.chosen = v.rows[chosen].topKey // it stays so while rows change places
	}
	first := max(0, chosen-room+1)
	for i := first; i < min(len(v.rows), first+room); i++ {
		line(v.rows[i].text(), i == chosen)
	}
	out.WriteString(clearBelow)
	foot := "o allow once  r allow for the run  a always  d deny  / filter  j k choose  q quit"
	switch {
	case v.typing: // no key has its meaning then
		foot = "filter: " + terminal.Sanitize(v.filter) + "_   enter: that is it"
	case v.filter != "":
		foot = "filter: " + terminal.Sanitize(v.filter) + "   " + foot
	}
	fmt.Fprintf(&out, "\x1b[%d;1H%s%s\r\n%s%s", height-1, cut(terminal.Sanitize(v.said), width-1), clearRest, cut(foot, width-1), clearRest)
	_, _ = v.keys.Write([]byte(out.String()))
}

// text is a row. Whatever a sandbox said in it is shown as what it is.
func (r topRow) text() string {
	host := bracketed(r.Host)
	if r.Port != 0 {
		host += ":" + strconv.Itoa(int(r.Port))
	}
	why := r.Reason
	if r.Rule != "" {
		why = strings.TrimSpace(why + " rule " + r.Rule)
	}
	verdict := r.Verdict
	if r.Waiting {
		verdict = "WAITS"
	}
	open := strconv.Itoa(r.Open)
	if r.Open == 0 && r.Count > 1 {
		open = "x" + strconv.Itoa(r.Count)
	}
	return fmt.Sprintf("%-20s %-36s %-5s %-7s %5s %8s %8s %8s %8s  %s", cut(terminal.Sanitize(r.Sandbox), 20), cut(terminal.Sanitize(host), 36),
		cut(terminal.Sanitize(r.Proto), 5), cut(terminal.Sanitize(verdict), 7), open, amount(r.InRate), amount(r.OutRate), amount(r.In), amount(r.Out), terminal.Sanitize(why))
}

// cut shortens a line of what Sanitize returned: what is not ASCII counts as
// wide.
func cut(s string, width int) string {
	used := 0
	for i, c := range s {
		used++
		if c >= 0x80 {
			used++
		}
		if used > width {
			return s[:i]
		}
	}
	return s
}
