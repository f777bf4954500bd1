package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/netlog"
	"github.com/bailey-dev/bailey/internal/policy"
)

type netTopCommand struct {
	Sandbox  text            `placeholder:"NAME" help:"Of this sandbox alone."`
	Interval config.Duration `placeholder:"1s" help:"How often the table is drawn. Default: 1s."`
	JSON     bool            `name:"json" help:"Print the table as one JSON line each time."`
}

// Help is what `bailey net top --help` says beyond the flags.
func (netTopCommand) Help() string {
	return `Shows what running sandboxes reach and are refused, from now on: one row for each host and port, with bytes and what comes and goes in a second. Without a terminal, or with --json, it prints one JSON line each time: an object with time and rows.

Keys: j and k choose a row; o lets through what waits for it now, r until the sandbox ends, a in later runs too; d refuses the host and cuts what is open; / shows only what holds a text; q ends.`
}

// Bounds of the table.
const (
	mostTopRows = 500
	topLooks    = time.Second // for sandboxes that come
)

// topKey is what one row is about.
type topKey struct {
	Sandbox string `json:"sandbox"`
	Host    string `json:"host"`
	Port    uint16 `json:"port"`
}

// topRow is one row.
type topRow struct {
	topKey

	Proto   string    `json:"proto"`
	Verdict string    `json:"verdict"`
	Rule    string    `json:"rule"`
	Reason  string    `json:"reason"`
	Open    int       `json:"open"`    // connections that go on
	Count   int       `json:"count"`   // that ended, or were refused
	Waiting bool      `json:"waiting"` // for a person's answer
	In      int64     `json:"bytes_in"`
	Out     int64     `json:"bytes_out"`
	InRate  int64     `json:"in_per_second"`
	OutRate int64     `json:"out_per_second"`
	Last    time.Time `json:"last"`

	drawnIn, drawnOut int64
}

// topTable is what was heard. It is safe for concurrent use.
type topTable struct {
	mu    sync.Mutex
	rows  map[topKey]*topRow
	open  map[connection][2]int64 // bytes of those that go on
	drawn time.Time
	more  int
}

func newTopTable() *topTable {
	return &topTable{rows: map[topKey]*topRow{}, open: map[connection][2]int64{}}
}

// add takes a record.
func (t *topTable) add(r netlog.Record) {
	host := cmp.Or(r.Name, r.Address)
	if r.Verdict == "" || host == "" || r.Secret != "" || r.Proto == netlog.Model || r.Proto == policy.ProtocolDNS && r.Verdict == bailey.Allow.String() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	row := t.row(topKey{r.Sandbox, host, r.Port})
	if row == nil {
		return
	}
	row.Proto, row.Verdict, row.Rule, row.Reason, row.Last = r.Proto, r.Verdict, r.Rule, r.Reason, r.Time
	key := connectionOf(r)
	before, known := t.open[key]
	row.In += r.BytesIn - before[0]
	row.Out += r.BytesOut - before[1]
	switch {
	case r.Open && !known:
		row.Open++
		row.drawnIn, row.drawnOut = row.drawnIn+r.BytesIn, row.drawnOut+r.BytesOut // of the time before
		t.open[key] = [2]int64{r.BytesIn, r.BytesOut}
	case r.Open:
		t.open[key] = [2]int64{r.BytesIn, r.BytesOut}
	default:
		if known {
			row.Open--
			delete(t.open, key)
		}
		row.Count++
	}
}

// row finds a row, or makes it while there is room.
func (t *topTable) row(k topKey) *topRow {
	row := t.rows[k]
	if row == nil && len(t.rows) < mostTopRows {
		row = &topRow{topKey: k}
		t.rows[k] = row
	} else if row == nil {
		t.more++
	}
	return row
}

// gone forgets the connections of a sandbox that has ended.
func (t *topTable) gone(sandbox string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range t.rows {
		if row.Sandbox == sandbox {
			row.Open = 0
		}
	}
}

