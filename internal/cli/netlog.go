package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/netlog"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type netLogCommand struct {
	Follow  bool        `short:"f" help:"Go on with what is decided from now on, after the last ten that were; with --since after all of that time."`
	Sandbox text        `placeholder:"NAME" help:"Only of this sandbox: a name, or an id."`
	Denied  bool        `help:"Only what was refused."`
	Since   config.Span `placeholder:"TIME" help:"Only of so long ago until now, such as 10m, 24h or 7d. Default: all that is kept."`
	JSON    bool        `name:"json" help:"Print JSON lines (docs/events.md)."`
}

// Help is what `bailey net log --help` says beyond the flags.
func (netLogCommand) Help() string {
	return `Prints the record of your own sandboxes, the running and those that have ended, the oldest decision first. A connection is on record when it has ended; one that goes on is so too, soon after it was allowed, and says "open". A sandbox that --sandbox names has to run, or to be on record. What the sandbox says of itself is marked: program is "claimed: curl/8.5.0".

Examples:
  bailey net log --since 1h --denied
  bailey net log --sandbox web
  bailey net log --json | jq -r 'select(.verdict == "deny") | .name'`
}

// lastRows is how many rows stand before those that are followed.
const lastRows = 10

// Run prints the record.
func (c *netLogCommand) Run(a *app) error {
	r, err := netlog.OpenReader(a.host.Dirs.State, a.host.UID)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	var since time.Time
	if d := time.Duration(c.Since); d > 0 {
		since = a.now().Add(-d)
	}
	show := c.shower(a)
	if err := c.known(a, r); err != nil {
		return err
	}
	if !c.Follow {
		return show.history(r, since)
	}
	if err := c.before(r, since, show); err != nil {
		return err
	}
	err = r.Follow(a.ctx, show.row)
	if errors.Is(err, syscall.EPIPE) { // who read it has enough
		return nil
	}
	return err
}

// errFound ends a reading that has found what it looked for.
var errFound = errors.New("found")

// known refuses the name of a sandbox that neither runs nor has a record: it is
// a slip, and no quiet sandbox. One that is followed may be yet to come.
func (c *netLogCommand) known(a *app, r *netlog.Reader) error {
	name := string(c.Sandbox)
	if name == "" {
		return nil
	}
	running, err := control.List(a.ctx, a.host.Dirs.Runtime)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(running, func(i control.Info) bool { return i.Name == name || string(i.ID) == name }) {
		return nil
	}
	err = r.Read(time.Time{}, func(rec netlog.Record) error {
		if rec.Sandbox == name || string(rec.ID) == name {
			return errFound
		}
		return nil
	})
	r.Rewind()
	switch {
	case errors.Is(err, errFound):
		return nil
	case err != nil:
		return err
	case c.Follow:
		_, _ = fmt.Fprintf(a.stderr, "note: no sandbox named %q is running, and none is on record: this waits for one\n", terminal.Sanitize(name))
		return nil
	}
	return bailey.NewError(bailey.NotFound, fmt.Sprintf("no sandbox named %q is running, and none is on record", name), "bailey ps lists those that run; bailey net log without --sandbox prints the record of all")
}

// before prints what was before what is followed.
func (c *netLogCommand) before(r *netlog.Reader, since time.Time, show shower) error {
	if !since.IsZero() {
		return r.Read(since, show.row)
	}
	var last []netlog.Record
	err := r.Read(since, func(rec netlog.Record) error {
		if show.matches(rec) {
			if last = append(last, rec); len(last) > lastRows {
				last = last[1:]
			}
		}
		return nil
	})
	for _, rec := range last {
		if err == nil {
			err = show.row(rec)
		}
	}
	return err
}

// shower prints the records that were asked for.
type shower struct {
	w       io.Writer
	matches func(netlog.Record) bool
	json    bool
	color   bool
}

func (c *netLogCommand) shower(a *app) shower {
	return shower{
		w: a.stdout, json: c.JSON, color: pty.IsTerminal(a.host.Stdout) && a.host.Env.Get("NO_COLOR") == "",
		matches: func(r netlog.Record) bool {
			of := c.Sandbox == "" || string(c.Sandbox) == r.Sandbox || string(c.Sandbox) == string(r.ID)
			return of && (!c.Denied || r.Verdict != bailey.Allow.String())
		},
	}
}

