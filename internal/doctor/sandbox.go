package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// airlockTarget is a name that nothing is ever asked of: no request is made.
const airlockTarget = "bailey.invalid"

// sandboxes starts what bailey run would start.
func (d *Doctor) sandboxes(ctx context.Context) error {
	dir, remove, err := d.cfg.Temp()
	if err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	d.begin("airlock")
	err = d.whole(ctx, dir)
	d.begin("native")
	d.add("native", d.native(ctx, dir))
	if err := errors.Join(err, remove()); err != nil {
		return err
	}
	d.begin("workspace")
	d.add("workspace", d.dirty(ctx))
	return nil
}

// whole starts one with an airlock; if that fails one without, which tells
// whether it was the airlock.
func (d *Doctor) whole(ctx context.Context, dir string) error { //nolint:unparam // as each of the steps
	seen, err := d.inspect(ctx, Request{Dir: dir, Allow: []string{airlockTarget}})
	if err == nil {
		d.add("airlock", Row{Status: OK, Detail: "network namespaces, veth and nftables: built and read back"})
		d.booted(seen)
		return nil
	}
	d.begin("gvisor")
	seen, alone := d.inspect(ctx, Request{Dir: dir})
	if alone != nil {
		d.add("gvisor", failed(alone))
		return nil
	}
	row := failed(err)
	if row.Fix == "" || row.Fix == "see bailey doctor" {
		row.Fix = "the kernel needs nf_tables, nft_redir, nft_reject and veth: sudo modprobe -a nf_tables nft_redir nft_reject_inet veth; without them only --net none works"
	}
	d.add("airlock", row)
	d.booted(seen)
	return nil
}

func (d *Doctor) booted(s comparison) {
	d.add("gvisor", Row{Status: OK, Detail: "a sandbox was started and ended"})
	d.add("posture", s.row())
}

// native starts one with the host's kernel. Nobody needs it who does not ask for
// it.
func (d *Doctor) native(ctx context.Context, dir string) Row {
	seen, err := d.inspect(ctx, Request{Dir: dir, Runtime: bailey.RuntimeNative})
	if err != nil {
		row := failed(err)
		row.Status, row.Detail = Warn, "--runtime native does not work: "+row.Detail
		return row
	}
	row := seen.row()
	if row.Status == OK {
		row.Detail = "--runtime native: a sandbox with this machine's kernel was started; " + row.Detail
	}
	return row
}

// comparison is what became of one sandbox's posture.
type comparison struct {
	processes []posture.Posture
	found     []posture.Deviation
}

func failed(err error) Row {
	r := Row{Status: Missing, Detail: err.Error()}
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		r.Fix = e.Hint
	}
	return r
}

func (c comparison) row() Row {
	if len(c.found) == 0 {
		return Row{Status: OK, Detail: fmt.Sprintf("each of %d processes is what it must be%s", len(c.processes), c.hidden())}
	}
	const most = 5
	var lines []string
	for i, d := range c.found {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(c.found)-most))
			break
		}
		lines = append(lines, d.String())
	}
	return Row{Status: Missing, Detail: strings.Join(lines, "; "), Fix: "please report this, with the output of bailey doctor --json"}
}

// hidden says what this user may not see: what cannot be read cannot be traced
// either, but it has not been compared.
func (c comparison) hidden() string {
	var roles []string
	for _, p := range c.processes {
		if len(p.Hidden) > 0 && p.Role != posture.First {
			roles = append(roles, string(p.Role))
		}
	}
	if len(roles) == 0 {
		return ""
	}
	return "; only root can see all of " + strings.Join(roles, ", ")
}

// inspect starts a sandbox that tells its own posture and compares all of it.
func (d *Doctor) inspect(ctx context.Context, r Request) (comparison, error) {
	var none comparison
	r.Command = []string{sandbox.FirstPath, posture.Arg}
	sb, err := d.cfg.Start(ctx, r)
	if err != nil {
		return none, err
	}
	inside, err := readReport(sb)
	if err != nil {
		_, _, ended := sb.Finish()
		if ended != nil {
			return none, ended
		}
		return none, err
	}
	list, err := posture.Reader{}.Run(d.cfg.PID)
	code, stderr, ended := sb.Finish()
	if err := errors.Join(err, ended); err != nil {
		return none, err
	}
	if code != 0 {
		return none, fmt.Errorf("the sandbox ended with code %d: %s", code, strings.TrimSpace(stderr))
	}
	c := Expectation{UID: d.cfg.UID, GID: d.cfg.GID, Net: len(r.Allow) > 0, Workspace: r.Dir, Writable: []string{r.Dir}, Native: r.Runtime == bailey.RuntimeNative}
	cfg, err := c.config(list, inside)
	if err != nil {
		return none, err
	}
	list = append(list, inside.Self, inside.First)
	return comparison{processes: list, found: posture.Judge(list, cfg)}, nil
}

// MaxReport bounds what is read of a sandbox's posture: it comes from inside.
const MaxReport = 1 << 20

func readReport(r io.Reader) (posture.Report, error) {
	var report posture.Report
	line, err := bufio.NewReader(io.LimitReader(r, MaxReport)).ReadBytes('\n')
	if err != nil {
		return report, errNoReport
	}
	if err := json.Unmarshal(line, &report); err != nil {
		return report, fmt.Errorf("%w: %w", errNoReport, err)
	}
	// What the sandbox says it is for decides nothing.
	report.Self.Role, report.First.Role = posture.Command, posture.First
	return report, nil
}

// dirty runs git inside a sandbox that can change nothing: the tree may be
// hostile, and git on the host would run what it configures.
func (d *Doctor) dirty(ctx context.Context) Row {
	script := `git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo none; exit 0; }; git status --porcelain | head -n 1000 | wc -l`
	sb, err := d.cfg.Start(ctx, Request{Dir: d.cfg.Dir, ReadOnly: true, Command: []string{"sh", "-c", script}})
	if err != nil {
		return failed(err)
	}
	out, _ := io.ReadAll(io.LimitReader(sb, MaxReport))
	code, _, err := sb.Finish()
	if err != nil { // it may not be a workspace, and then nothing runs here
		return failed(err)
	}
	answer := strings.TrimSpace(string(out))
	switch {
	case code != 0 || answer == "":
		return Row{Status: Warn, Detail: fmt.Sprintf("git could not tell whether it has uncommitted changes (code %d)", code)}
	case answer == "none":
		return Row{Status: OK, Detail: d.cfg.Dir + " is no git checkout: nothing can bring back what an agent changes", Fix: "git init && git add -A && git commit"}
	case answer == "0":
		return Row{Status: OK, Detail: d.cfg.Dir + ": a clean git checkout"}
	}
	return Row{
		Status: Warn, Detail: fmt.Sprintf("%s has uncommitted changes in %s files: they cannot be told from the agent's", d.cfg.Dir, answer),
		Fix: "git commit or git stash before the run",
	}
}
