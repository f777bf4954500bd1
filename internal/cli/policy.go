package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
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
	File string `arg:"" help:"The file."`
}

// Help is what `bailey policy check --help` says beyond the flags.
func (policyCheckCommand) Help() string {
	return `Prints each fault as FILE:LINE:COLUMN: message, with what to write instead. What a rule says is looked at when the form of the file is right.

Exit codes: 0 when the file is good; 1 when it is not; 125 when it cannot be read.`
}

// Run checks one file.
func (c *policyCheckCommand) Run(a *app) error {
	file, err := settings.ReadFile(c.File)
	if e, ok := errors.AsType[*settings.InvalidError](err); ok {
		for _, p := range e.Problems {
			_, _ = fmt.Fprintln(a.stderr, terminal.Sanitize(p.String()))
		}
		return errUnfit
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.stdout, "%s: ok\n", terminal.Sanitize(c.File))
	holds, err := settings.Resolve(settings.Sources{Files: settings.Files{User: file}}, a.place().Mirror)
	if err == nil {
		err = holds.Refusal()
	}
	if err != nil {
		_, _ = fmt.Fprintf(a.stderr, "note: bailey run refuses it here: %s\n", terminal.Sanitize(err.Error()))
	}
	return nil
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
		err = invalid.Short()
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
	Service   bool     `json:"host_service,omitempty"`
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
		row("allow", h.Text(), origin(h))
	}
	for _, h := range e.Deny {
		row("deny", h.Text(), origin(h))
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
		r := showRule{Rule: h.String(), From: h.From, Preset: h.Preset, Why: h.Why, Service: h.Service}
		if n := h.Narrow; n != nil {
			r.Methods, r.Paths, r.Inspect, r.DNS = n.Methods, n.Paths, n.Inspect, n.Records
			for _, p := range n.Addresses {
				r.Addresses = append(r.Addresses, p.String())
			}
		}
		out = append(out, r)
	}
	return out
}

type policyTestCommand struct {
	Host   string `arg:"" placeholder:"HOST[:PORT]" help:"A name or an address; the port is 443 unless it is written."`
	Method string `placeholder:"METHOD" default:"GET" help:"Of the request that is asked about. Default: GET."`
	Path   string `placeholder:"PATH" default:"/" help:"Of the request that is asked about. Default: /."`
	Policy text   `placeholder:"FILE" help:"Ask this file alone, and not what holds here."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Help is what `bailey policy test --help` says beyond the flags.
func (policyTestCommand) Help() string {
	return `Answers by what holds here. Nothing is looked up and nothing is started: a name that is allowed can still be refused when it turns out to lie at an address that no rule names. With --json: an object with verdict (allow, deny or ask), rule, reason, detail, from, host, port, method and path, and refused when bailey run would not start by this policy, which says why.

Examples:
  bailey policy test api.example.com
  bailey policy test db.example.com:5432 --json
  bailey policy test api.example.com:80 --method POST --path /v1/models

Exit codes: 0 whatever the verdict; 125 when there is none.`
}

// testReport is the published form of an answer.
type testReport struct {
	Verdict string `json:"verdict"`
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Detail  string `json:"detail"`
	From    string `json:"from"`
	Host    string `json:"host"`
	Port    uint16 `json:"port"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Refused string `json:"refused,omitempty"`
}

// Run answers one question.
func (c *policyTestCommand) Run(a *app) error {
	ask, err := c.request()
	if err != nil {
		return err
	}
	r, err := a.answer(ask, string(c.Policy))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, r)
	}
	_, err = fmt.Fprintln(a.stdout, terminal.Sanitize(r.line()))
	return err
}

// line is the answer for a person.
func (r testReport) line() string {
	line := fmt.Sprintf("%s %s:%d (%s): %s", r.Verdict, bracketed(r.Host), r.Port, r.Reason, r.Detail)
	if r.From != "" {
		line += " [" + r.From + "]"
	}
	return line
}

// answer answers a question by what holds here, or by a file alone. Where
// nothing would start by it, it says so.
func (a *app) answer(ask policy.Request, file string) (testReport, error) {
	_, e, err := a.holds(file)
	if err != nil {
		return testReport{}, err
	}
	refused := refusal(e)
	if refused != "" {
		without := ""
		if len(e.Widens) > 0 {
			without = "this is without what would widen; "
		}
		_, _ = fmt.Fprintf(a.stderr, "note: %sbailey run does not start: %s\n", without, terminal.Sanitize(refused))
	}
	d := outOfReach(ask, policy.Decide(e.Policy(), ask))
	r := reportOf(ask, d, e.Mode.Value)
	r.From, r.Refused = decider(e, ask, d), refused
	return r, nil
}

