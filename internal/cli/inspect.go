package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type inspectCommand struct {
	runCommand
}

// Help is what `bailey inspect --help` says beyond the flags.
func (inspectCommand) Help() string {
	return `Takes the flags and the command of bailey run, and prints what that run would have: it is made of the same plan. Nothing is made or started, and no value of a variable or a secret is printed.

With --json: one object with command, agent, runtime, workspace, network, mounts, memory, files, variables, secrets, model, home, bridge, limits, hidden, published, weakened, readable and notes (docs/homes.md). Members may be added.

Examples:
  bailey inspect --env ANTHROPIC_API_KEY claude
  bailey inspect --json --allow example.com -- make test`
}

// Run prints it.
func (c *inspectCommand) Run(a *app, line *kong.Context) error {
	command, dashed := afterDashes(append(each(c.Command, asBytes), a.rest...))
	if len(command) == 0 {
		return bailey.NewError(bailey.Invalid, "inspect: no command", "bailey inspect -- bash, or bailey inspect claude")
	}
	in, err := run.Inspect(a.host, c.request(line, command, dashed))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, in)
	}
	return printInspection(a.stdout, in)
}

// table prints rows of a name and what there is of it.
type table struct{ w *tabwriter.Writer }

func (t table) row(name string, values ...string) {
	for _, v := range values {
		_, _ = fmt.Fprintf(t.w, "%s\t%s\n", name, terminal.Sanitize(v))
		name = ""
	}
}

func printInspection(w io.Writer, in run.Inspection) error {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	access := "read-write"
	if !in.Workspace.Writable {
		access = "read-only"
	}
	t.row("command", strings.Join(in.Command, " "))
	t.row("runtime", in.Runtime)
	t.row("workspace", in.Workspace.Path+" ("+access+")")
	t.row("network", netRows(in.Network)...)
	for i, m := range in.Mounts {
		t.row(first(i, "mounted"), mountText(m))
	}
	for i, m := range in.Memory {
		t.row(first(i, "in memory"), fmt.Sprintf("%s (%s)", m.Target, sizeText(m.Bytes)))
	}
	t.row("variables passed", listOr(in.Variables.Passed, "none"))
	t.row("variables set", listOr(in.Variables.Set, "none"))
	for i, s := range in.Secrets {
		t.row(first(i, "secrets lent"), s.Name+" in $"+s.Variable)
	}
	if in.Model != nil {
		t.row("model", in.Model.Name+" ("+in.Model.Dialect+")", "budget: "+cmp.Or(in.Model.Budget, "none"))
	}
	t.row("home", homeRows(in.Home)...)
	if in.Bridge != nil {
		t.row("bridged", bridgeRows(*in.Bridge)...)
	}
	t.row("limits", limitsText(in.Limits))
	for _, part := range []struct {
		name  string
		items []run.InspectedItem
	}{{"hidden", in.Hidden}, {"published", in.Published}, {"readable", in.Readable}, {"weakened", in.Weakened}} {
		t.row(part.name, byReason(part.items)...)
	}
	t.row("notes", in.Notes...)
	return t.w.Flush()
}

// byReason joins what is there for the same reason.
func byReason(items []run.InspectedItem) (rows []string) {
	var whys []string
	names := map[string][]string{}
	for _, item := range items {
		if names[item.Why] == nil {
			whys = append(whys, item.Why)
		}
		names[item.Why] = append(names[item.Why], item.What)
	}
	for _, why := range whys {
		rows = append(rows, strings.Join(names[why], " ")+": "+why)
	}
	return rows
}

// first is a name for the first row of several.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

func listOr(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, " ")
}

func netRows(n run.InspectedNet) []string {
	rows := []string{n.Mode + ", dns " + n.DNS}
	for _, r := range n.Allow {
		rows = append(rows, "allow "+r)
	}
	for _, r := range n.Deny {
		rows = append(rows, "deny "+r)
	}
	for _, r := range n.Inspected {
		rows = append(rows, "TLS opened: "+r)
	}
	return rows
}

func mountText(m run.InspectedMount) string {
	text := m.Target
	if m.Source != m.Target {
		text = m.Source + " at " + m.Target
	}
	if m.Writable {
		text += " (read-write)"
	}
	if m.Why != "" {
		text += ", " + m.Why
	}
	return text
}

func homeRows(h run.InspectedHome) []string {
	if !h.Kept {
		return []string{"in memory, gone afterwards"}
	}
	rows := []string{h.Name + ", kept in " + h.Path}
	if h.New {
		rows[0] = h.Name + ", to be made in " + h.Path
	}
	if h.Shared {
		rows = append(rows, "in use by another run")
	}
	for _, l := range h.Logins {
		rows = append(rows, "login made inside: "+l)
	}
	for _, k := range h.Changed {
		rows = append(rows, "changed inside, holds: "+k)
	}
	for _, k := range h.Overruled {
		rows = append(rows, "changed inside, does not hold: "+k)
	}
	return rows
}

func bridgeRows(b run.InspectedBridge) []string {
	rows := []string{"from " + strings.Join(b.Sources, ", ")}
	rows = append(rows, "carried: "+listOr(b.Keys, "nothing"), "left outside: "+listOr(b.Left, "nothing"))
	for _, p := range b.Providers {
		text := "provider " + p.Name
		if p.URL != "" {
			text += " at " + p.URL
		}
		if p.Variable != "" {
			text += ", key in $" + p.Variable
		}
		if p.Allowed {
			text += ": allowed"
		} else if p.Flag != "" {
			text += ": reached only with " + p.Flag
		}
		rows = append(rows, text)
	}
	return rows
}

func limitsText(l run.InspectedLimits) string {
	text := fmt.Sprintf("memory %s, %g CPUs, %d processes, %d open files, workspace +%s and %d files",
		sizeText(l.MemoryBytes), l.CPUs, l.Processes, l.OpenFiles, sizeText(l.DiskBytes), l.Inodes)
	if l.HomeBytes > 0 {
		text += ", home +" + sizeText(l.HomeBytes)
	}
	if l.TimeoutSec > 0 {
		text += ", " + time.Duration(l.TimeoutSec*float64(time.Second)).String()
	}
	return text
}
