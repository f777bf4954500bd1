package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type psCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey ps --help` says beyond the flags.
func (psCommand) Help() string {
	return `Lists your own sandboxes. With --json: an array of objects with name, id, pid, net, runtime, started, workspace, command (cut at 4 KiB) and status, and dns where that is open. A sandbox whose bailey does not answer, since it was stopped (Ctrl-Z), has the status "not answering", its name, and the pid; the rest is absent.`
}

// Run lists the caller's sandboxes.
func (c *psCommand) Run(a *app) error {
	infos, err := control.List(a.ctx, a.host.Dirs.Runtime)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, psRows(infos))
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tSTATUS\tNET\tPID\tSTARTED\tWORKSPACE\tCOMMAND")
	for _, i := range infos {
		network, started, workspace := netText(i), i.Started.Local().Format(time.DateTime), i.Workspace
		if i.Status == control.NotAnswering {
			network, started, workspace = "-", "-", "-"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", terminal.Sanitize(i.Name), terminal.Sanitize(i.Status), network, i.PID,
			started, terminal.Sanitize(workspace), terminal.Sanitize(shorten(strings.Join(i.Command, " "))))
	}
	return w.Flush()
}

// netText names the mode, and what makes it guard less.
func netText(i control.Info) string {
	if i.DNS == bailey.DNSOpen && i.Net != bailey.NetNone {
		return i.Net.String() + "+dns-open"
	}
	return i.Net.String()
}

// psRow is the published form of one line. Of a sandbox that does not answer
// most is not known, and absent.
type psRow struct {
	Name      string    `json:"name"`
	ID        string    `json:"id,omitempty"`
	PID       int       `json:"pid"`
	Net       string    `json:"net,omitempty"`
	DNS       string    `json:"dns,omitempty"`
	Runtime   string    `json:"runtime,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Workspace string    `json:"workspace,omitempty"`
	Command   []string  `json:"command,omitempty"`
	Status    string    `json:"status"`
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
			Started: i.Started, Workspace: i.Workspace, Command: i.Command, Status: i.Status,
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
