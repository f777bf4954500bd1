package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type policyCommand struct {
	Check   policyCheckCommand   `cmd:"" help:"Say what is wrong with a policy file."`
	Show    policyShowCommand    `cmd:"" help:"Print what holds in this folder, and from where."`
	Test    policyTestCommand    `cmd:"" help:"Say whether a host may be reached, and by which rule."`
	Presets policyPresetsCommand `cmd:"" help:"List the presets, and the hosts that they stand for on this machine."`
	Trust   policyTrustCommand   `cmd:"" help:"Let this folder's bailey.yaml widen what you allow, as it is now."`
	Diff    policyDiffCommand    `cmd:"" help:"Print what this folder's bailey.yaml changes."`
}

type policyCheckCommand struct {
	File string `arg:"" optional:"" help:"The file. Default: this folder's bailey.yaml."`
}

// Help is what `bailey policy check --help` says beyond the flags.
func (policyCheckCommand) Help() string {
	return `Prints each fault as FILE:LINE:COLUMN: message, with what to write instead. What a rule says is looked at when the form of the file is right. A rule for a whole host that strangers share, such as a store of files or an edge, is good and gets a warning, with what makes it narrower. So is a project's file that would widen what you allow, with a note where it is not trusted.

Exit codes: 0 when the file is good; 1 when it is not; 125 when it cannot be read.`
}

// Run checks one file.
func (c *policyCheckCommand) Run(a *app) error {
	file, err := c.read(a)
	if e, ok := errors.AsType[*settings.InvalidError](err); ok {
		for _, p := range e.Problems {
			_, _ = fmt.Fprintln(a.stderr, terminal.Sanitize(p.String()))
		}
		return errUnfit
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.stdout, "%s: ok\n", terminal.Sanitize(file.Path))
	warnings, err := file.Warnings()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		_, _ = fmt.Fprintln(a.stderr, terminal.Sanitize(w))
	}
	holds, err := settings.Resolve(settings.Sources{Files: settings.Files{User: file}}, a.place().Mirror)
	if err == nil {
		err = holds.Refusal()
	}
	if err != nil {
		for _, line := range terminal.Lines(err) {
			_, _ = fmt.Fprintf(a.stderr, "note: bailey run refuses it here: %s\n", line)
		}
	}
	a.sayUntrusted(file)
	return nil
}

// sayUntrusted says of a project's file that would widen what is allowed that
// it does not, as long as nobody has agreed to it. A good file is good all the
// same, and what is wrong with the person's own is told elsewhere.
func (a *app) sayUntrusted(file *settings.File) {
	path := file.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.host.Dir, path)
	}
	if filepath.Base(path) != settings.ProjectFile {
		return
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return
	}
	place := a.host.Place(dir)
	s := settings.Sources{Flags: settings.Flags{Net: a.host.Env.Get("BAILEY_NET"), Weak: true}}
	if s.Files, err = settings.Load(place); err != nil || s.Project == nil || s.Trusted {
		return
	}
	e, err := settings.Resolve(s, place.Mirror)
	if err != nil || len(e.Widens) == 0 {
		return
	}
	for _, line := range terminal.Lines(e.Refusal()) {
		_, _ = fmt.Fprintf(a.stderr, "note: what it adds has no effect until it is trusted: %s\n", line)
	}
	if no, ok := errors.AsType[*bailey.Error](e.Refusal()); ok {
		_, _ = fmt.Fprintf(a.stderr, "hint: %s\n", terminal.Sanitize(no.Hint))
	}
	if dir != a.place().Dir {
		_, _ = fmt.Fprintf(a.stderr, "hint: both commands are for the folder that they are run in: cd %s\n", terminal.Sanitize(dir))
	}
}

// read reads the file that is named, or else the project's.
func (c *policyCheckCommand) read(a *app) (*settings.File, error) {
	if c.File != "" {
		return settings.ReadFile(c.File)
	}
	f, err := a.place().ReadProject()
	if err == nil && f == nil {
		return nil, a.noProject()
	}
	return f, err
}

