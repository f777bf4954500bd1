package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type netPendingCommand struct {
	Sandbox text `placeholder:"NAME" help:"Of this sandbox alone."`
	JSON    bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey net pending --help` says beyond the flags.
func (netPendingCommand) Help() string {
	return `Lists the hosts that connections wait for which bailey run --ask, or net.ask in a policy file, holds until you answer: 30 seconds, then they are refused. With --json: an array of objects with sandbox, host (a name or an address, as the sandbox says it), port, protocol, asked and until.`
}

// Run lists what waits for an answer.
func (c *netPendingCommand) Run(a *app) error {
	list, err := a.pending(string(c.Sandbox))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, list)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SANDBOX\tHOST\tPORT\tPROTOCOL\tSECONDS LEFT")
	for _, p := range list {
		left := max(0, time.Until(p.Until).Round(time.Second)/time.Second)
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\n", terminal.Sanitize(p.Sandbox), terminal.Sanitize(p.Host), p.Port, terminal.Sanitize(p.Protocol), left)
	}
	return w.Flush()
}

// pending asks one sandbox, or each of them, what waits. One that does not
// answer has nothing to say.
func (a *app) pending(sandbox string) ([]control.Pending, error) {
	out := []control.Pending{}
	names := []string{sandbox}
	if sandbox == "" {
		var err error
		if names, err = a.sandboxes(); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		got, err := control.AskNet(a.ctx, a.host.Dirs.Runtime, name, control.NetRequest{Do: control.NetPending})
		if err != nil && sandbox != "" {
			return nil, a.over(name, err)
		}
		out = append(out, got.Pending...)
	}
	return out, nil
}

func (a *app) sandboxes() ([]string, error) {
	infos, err := control.List(a.ctx, a.host.Dirs.Runtime)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range infos {
		if i.Status != control.NotAnswering {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

// answerFlags are those of net allow and net deny.
type answerFlags struct {
	Host    string `arg:"" placeholder:"HOST[:PORT]" help:"As in a rule: a name, *.name, or an address."`
	Sandbox text   `placeholder:"NAME" help:"Of this sandbox. Default: the one that runs, or the one in which the host waits."`
	Once    bool   `xor:"for" help:"For the connections that wait now."`
	Run     bool   `name:"run" xor:"for" help:"Until the sandbox ends. This is the default."`
	Always  bool   `xor:"for" help:"Also for later runs: it is written into your policy file."`
}

type netAllowCommand struct {
	answerFlags
}

// Help is what `bailey net allow --help` says beyond the flags.
func (netAllowCommand) Help() string {
	return `Answers what waits (bailey net pending), or lets a host through in a running sandbox that never asked. No port means 80 and 443. A deny rule of a file or flag beats it.

Examples:
  bailey net allow api.example.com:443 --once
  bailey net allow '*.example.com' --sandbox web
  bailey net allow db.example.com:5432 --always`
}

type netDenyCommand struct {
	answerFlags
}

// Help is what `bailey net deny --help` says beyond the flags.
func (netDenyCommand) Help() string {
	return `Answers what waits (bailey net pending), takes back what bailey net allow let through, and refuses a host in a running sandbox; connections that are open to it are cut within a second. No port means every port.`
}

// Run lets a host through.
func (c *netAllowCommand) Run(a *app) error { return a.net(control.NetAllow, &c.answerFlags) }

// Run refuses a host.
func (c *netDenyCommand) Run(a *app) error { return a.net(control.NetDeny, &c.answerFlags) }

func (a *app) net(do string, c *answerFlags) error {
	r := control.NetRequest{Do: do, Rule: c.Host, For: control.ForRun}
	switch {
	case c.Once:
		r.For = control.ForOnce
	case c.Always:
		r.For = control.ForAlways
	}
	name := string(c.Sandbox)
	if name == "" {
		var err error
		if name, err = a.meant(c.Host); err != nil {
			return err
		}
	}
	got, err := control.AskNet(a.ctx, a.host.Dirs.Runtime, name, r)
	if err != nil {
		return a.over(name, err)
	}
	_, err = fmt.Fprintln(a.stdout, terminal.Sanitize(got.Said))
	return err
}

// meant finds the sandbox that an answer is for: the only one, or the only one
// in which the host waits.
func (a *app) meant(rule string) (string, error) {
	names, err := a.sandboxes()
	if err != nil {
		return "", err
	}
	if len(names) == 1 {
		return names[0], nil
	}
	if len(names) == 0 {
		return "", bailey.NewError(bailey.NotFound, "no sandbox is running", "for later runs write the host into your policy file (bailey net why HOST says the line)")
	}
	waiting, err := a.pending("")
	if err != nil {
		return "", err
	}
	found := map[string]bool{}
	for _, p := range waiting {
		if rule == p.Host || rule == fmt.Sprintf("%s:%d", p.Host, p.Port) {
			found[p.Sandbox] = true
		}
	}
	if len(found) == 1 {
		for name := range found {
			return name, nil
		}
	}
	return "", bailey.NewError(bailey.Invalid, "several sandboxes are running: "+strings.Join(names, ", "), "name one with --sandbox")
}
