package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/home"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/terminal"
)

// homeCommand is the group of commands about homes that are kept.
type homeCommand struct {
	Ls      homeLsCommand      `cmd:"" aliases:"list" help:"List the homes."`
	Inspect homeInspectCommand `cmd:"" help:"Say what a home is, and which logins it holds."`
	Rm      homeRmCommand      `cmd:"" help:"Remove homes, and the logins in them."`
	Export  homeExportCommand  `cmd:"" help:"Write a home as a tar archive, without its logins."`
	Import  homeImportCommand  `cmd:"" help:"Make a home out of such an archive."`
}

func (a *app) homes() home.Store { return home.In(a.host.Dirs.Data) }

// homeNames lists them, for completion.
func (a *app) homeNames() (out []candidate) {
	for _, name := range a.homes().Names() {
		out = append(out, candidate{name, ""})
	}
	return out
}

// homeRow is the published form of a home.
type homeRow struct {
	Name      string       `json:"name"`
	Path      string       `json:"path,omitempty"`
	Workspace string       `json:"workspace,omitempty"`
	Agent     string       `json:"agent,omitempty"`
	Created   time.Time    `json:"created,omitzero"`
	Used      time.Time    `json:"used,omitzero"`
	InUse     bool         `json:"in_use"`
	Logins    []home.Login `json:"logins"`
	Files     int64        `json:"files"`
	Bytes     int64        `json:"bytes"`
	Partly    bool         `json:"partly,omitempty"` // not all of it was counted
	Error     string       `json:"error,omitempty"`
}

func (a *app) homeRow(name string) (homeRow, error) {
	h, err := a.homes().Open(name, nil)
	if err != nil {
		return homeRow{}, err
	}
	defer func() { _ = h.Close() }() // read only
	m, err := h.Mount("/")
	if err != nil {
		return homeRow{}, err
	}
	r := homeRow{
		Name: name, Path: m.Source, Workspace: h.Meta.Workspace, Agent: h.Meta.Agent, Created: h.Meta.Created, Used: h.Meta.Used,
		InUse: h.Shared, Logins: h.Logins(),
	}
	if r.Logins == nil {
		r.Logins = []home.Login{}
	}
	var whole bool
	r.Files, r.Bytes, whole = h.Size()
	r.Partly = !whole
	return r, nil
}

type homeLsCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey home ls --help` says beyond the flags.
func (homeLsCommand) Help() string {
	return `With --json: an array of objects with name, path, workspace, agent, created, used, in_use, logins (of and path), files, bytes, and partly where not all was counted. One that cannot be opened has its name and error.`
}

// Run lists them.
func (c *homeLsCommand) Run(a *app) error {
	rows := []homeRow{}
	for _, name := range a.homes().Names() {
		r, err := a.homeRow(name)
		if err != nil {
			r = homeRow{Name: name, Logins: []home.Login{}, Error: err.Error()}
		}
		rows = append(rows, r)
	}
	if c.JSON {
		return printJSON(a.stdout, rows)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.stdout, "There are no homes yet; a run of an agent by name, or with --home NAME, makes one.")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tSIZE\tLAST RUN\tLOGINS\tWORKSPACE")
	for _, r := range rows {
		if r.Error != "" {
			_, _ = fmt.Fprintf(w, "%s\t-\t-\t-\t%s\n", r.Name, terminal.Sanitize(r.Error))
			continue
		}
		used := "never"
		if !r.Used.IsZero() {
			used = r.Used.Local().Format(time.DateTime)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, sizeText(r.Bytes), used, loginNames(r.Logins), terminal.Sanitize(r.Workspace))
	}
	return w.Flush()
}

func loginNames(list []home.Login) string {
	var out []string
	for _, l := range list {
		out = append(out, l.Of)
	}
	return strings.ReplaceAll(listOr(out, "-"), " ", ",")
}

type homeInspectCommand struct {
	Name text `arg:"" help:"Its name."`
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey home inspect --help` says beyond the flags.
func (homeInspectCommand) Help() string {
	return `With --json: an object as in the array of bailey home ls. What a run of an agent would do with the home, and which of its settings were changed inside, bailey inspect says.`
}

// Run shows one.
func (c *homeInspectCommand) Run(a *app) error {
	r, err := a.homeRow(asBytes(string(c.Name)))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, r)
	}
	t := table{tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)}
	t.row("name", r.Name)
	if r.Agent != "" {
		t.row("of", r.Agent)
	}
	if r.Workspace != "" {
		t.row("made for", r.Workspace)
	}
	t.row("made", r.Created.Local().Format(time.DateTime))
	if !r.Used.IsZero() {
		t.row("last run", r.Used.Local().Format(time.DateTime))
	}
	if r.InUse {
		t.row("in use", "yes")
	}
	for i, l := range r.Logins {
		t.row(first(i, "logins made inside"), l.Of+" ("+l.Path+")")
	}
	size := fmt.Sprintf("%s in %d files and folders", sizeText(r.Bytes), r.Files)
	if r.Partly {
		size = "more than " + size
	}
	t.row("size", size)
	t.row("folder", r.Path)
	return t.w.Flush()
}

type homeRmCommand struct {
	Name []string `arg:"" help:"Their names."`
}

