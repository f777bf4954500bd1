package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type statsCommand struct {
	NoStream bool            `help:"Look once, and end."`
	Interval config.Duration `placeholder:"1s" help:"Between looks. Default: 1s."`
	JSON     bool            `name:"json" help:"Print JSON lines: one for each sandbox and look."`

	Name []string `arg:"" optional:"" placeholder:"NAME" help:"Names of the sandboxes. Default: all."`
}

// Help is what `bailey stats --help` says beyond the flags.
func (statsCommand) Help() string {
	return `Shows memory (its file systems in memory are in it), processors, processes, by how much the workspace has grown, what passed the network and what was asked of the model, each beside its limit. On a terminal the table is drawn anew every second until Ctrl-C.

With --json: an object a line with name, id, time, memory, cpu_ns, cpu_percent (100 is one processor), cpus, processes, tmp (bytes in /tmp and the home in memory), disk, inodes (each gauge has used and limit), net (open, allowed, denied, bytes_in and bytes_out of connections that have ended), model (model, requests, input_tokens, output_tokens). What is not known is absent.

Examples:
  bailey stats
  bailey stats --no-stream --json api-3f2a91c0`
}

// Run shows what sandboxes use.
func (c *statsCommand) Run(a *app) error {
	gap := time.Duration(c.Interval)
	if gap == 0 {
		gap = time.Second
	}
	live := !c.NoStream && !c.JSON && pty.IsTerminal(a.host.Stdout)
	before := map[bailey.SandboxID]control.Sample{}
	if first, err := c.look(a); err != nil {
		return err
	} else if wait := min(gap, firstLook); len(first) > 0 { // a share of time needs two looks
		keep(before, first)
		if !pause(a.ctx, wait) {
			return nil
		}
	}
	for {
		samples, err := c.look(a)
		if err != nil {
			return err
		}
		c.print(a, samples, before, live)
		keep(before, samples)
		if c.NoStream || !pause(a.ctx, gap) {
			return nil
		}
	}
}

// firstLook is how long the first look takes at most.
const firstLook = 250 * time.Millisecond

func keep(before map[bailey.SandboxID]control.Sample, samples []control.Sample) {
	for _, s := range samples {
		before[s.ID] = s
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// look asks all sandboxes at once.
func (c *statsCommand) look(a *app) ([]control.Sample, error) {
	names := c.Name
	if len(names) == 0 {
		infos, err := control.List(a.ctx, a.host.Dirs.Runtime)
		if err != nil {
			return nil, err
		}
		for _, i := range infos {
			if i.Status != control.NotAnswering {
				names = append(names, i.Name)
			}
		}
	}
	samples, errs := make([]control.Sample, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { samples[i], errs[i] = control.AskStats(a.ctx, a.host.Dirs.Runtime, name) })
	}
	wg.Wait()
	var there []control.Sample
	for i, err := range errs {
		switch {
		case err == nil:
			there = append(there, samples[i])
		case len(c.Name) > 0: // of all, one that has ended is one less
			return nil, a.over(names[i], err)
		}
	}
	return there, nil
}

// statsRow is the published form of a sample.
type statsRow struct {
	control.Sample
	CPUPercent *float64 `json:"cpu_percent,omitempty"`
}

// share is the part of one processor that was used since the last look, as a
// percentage; nil without one.
func share(s, before control.Sample) *float64 {
	if wall := s.Time.Sub(before.Time); before.ID == s.ID && wall > 0 && s.CPU > 0 && before.CPU > 0 {
		p := max(0, float64(s.CPU-before.CPU)*100/float64(wall))
		return &p
	}
	return nil
}

func (c *statsCommand) print(a *app, samples []control.Sample, before map[bailey.SandboxID]control.Sample, live bool) {
	if c.JSON {
		for _, s := range samples {
			b, err := json.Marshal(statsRow{s, share(s, before[s.ID])})
			if err == nil {
				_, _ = a.stdout.Write(append(terminal.SanitizeJSON(b), '\n'))
			}
		}
		return
	}
	if live {
		_, _ = io.WriteString(a.stdout, "\x1b[H\x1b[2J")
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tMEMORY\tCPU %\tPROCESSES\tTMP\tDISK\tNET IN / OUT\tOPEN\tDENIED\tTOKENS IN / OUT")
	for _, s := range samples {
		_, _ = fmt.Fprintln(w, strings.Join(row(s, share(s, before[s.ID])), "\t"))
	}
	_ = w.Flush() // whether it could be written is seen elsewhere
}

func row(s control.Sample, cpu *float64) []string {
	cells := []string{terminal.Sanitize(s.Name), gauge(s.Memory, size), "-", gauge(s.Processes, plain), gauge(s.Tmp, size), gauge(s.Disk, size), "-", "-", "-", "-"}
	if cpu != nil {
		cells[2] = fmt.Sprintf("%.1f", *cpu)
	}
	if n := s.Net; n != nil {
		cells[6], cells[7], cells[8] = size(n.In)+" / "+size(n.Out), plain(n.Open), plain(n.Denied)
	}
	if m := s.Model; m != nil {
		cells[9] = plain(m.Input) + " / " + plain(m.Output)
	}
	return cells
}

// gauge writes a use and its limit.
func gauge(g *control.Gauge, text func(int64) string) string {
	switch {
	case g == nil:
		return "-"
	case g.Limit > 0:
		return text(g.Used) + " / " + text(g.Limit)
	}
	return text(g.Used)
}

func plain(n int64) string { return fmt.Sprint(n) }

// size writes a number of bytes for a person.
func size(n int64) string {
	const step = 1024
	units := []string{"B", "K", "M", "G", "T"}
	v, i := float64(n), 0
	for v >= step && i < len(units)-1 {
		v, i = v/step, i+1
	}
	if i == 0 || v >= 100 {
		return fmt.Sprintf("%.0f%s", v, units[i])
	}
	return fmt.Sprintf("%.1f%s", v, units[i])
}