func (s shower) row(r netlog.Record) error {
	if !s.matches(r) {
		return nil
	}
	if !s.json {
		_, err := io.WriteString(s.w, s.text(r)+"\n")
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = s.w.Write(append(terminal.SanitizeJSON(b), '\n'))
	return err
}

// connection is one connection of one run.
type connection struct {
	run    bailey.SandboxID
	number uint64
}

func connectionOf(r netlog.Record) connection { return connection{r.ID, r.Connection} }

// endsOne reports whether a record may be that of the end of a connection which
// was on record as open. That of a secret's use is of one request.
func endsOne(r netlog.Record) bool { return !r.Open && r.Secret == "" && r.Connection != 0 }

// history prints what is on record. A person reads of each connection once: of
// one that has ended, its end.
func (s shower) history(r *netlog.Reader, since time.Time) error {
	if s.json {
		return r.Read(since, s.row)
	}
	ended := map[connection]bool{} // of those that were open for a while
	err := r.Read(since, func(rec netlog.Record) error {
		key := connectionOf(rec)
		if _, known := ended[key]; rec.Open || known && endsOne(rec) {
			ended[key] = !rec.Open
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Rewind()
	return r.Read(since, func(rec netlog.Record) error {
		if rec.Open && ended[connectionOf(rec)] {
			return nil
		}
		return s.row(rec)
	})
}

// text is a record as one line for a person. Whatever a sandbox said in it is
// shown as what it is: nothing in it ends the line.
func (s shower) text(r netlog.Record) string {
	verdict := fmt.Sprintf("%-5s", r.Verdict)
	if s.color {
		verdict = colored(verdict, r.Verdict)
	}
	line := fmt.Sprintf("%s  %-24s  ", r.Time.Local().Format(time.DateTime), terminal.Sanitize(r.Sandbox))
	if r.Verdict == "" {
		return line + terminal.Sanitize(r.Message)
	}
	return line + verdict + fmt.Sprintf("  %-4s  %-40s  ", terminal.Sanitize(r.Proto), terminal.Sanitize(targetOf(r))) +
		terminal.Sanitize(strings.Join(detailsOf(r), "  "))
}

func colored(text, verdict string) string {
	const red, green, reset = "\x1b[31m", "\x1b[32m", "\x1b[0m"
	if verdict == bailey.Allow.String() {
		return green + text + reset
	}
	return red + text + reset
}

// targetOf is what was asked for.
func targetOf(r netlog.Record) string {
	target := r.Name
	if target == "" {
		target = r.Address
	}
	if target == "" {
		target = "-"
	}
	if r.Port == 0 {
		return target
	}
	return bracketed(target) + ":" + strconv.Itoa(int(r.Port))
}

// detailsOf is what is known beside that.
func detailsOf(r netlog.Record) []string {
	var out []string
	add := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	add(r.Reason)
	if r.Proto == netlog.Model { // its message says what it used, or why not
		if r.Status > 0 {
			add(strconv.Itoa(r.Status))
		}
		add((time.Duration(r.DurationMS) * time.Millisecond).String())
		add(r.Message)
		return out
	}
	if r.Secret != "" {
		return append(out, useOf(r)...)
	}
	if r.Rule != "" {
		add("rule " + r.Rule)
	}
	if r.Verdict == bailey.Allow.String() && r.Proto != policy.ProtocolDNS {
		if r.Name != "" {
			add(r.Address)
		}
		add(fmt.Sprintf("in %s out %s", amount(r.BytesIn), amount(r.BytesOut)))
		add((time.Duration(r.DurationMS) * time.Millisecond).String())
	}
	if r.Open {
		add("open")
	}
	add(strings.TrimSpace(r.Method + " " + r.Path))
	add(r.Program)
	if r.Name == "" && r.Verdict != bailey.Allow.String() {
		add(r.Message) // it quotes what was said in the place of a name
	}
	return out
}

// useOf is what is known of a request that carried a secret. Its path is that of
// the secret's rule: what was asked for below is on no record.
func useOf(r netlog.Record) []string {
	out := []string{"secret " + r.Rule}
	if r.Status > 0 {
		out = append(out, strconv.Itoa(r.Status))
	}
	if r.Method != "" {
		out = append(out, r.Method)
	}
	if r.Path != "" && r.Path != "/" {
		out = append(out, "below "+r.Path)
	}
	return out
}

// amount is a number of bytes, short.
func amount(n int64) string {
	const units = "KMGT"
	if n < 1000 {
		return strconv.FormatInt(n, 10) + "B"
	}
	v, unit := float64(n), ' '
	for _, unit = range units {
		if v /= 1000; v < 1000 {
			break
		}
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + string(unit)
}
