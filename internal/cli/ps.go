package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/journal"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type psCommand struct {
	All  bool `short:"a" help:"Also those in the background that have ended."`
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey ps --help` says beyond the flags.
func (psCommand) Help() string {
	return `Lists your own sandboxes. With --all also the last 20 of those in the background that have ended within a week, with their exit codes; bailey logs has what they wrote.

With --json: an array of objects with name, id, pid, net, runtime, started, workspace, command (cut at 4 KiB) and status, dns where that is open, mounts (source, target, writable) where something of the host is shown beside the workspace, loosened (flags that make the sandbox hold less), shown (patterns of hidden files that it sees), published (ports of this machine that lead inside: host, port, and silent when nothing listened there), opens where your browser is lent, and of one in the background detached, and attached: how many are. A sandbox whose bailey does not answer, since it was stopped (Ctrl-Z), has the status "not answering", its name, and the pid; the rest is absent. One that has ended has the status "exited", with name, id, started, workspace, command, ended and exit_code; "lost", without the last two, if its bailey was killed.`
}

// Run lists the caller's sandboxes.
func (c *psCommand) Run(a *app) error {
	infos, err := control.List(a.ctx, a.host.Dirs.Runtime)
	if err != nil {
		return err
	}
	var past []journal.Kept
	if c.All {
		if past, err = a.ended(infos); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(a.stdout, append(psRows(infos), endedRows(past)...))
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	loose := slices.ContainsFunc(infos, func(i control.Info) bool { return looseText(i) != "" })
	column := func(text string) string { // there is one only where something is loosened
		if !loose {
			return ""
		}
		return "\t" + text
	}
	_, _ = fmt.Fprintf(w, "NAME\tSTATUS\tRUNTIME\tNET%s\tPID\tSTARTED\tWORKSPACE\tCOMMAND\n", column("LOOSENED"))
	for _, i := range infos {
		runtime, network, started, workspace := i.Runtime, netText(i), i.Started.Local().Format(time.DateTime), seenText(i)
		if i.Status == control.NotAnswering {
			runtime, network, started, workspace = "-", "-", "-", "-"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s%s\t%d\t%s\t%s\t%s\n", terminal.Sanitize(i.Name), terminal.Sanitize(statusText(i)), terminal.Sanitize(runtime), network, column(cmp.Or(looseText(i), "-")), i.PID,
			started, terminal.Sanitize(workspace), terminal.Sanitize(shorten(strings.Join(i.Command, " "))))
	}
	for _, k := range past {
		_, _ = fmt.Fprintf(w, "%s\t%s\t-\t-%s\t-\t%s\t%s\t%s\n", terminal.Sanitize(k.Name), endedText(k), column("-"), k.Started.Local().Format(time.DateTime),
			terminal.Sanitize(k.Workspace), terminal.Sanitize(shorten(strings.Join(k.Command, " "))))
	}
	return w.Flush()
}

// ended returns the runs in the background that have ended.
func (a *app) ended(running []control.Info) ([]journal.Kept, error) {
	runs, err := journal.Runs(a.host.Dirs.State, a.host.UID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(runs, func(k journal.Kept) bool {
		return k.Lasts || slices.ContainsFunc(running, func(i control.Info) bool { return i.ID == k.ID })
	}), nil
}

// endedText is the status of a run that has ended.
func endedText(k journal.Kept) string {
	if k.End.At.IsZero() {
		return "lost"
	}
	return fmt.Sprintf("exited (%d)", k.End.Code)
}

// statusText says also where its terminal is.
func statusText(i control.Info) string {
	switch {
	case i.Detached && i.Attached > 0:
		return fmt.Sprintf("%s, %d attached", i.Status, i.Attached)
	case i.Detached:
		return i.Status + ", detached"
	}
	return i.Status
}

// looseText says what was loosened beside the network: what is writable beside
// the workspace, and each flag that makes the sandbox hold less.
func looseText(i control.Info) string {
	list := i.Loosened
	if slices.ContainsFunc(i.Mounts, func(m control.Mount) bool { return m.Writable }) {
		list = append(slices.Clone(list), "mount:rw")
	}
	return strings.Join(list, ",")
}

// netText names the mode, and what makes it guard less.
func netText(i control.Info) string {
	if i.DNS == bailey.DNSOpen && i.Net != bailey.NetNone {
		return i.Net.String() + "+dns-open" + publishedText(i)
	}
	return i.Net.String() + publishedText(i)
}

// publishedText names the ports of this machine that lead inside.
func publishedText(i control.Info) string {
	var b strings.Builder
	for _, p := range i.Published {
		_, _ = fmt.Fprintf(&b, "+publish=%d", p.Host)
		if p.Silent {
			b.WriteString("(nothing listens)")
		}
	}
	if i.Opens {
		b.WriteString("+open-browser")
	}
	return b.String()
}

// seenText is the workspace, and which of its hidden files are seen.
func seenText(i control.Info) string {
	if len(i.Shown) == 0 {
		return i.Workspace
	}
	return i.Workspace + " (shown: " + strings.Join(i.Shown, ", ") + ")"
}

// psRow is the published form of one line. Of a sandbox that does not answer
// most is not known, and absent.
type psRow struct {
	Name      string    `json:"name"`
	ID        string    `json:"id,omitempty"`
	PID       int       `json:"pid,omitempty"`
	Net       string    `json:"net,omitempty"`
	DNS       string    `json:"dns,omitempty"`
	Runtime   string    `json:"runtime,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Workspace string    `json:"workspace,omitempty"`
	Command   []string  `json:"command,omitempty"`
	Status    string    `json:"status"`
	Detached  bool      `json:"detached,omitempty"`
	Attached  int       `json:"attached,omitempty"`

	Mounts    []control.Mount     `json:"mounts,omitempty"`
	Loosened  []string            `json:"loosened,omitempty"`
	Shown     []string            `json:"shown,omitempty"`
	Published []control.Published `json:"published,omitempty"`
	Opens     bool                `json:"opens,omitempty"`

	Ended    time.Time `json:"ended,omitzero"`
	ExitCode *int      `json:"exit_code,omitempty"`
}