// Help is what `bailey home rm --help` says beyond the flags.
func (homeRmCommand) Help() string {
	return `One that a run uses is not removed. What it held, logins too, is gone: a provider knows of them until they are revoked there.`
}

// Run removes them, each; the first that cannot be is the error.
func (c *homeRmCommand) Run(a *app) error {
	for _, name := range c.Name {
		if err := a.homes().Remove(asBytes(name)); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(a.stdout, "%s: removed\n", terminal.Sanitize(name))
	}
	return nil
}

type homeExportCommand struct {
	Name       text         `arg:"" help:"Its name."`
	File       text         `arg:"" optional:"" help:"Where to write it; standard output without one."`
	WithLogins bool         `help:"Write the files that hold logins too."`
	MaxSize    config.Bytes `placeholder:"20G" help:"How much may be written. Default: 20G."`
}

// Help is what `bailey home export --help` says beyond the flags.
func (homeExportCommand) Help() string {
	return `Files that hold a login are left out under every name that they have, and named on standard error. What cannot be read is left out and named too. Other files may still hold what somebody pasted into a conversation. A file that exists is not written over.`
}

// Run writes it.
func (c *homeExportCommand) Run(a *app) (err error) {
	h, err := a.homes().Open(asBytes(string(c.Name)), nil)
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }() // read only
	w := a.stdout
	var to *beneath.Draft
	path := asBytes(string(c.File))
	if path != "" && path != "-" {
		ctx, stop := untilTold(a.ctx) // before there is something to take away
		defer stop()
		if to, err = a.archive(path); err != nil {
			return err
		}
		defer to.Drop()
		w = unless{ctx, to.File} // a file that is half written goes
		defer func() {
			if told := exitTold(ctx); err != nil && told != nil {
				err = told
			}
		}()
	}
	most := int64(c.MaxSize)
	if most == 0 {
		most = defaultExport
	}
	x, err := h.Export(w, c.WithLogins, most)
	if err != nil {
		return err
	}
	if to != nil {
		if err := to.Keep(false); err != nil {
			return archiveError(path, err)
		}
	}
	a.leftOut("since it holds a login", x.LeftOut)
	a.leftOut("since it cannot be read", x.Closed)
	return nil
}

// defaultExport is how much an export may be where no flag says more: an agent
// can make a sparse file of any length.
const defaultExport = 20 << 30

// leftOut names what an archive does not hold; an agent can make any number.
func (a *app) leftOut(why string, names []string) {
	for _, name := range names[:min(len(names), mostPointedOut)] {
		_, _ = fmt.Fprintf(a.stderr, "bailey: left out, %s: %s\n", why, terminal.Sanitize(name))
	}
	if more := len(names) - mostPointedOut; more > 0 {
		_, _ = fmt.Fprintf(a.stderr, "bailey: left out, %s: %d more\n", why, more)
	}
}

// archive begins a file that is not there yet.
func (a *app) archive(path string) (*beneath.Draft, error) {
	if _, err := os.Lstat(path); err == nil { // before much is written; Keep makes sure
		return nil, archiveError(path, fs.ErrExist)
	}
	to, err := beneath.NewDraft(path, 0o600, a.written()...)
	if err != nil {
		return nil, archiveError(path, err)
	}
	return to, nil
}

func archiveError(path string, err error) error {
	return bailey.WrapError(bailey.Conflict, "write "+path, err, "name a file that is not there yet, with no link of a workspace on the way")
}

type homeImportCommand struct {
	Name  text         `arg:"" help:"The name of the new home."`
	File  text         `arg:"" optional:"" help:"The archive; standard input without one."`
	Disk  config.Bytes `placeholder:"10G" help:"How large it may be. Default: 10G."`
	Count config.Count `name:"inodes" placeholder:"1000000" help:"How many files and folders it may hold. Default: 1000000."`
}

// Help is what `bailey home import --help` says beyond the flags.
func (homeImportCommand) Help() string {
	return `Takes files, folders and symbolic links below files/, and nothing else. An archive with anything else in it, with a name that leads elsewhere, or with a file behind one of its links, is refused as a whole.`
}

// Run makes it.
func (c *homeImportCommand) Run(a *app) error {
	var r io.Reader = a.host.Stdin
	if path := asBytes(string(c.File)); path != "" && path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return bailey.WrapError(bailey.NotFound, "read "+path, err, "check the path")
		}
		defer f.Close()
		r = f
	}
	bounds := home.Bounds{Bytes: int64(c.Disk), Files: int64(c.Count)}
	if bounds.Bytes == 0 {
		bounds.Bytes = 10 << 30
	}
	if bounds.Files == 0 {
		bounds.Files = 1_000_000
	}
	ctx, stop := untilTold(a.ctx)
	defer stop()
	files, bytes, err := a.homes().Import(asBytes(string(c.Name)), until(ctx, r), bounds, a.now())
	if told := exitTold(ctx); err != nil && told != nil {
		return told
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "home %s: %s in %d files and folders\n", c.Name, sizeText(bytes), files)
	return err
}

// until is what r has, with ctx's error for an end once ctx is done: also when
// r has nothing and no end, as a terminal or a pipe may.
func until(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	return out
}

// unless is w, and has ctx's error once ctx is done.
type unless struct {
	ctx context.Context //nolint:containedctx // a writer has no other way to it
	io.Writer
}

func (u unless) Write(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.Writer.Write(p)
}