// look returns the rows as they are, with rates since the last look: those that
// wait first, then those where most is going on.
func (t *topTable) look(now time.Time, waiting []control.Pending, filter string) []topRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range t.rows {
		row.Waiting = false
	}
	for _, p := range waiting {
		if row := t.row(topKey{p.Sandbox, p.Host, p.Port}); row != nil {
			row.Waiting, row.Verdict, row.Proto, row.Last = true, bailey.Ask.String(), p.Protocol, p.Asked
		}
	}
	seconds := now.Sub(t.drawn).Seconds()
	if t.drawn.IsZero() || seconds <= 0 {
		seconds = 1
	}
	t.drawn = now
	out := []topRow{}
	for _, row := range t.rows {
		row.InRate, row.OutRate = int64(float64(row.In-row.drawnIn)/seconds), int64(float64(row.Out-row.drawnOut)/seconds)
		row.drawnIn, row.drawnOut = row.In, row.Out
		if filter == "" || strings.Contains(strings.Join([]string{row.Sandbox, row.Host, row.Verdict, row.Rule, row.Reason}, " "), filter) {
			out = append(out, *row)
		}
	}
	slices.SortFunc(out, func(a, b topRow) int {
		wait := func(r topRow) int {
			if r.Waiting {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(wait(b), wait(a)), cmp.Compare(b.InRate+b.OutRate, a.InRate+a.OutRate), b.Last.Compare(a.Last),
			strings.Compare(a.Sandbox, b.Sandbox), strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return out
}

// Run shows the table.
func (c *netTopCommand) Run(a *app) error {
	every := cmp.Or(time.Duration(c.Interval), time.Second)
	if every < 100*time.Millisecond {
		return bailey.NewError(bailey.Invalid, "--interval: less than a tenth of a second", "give more, such as 1s")
	}
	if c.Sandbox != "" { // a slip is no quiet sandbox
		if _, _, err := control.Ask(a.ctx, a.host.Dirs.Runtime, string(c.Sandbox), control.Status); err != nil {
			return a.over(string(c.Sandbox), err)
		}
	}
	ctx, cancel := context.WithCancel(a.ctx)
	table := newTopTable()
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	listening.Go(func() { c.listen(ctx, a, table) })
	if c.JSON || !pty.IsTerminal(a.host.Stdout) {
		return c.stream(ctx, a, table, every)
	}
	keys, err := pty.OpenKeys()
	if err != nil {
		return c.stream(ctx, a, table, every)
	}
	v := &topView{app: a, keys: keys, table: table, sandbox: string(c.Sandbox), cancel: cancel}
	return v.run(ctx, every)
}

// stream prints the table as lines, until nobody reads them.
func (c *netTopCommand) stream(ctx context.Context, a *app, table *topTable, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		waiting, _ := a.pending(string(c.Sandbox)) // one that ends meanwhile has nothing to say
		now := a.now()
		b, err := json.Marshal(struct {
			Time time.Time `json:"time"`
			Rows []topRow  `json:"rows"`
		}{now.UTC(), table.look(now, waiting, "")})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.stdout, "%s\n", safeJSON(b)); err != nil {
			return nil
		}
	}
}

// listen follows each sandbox that runs, and those that come.
func (c *netTopCommand) listen(ctx context.Context, a *app, table *topTable) {
	var all sync.WaitGroup
	defer all.Wait()
	var mu sync.Mutex
	heard := map[string]bool{}
	for {
		names := []string{string(c.Sandbox)}
		if c.Sandbox == "" {
			names, _ = a.sandboxes() // the next look may go better
		}
		for _, name := range names {
			mu.Lock()
			known := heard[name]
			heard[name] = true
			mu.Unlock()
			if known {
				continue
			}
			all.Go(func() {
				hear(ctx, a, name, table)
				table.gone(name)
				mu.Lock()
				defer mu.Unlock()
				delete(heard, name)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(topLooks):
		}
	}
}

// hear takes the records of one sandbox until it ends.
func hear(ctx context.Context, a *app, name string, table *topTable) {
	_, conn, err := control.Ask(ctx, a.host.Dirs.Runtime, name, control.Events)
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	const longest = 64 << 10
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		var r netlog.Record
		if json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &r) == nil {
			table.add(r)
		}
	}
}