// noProject says that this folder has no policy file.
func (a *app) noProject() error {
	hint := "write one, or change to the folder that has it"
	if name := a.place().Misnamed(); name != "" {
		hint = name + " is not read: give it the name " + settings.ProjectFile
	}
	return bailey.NewError(bailey.NotFound, "this folder has no "+settings.ProjectFile, hint)
}

// place is where the policy files for the current folder are.
func (a *app) place() settings.Place {
	dir := a.host.Dir
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return a.host.Place(dir)
}

// holds says what holds here, or by a file alone.
func (a *app) holds(file string) (settings.Sources, settings.Effective, error) {
	var s settings.Sources
	var err error
	if file != "" {
		s.User, err = settings.ReadFile(file)
	} else {
		s.Files, err = settings.Load(a.place())
		s.Flags = settings.Flags{Net: a.host.Env.Get("BAILEY_NET"), Weak: true} // as bailey run would
	}
	var e settings.Effective
	if err == nil {
		e, err = settings.Resolve(s, a.place().Mirror)
	}
	if invalid, ok := errors.AsType[*settings.InvalidError](err); ok {
		err = invalid.Short(settings.CheckCommand)
	}
	return s, e, err
}

type policyShowCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey policy show --help` says beyond the flags.
func (policyShowCommand) Help() string {
	return `What holds is what bailey run would start with here without flags: your own file, BAILEY_NET, and the project's bailey.yaml, which can only tighten until it is trusted. With --json: an object with mode, dns, ask, allow, deny, presets, files and widens, and refused when bailey run would not start, which says why.`
}

// showSetting is the published form of a setting.
type showSetting struct {
	Value any    `json:"value"`
	From  string `json:"from"`
}

// showRule is the published form of a rule.
type showRule struct {
	Rule      string   `json:"rule"`
	From      string   `json:"from"`
	Preset    string   `json:"preset,omitempty"`
	Why       string   `json:"why,omitempty"`
	Methods   []string `json:"methods,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Inspect   bool     `json:"inspect,omitempty"`
	DNS       []string `json:"dns,omitempty"`
	Git       *showGit `json:"git,omitempty"`
	Service   bool     `json:"host_service,omitempty"`
	OpensTLS  bool     `json:"opens_tls,omitempty"`
}

// showGit is the published form of what a rule says of git.
type showGit struct {
	Repositories []string `json:"repositories"`
	Write        bool     `json:"write"`
}

// showFile is the published form of a file that has a word in what holds.
type showFile struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"` // user or project
	Trusted bool   `json:"trusted"`
}

// showReport is the published form of what holds.
type showReport struct {
	Mode    showSetting   `json:"mode"`
	DNS     showSetting   `json:"dns"`
	Ask     showSetting   `json:"ask"`
	Allow   []showRule    `json:"allow"`
	Deny    []showRule    `json:"deny"`
	Presets []showSetting `json:"presets"`
	Files   []showFile    `json:"files"`
	Widens  []showSetting `json:"widens"` // by a project's file that is not trusted: run is refused
	Refused string        `json:"refused,omitempty"`
}