// endedRows are the published form of runs that have ended.
func endedRows(runs []journal.Kept) []psRow {
	rows := make([]psRow, 0, len(runs))
	for _, k := range runs {
		row := psRow{Name: k.Name, ID: string(k.ID), Started: k.Started, Workspace: k.Workspace, Command: k.Command, Status: "lost"}
		if !k.End.At.IsZero() {
			row.Status, row.Ended, row.ExitCode = "exited", k.End.At, &k.End.Code
		}
		rows = append(rows, row)
	}
	return rows
}

func psRows(infos []control.Info) []psRow {
	rows := make([]psRow, 0, len(infos))
	for _, i := range infos {
		if i.Status == control.NotAnswering {
			rows = append(rows, psRow{Name: i.Name, PID: i.PID, Status: i.Status})
			continue
		}
		rows = append(rows, psRow{
			Name: i.Name, ID: string(i.ID), PID: i.PID, Net: i.Net.String(), DNS: openDNS(i.DNS), Runtime: i.Runtime,
			Started: i.Started, Workspace: i.Workspace, Command: i.Command, Status: i.Status, Detached: i.Detached, Attached: i.Attached,
			Mounts: i.Mounts, Loosened: i.Loosened,
			Shown: i.Shown, Published: i.Published, Opens: i.Opens,
		})
	}
	return rows
}

func shorten(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func printJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", terminal.SanitizeJSON(b))
	return err
}

// openDNS is empty for the usual mode, which a list need not name.
func openDNS(m bailey.DNSMode) string {
	if m == bailey.DNSOpen {
		return m.String()
	}
	return ""
}