// reportOf is the published form of a decision about a question.
func reportOf(ask policy.Request, d bailey.Decision, mode bailey.NetMode) testReport {
	r := testReport{
		Verdict: d.Verdict.String(), Rule: d.Rule, Reason: d.Reason, Detail: d.Detail,
		Host: ask.Host, Port: ask.Port, Method: ask.Method, Path: ask.Path,
	}
	if ask.Host == "" {
		r.Host = ask.Addr.String()
	}
	if d.Verdict == bailey.Allow {
		r.Reason, r.Detail = policy.ReasonAllowedByRule, fmt.Sprintf("the rule %s allows it", d.Rule)
		if d.Rule == "" {
			r.Reason, r.Detail = policy.ReasonAllowedByMode, fmt.Sprintf("mode %s allows it", mode)
		}
	}
	return r
}

// outOfReach refuses what the rules would allow and no connection comes to.
func outOfReach(ask policy.Request, d bailey.Decision) bailey.Decision {
	const dnsPort = 53
	detail := ""
	switch {
	case d.Verdict == bailey.Deny:
	case ask.Host == "" && ask.Addr.Is6():
		detail = "no sandbox reaches an IPv6 address yet: bailey dials by IPv4 alone"
	case ask.Port == dnsPort:
		detail = "whatever goes to port 53 is answered by bailey itself"
	}
	if detail == "" {
		return d
	}
	return bailey.Decision{Verdict: bailey.Deny, Rule: "", Reason: policy.ReasonNotAllowed, Detail: detail}
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// request reads the question.
func (c *policyTestCommand) request() (policy.Request, error) {
	if !strings.HasPrefix(c.Path, "/") {
		return policy.Request{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("--path: %q does not begin with a slash", c.Path), "write --path /v1/models")
	}
	if strings.Contains(c.Host, "/") {
		return policy.Request{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not a host name", c.Host), "write the host alone, such as example.com:443, and the path with --path")
	}
	if err := policy.CheckMethod(c.Method); err != nil {
		return policy.Request{}, bailey.WrapError(bailey.Invalid, "--method", err, "write it in capitals, such as POST")
	}
	ask, _, err := question(c.Host)
	ask.Method, ask.Path = c.Method, c.Path
	return ask, err
}

// question reads HOST or HOST:PORT as a connection that is asked about: to 443
// where no port is written, which it reports.
func question(text string) (ask policy.Request, written bool, err error) {
	ask = policy.Request{Protocol: policy.ProtocolTLS, Host: text, Port: 443}
	if addr, err := netip.ParseAddr(text); err == nil {
		ask.Host, ask.Addr = "", addr
		return ask, false, nil
	}
	host, port, found := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port, found = text[:i], text[i+1:], true
	}
	if found {
		n, err := policy.CheckPort(port)
		if err != nil {
			return ask, false, err
		}
		ask.Port = n
	}
	ask.Host = host
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		ask.Host, ask.Addr = "", addr
		return ask, found, nil
	}
	name, err := policy.OperatorName(host)
	if err != nil {
		return ask, false, bailey.WrapError(bailey.Invalid, fmt.Sprintf("%q", text), err, "write a host such as example.com, or example.com:8443")
	}
	ask.Host = name
	if ask.Port == 80 {
		ask.Protocol = policy.ProtocolHTTP
	}
	return ask, found, nil
}

// decider finds where the rule that decided comes from.
func decider(e settings.Effective, ask policy.Request, d bailey.Decision) string {
	p := e.Policy()
	list := e.Deny
	if d.Verdict == bailey.Allow {
		list = e.Allow
	}
	if d.Rule == "" {
		return ""
	}
	for _, h := range list {
		if h.String() != d.Rule {
			continue
		}
		alone := policy.Policy{Mode: p.Mode, Deny: []policy.Rule{h.Rule}, Allow: p.Allow}
		if d.Verdict == bailey.Allow {
			alone = policy.Policy{Mode: bailey.NetAllow, Allow: []policy.Rule{h.Rule}}
		}
		if got := policy.Decide(alone, ask); got.Verdict == d.Verdict && got.Rule == d.Rule {
			return h.From
		}
	}
	return ""
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
		return nil, invalid.Short()
	}
	if err == nil && f == nil {
		return nil, bailey.NewError(bailey.NotFound, "this folder has no "+settings.ProjectFile, "write one, or change to the folder that has it")
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