// Run prints what holds.
func (c *policyShowCommand) Run(a *app) error {
	s, e, err := a.holds("")
	if err != nil {
		return err
	}
	r := report(s, e)
	for _, doubt := range s.Doubts {
		_, _ = fmt.Fprintf(a.stderr, "note: %s\n", terminal.Sanitize(doubt))
	}
	if r.Refused = refusal(e); r.Refused != "" && len(e.Widens) == 0 { // what would widen is a row
		_, _ = fmt.Fprintf(a.stderr, "note: bailey run does not start: %s\n", terminal.Sanitize(r.Refused))
	}
	if c.JSON {
		return printJSON(a.stdout, r)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(what, value, from string) {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", what, terminal.Sanitize(value), terminal.Sanitize(from))
	}
	row("mode", e.Mode.Value.String(), e.Mode.From)
	row("dns", e.DNS.Value.String(), e.DNS.From)
	row("ask", fmt.Sprint(e.Ask.Value), e.Ask.From)
	for _, h := range e.Allow {
		row("allow", ruleText(h), origin(h))
	}
	for _, h := range e.Deny {
		row("deny", ruleText(h), origin(h))
	}
	for _, x := range e.Widens {
		row("refused", x.What, x.From+" (the file is not trusted)")
	}
	for _, f := range r.Files {
		state := ""
		if f.Kind == "project" && !f.Trusted {
			state = "not trusted: it can only tighten"
		} else if f.Kind == "project" {
			state = "trusted as it is"
		}
		row("file", f.Path, state)
	}
	return w.Flush()
}

// refusal is why bailey run would not start, or "".
func refusal(e settings.Effective) string {
	err := e.Refusal()
	if err == nil {
		err = e.Policy().Validate()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// ruleText is a rule, and what it takes to keep it.
func ruleText(h settings.Held) string {
	if h.InsideTLS() {
		return h.Text() + " (TLS is opened)"
	}
	return h.Text()
}

func origin(h settings.Held) string {
	out := h.From
	if h.Preset != "" {
		out += " preset " + h.Preset
	}
	if h.Why != "" {
		out += " (" + h.Why + ")"
	}
	return out
}

func report(s settings.Sources, e settings.Effective) showReport {
	r := showReport{
		Mode: showSetting{e.Mode.Value, e.Mode.From}, DNS: showSetting{e.DNS.Value, e.DNS.From}, Ask: showSetting{e.Ask.Value, e.Ask.From},
		Allow: showRules(e.Allow), Deny: showRules(e.Deny),
		Presets: []showSetting{}, Files: []showFile{}, Widens: []showSetting{},
	}
	for _, p := range e.Presets {
		r.Presets = append(r.Presets, showSetting{p.Value, p.From})
	}
	for _, w := range e.Widens {
		r.Widens = append(r.Widens, showSetting{w.What, w.From})
	}
	if s.User != nil {
		r.Files = append(r.Files, showFile{s.User.Path, "user", true})
	}
	if s.Project != nil {
		r.Files = append(r.Files, showFile{s.Project.Path, "project", s.Trusted})
	}
	return r
}

func showRules(list []settings.Held) []showRule {
	out := []showRule{}
	for _, h := range list {
		r := showRule{Rule: h.String(), From: h.From, Preset: h.Preset, Why: h.Why, Service: h.Service, OpensTLS: h.InsideTLS()}
		if n := h.Narrow; n != nil {
			r.Methods, r.Paths, r.Inspect, r.DNS = n.Methods, n.Paths, n.Inspect, n.Records
			if len(n.Repositories) > 0 {
				r.Git = &showGit{n.Repositories, n.Push}
			}
			for _, p := range n.Addresses {
				r.Addresses = append(r.Addresses, p.String())
			}
		}
		out = append(out, r)
	}
	return out
}

type policyPresetsCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey policy presets --help` says beyond the flags.
func (policyPresetsCommand) Help() string {
	return `The presets of package managers stand for the hosts that the tool's own configuration on this machine names; what a project's folder says is not read. With --json: an array of objects with name, about, from, hosts and error.`
}

// presetRow is the published form of a preset.
type presetRow struct {
	Name  string   `json:"name"`
	About string   `json:"about"`
	From  string   `json:"from,omitempty"` // the tool whose configuration names the hosts
	Hosts []string `json:"hosts"`
	Error string   `json:"error,omitempty"`
}

// Run lists the presets.
func (c *policyPresetsCommand) Run(a *app) error {
	rows := []presetRow{}
	for _, name := range settings.PresetNames() {
		p, err := settings.ReadPreset(name)
		if err != nil {
			return err
		}
		row := presetRow{Name: p.Name, About: p.About, From: p.From, Hosts: []string{}}
		rules, err := settings.Expand(name, "", a.place().Mirror)
		if err != nil {
			row.Error = err.Error()
		}
		for _, h := range rules {
			row.Hosts = append(row.Hosts, h.Text())
		}
		rows = append(rows, row)
	}
	if c.JSON {
		return printJSON(a.stdout, rows)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tWHAT\tHOSTS")
	for _, r := range rows {
		hosts := strings.Join(r.Hosts, ", ")
		if r.Error != "" {
			hosts = "none here"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", r.Name, r.About, terminal.Sanitize(hosts))
	}
	return w.Flush()
}

type policyTrustCommand struct {
	Revoke bool `help:"End the trust instead, also of a file that is gone."`
}

// Help is what `bailey policy trust --help` says beyond the flags.
func (policyTrustCommand) Help() string {
	return `Trust is in the content: while the file holds anything else it is not trusted, whoever made the edit. Look at bailey policy diff before.`
}

// Run trusts the project's file.
func (c *policyTrustCommand) Run(a *app) error {
	if c.Revoke {
		path, err := a.place().Forget()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "not trusted: %s\n", terminal.Sanitize(path))
		return err
	}
	f, err := a.projectFile()
	if err != nil {
		return err
	}
	before, after, err := a.change(f)
	if err != nil {
		return err
	}
	if err := a.place().Trust().Give(f.Path, f.Data); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.stdout, "trusted as it is now: %s\n", terminal.Sanitize(f.Path))
	return a.printChange(before, after)
}

func (a *app) projectFile() (*settings.File, error) {
	f, err := a.place().ReadProject()
	if invalid, ok := errors.AsType[*settings.InvalidError](err); ok {
		return nil, invalid.Short(settings.CheckCommand)
	}
	if err == nil && f == nil {
		return nil, a.noProject()
	}
	return f, err
}

type policyDiffCommand struct{}

// Help is what `bailey policy diff --help` says beyond the flags.
func (policyDiffCommand) Help() string {
	return `Compares what would hold here if bailey.yaml, as it is now, were trusted with what it was when it was trusted last; when it never was, with what holds without it. Mode none of your own file is left out of account, since a flag of bailey run can open that.`
}

// Run prints what the project's file changes.
func (c *policyDiffCommand) Run(a *app) error {
	f, err := a.projectFile()
	if err != nil {
		return err
	}
	before, after, err := a.change(f)
	if err != nil {
		return err
	}
	was := "without " + f.Path
	if last, err := a.place().Trust().Last(f.Path); err != nil {
		return err
	} else if last != nil {
		was = f.Path + ", when it was trusted"
	}
	_, _ = fmt.Fprintf(a.stdout, "--- %s\n+++ %s, as it is now\n", terminal.Sanitize(was), terminal.Sanitize(f.Path))
	return a.printChange(before, after)
}

// change returns what holds without a project's file, or by what of it was
// trusted last, and what would hold if it were trusted now.
func (a *app) change(f *settings.File) (before, after settings.Effective, err error) {
	s, err := settings.Load(a.place())
	if err != nil {
		return before, after, err
	}
	last, err := a.place().Trust().Last(f.Path)
	if err != nil {
		return before, after, err
	}
	if s.User != nil && s.User.Net.Mode != nil && s.User.Net.Mode.Value == bailey.NetNone {
		_, _ = fmt.Fprintf(a.stderr, "note: %s: mode none keeps all of it out, until a flag such as --allow opens the network\n", terminal.Sanitize(s.User.Net.Mode.From))
	}
	return settings.Diff(s.User, last, f, a.place().Mirror)
}

func (a *app) printChange(before, after settings.Effective) error {
	gone, come := settings.Changes(before, after)
	for _, line := range gone {
		_, _ = fmt.Fprintln(a.stdout, terminal.Sanitize("- "+line))
	}
	for _, line := range come {
		_, _ = fmt.Fprintln(a.stdout, terminal.Sanitize("+ "+line))
	}
	if len(gone)+len(come) == 0 {
		_, _ = fmt.Fprintln(a.stdout, "  nothing changes")
	}
	return nil
}
