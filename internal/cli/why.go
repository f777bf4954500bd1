package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/netlog"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type netWhyCommand struct {
	Host    string `arg:"" placeholder:"HOST[:PORT]" help:"A name or an address. Without a port: those that were asked for, else 443."`
	Sandbox text   `placeholder:"NAME" help:"Ask this running sandbox, and not what holds here."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// Help is what `bailey net why --help` says beyond the flags.
func (netWhyCommand) Help() string {
	return `Says what would be decided now, by what bailey run would start with here or by a sandbox that runs; what was decided last about that host; and what would allow it, as a flag and as a line of a policy file. Nothing is looked up. Of the name of a model of models.yaml it says so, how a sandbox reaches the model, and where its provider is. With --json: an object with model (name, provider, host, port, file, reach; only of a model's name), decisions, an array of objects as of bailey policy test, each with allow (flag, yaml, file, note; first, what has to be done before; secrets of the vault that are for the host) where it is refused; and last, the latest records (docs/events.md), the newest first.

Examples:
  bailey net why registry.example.com
  bailey net why db.example.com:5432 --json

Exit codes: 0 whatever the verdict; 125 when there is none.`
}

// Bounds of what is shown of the record.
const (
	mostLast  = 5
	mostPorts = 4
)

// whyReport is the published form of an answer.
type whyReport struct {
	Model     *whyModel       `json:"model,omitempty"` // it is, or is also, the name of one
	Decisions []whyDecision   `json:"decisions"`
	Last      []netlog.Record `json:"last"` // the newest first
}

// whyDecision is what would be decided now about one port.
type whyDecision struct {
	testReport
	Allow *mend `json:"allow,omitempty"`
}

// mend is what would allow what is, or was last, refused. What is empty would
// not.
type mend struct {
	First string `json:"first,omitempty"` // what has to be done before the flag helps, or alone does
	Flag  string `json:"flag"`            // of bailey run
	YAML  string `json:"yaml"`            // the whole of a policy file
	File  string `json:"file"`            // the user's own
	Note  string `json:"note"`
	// Secrets are those of the vault that are for the host, each as a flag of
	// bailey run that allows it and lends the value.
	Secrets []string `json:"secrets,omitempty"`

	project bool // the YAML does in the project's file too
}

// Run answers one question.
func (c *netWhyCommand) Run(a *app) error {
	r := whyReport{Decisions: []whyDecision{}, Last: []netlog.Record{}, Model: a.modelNamed(c.Host)}
	ask, written, err := question(c.Host)
	if r.Model != nil && (err != nil || !policy.Nameable(ask.Host)) {
		return c.show(a, r) // and nothing else has that name
	}
	if err != nil {
		return err
	}
	if r.Model != nil {
		r.Model.both = true
	}
	ask.Method, ask.Path = "GET", "/"
	if r.Last, err = c.last(a, ask, written); err != nil {
		return err
	}
	for _, port := range portsOf(ask, written, r.Last) {
		d, s, err := c.decide(a, ask, port)
		if err != nil {
			return err
		}
		tried := slices.ContainsFunc(r.Last, func(rec netlog.Record) bool { return rec.Port == port })
		m := a.mendOf(s, ask, d, asking{written || tried, r.Last})
		r.Decisions = append(r.Decisions, whyDecision{d, a.withSecrets(d, m)})
	}
	r.together()
	return c.show(a, r)
}

func (c *netWhyCommand) show(a *app, r whyReport) error {
	if c.JSON {
		return printJSON(a.stdout, r)
	}
	return r.print(a.stdout)
}

// together proposes what allows all that was asked for of a host in the form of
// the end of a run: both ports of the web are a rule without a port.
func (r *whyReport) together() {
	var mends []*mend
	var values []string
	for _, d := range r.Decisions {
		if d.Allow != nil && d.Allow.First == "" && strings.HasPrefix(d.Allow.Flag, allowFlag) {
			mends, values = append(mends, d.Allow), append(values, strings.TrimPrefix(d.Allow.Flag, allowFlag))
		}
	}
	if len(mends) < 2 {
		return
	}
	host := r.Decisions[0].Host
	short := policy.Together(host, values)
	for i, m := range mends {
		if slices.Contains(short, values[i]) {
			continue
		}
		m.Flag = allowFlag + host
		if m.YAML != "" {
			m.YAML = settings.AllowLine(policy.Entry(host))
		}
	}
}

const allowFlag = "--allow "

// decide asks about one port. The sources are those of what would start here.
func (c *netWhyCommand) decide(a *app, ask policy.Request, port uint16) (testReport, *settings.Sources, error) {
	ask.Port = port
	switch port {
	case 80:
		ask.Protocol = policy.ProtocolHTTP
	case 443:
		ask.Protocol = policy.ProtocolTLS
	}
	if c.Sandbox == "" {
		r, s, err := a.answer(ask, "")
		return r, &s, err
	}
	d, err := control.AskWhy(a.ctx, a.host.Dirs.Runtime, string(c.Sandbox), control.Question{
		Protocol: ask.Protocol, Host: ask.Host, Addr: ask.Addr, Port: ask.Port, Method: ask.Method, Path: ask.Path,
	})
	if err != nil {
		return testReport{}, nil, a.over(string(c.Sandbox), err)
	}
	verdict := bailey.Deny
	switch d.Verdict {
	case bailey.Allow.String():
		verdict = bailey.Allow
	case bailey.Ask.String():
		verdict = bailey.Ask
	}
	return reportOf(ask, outOfReach(ask, bailey.Decision{Verdict: verdict, Rule: d.Rule, Reason: d.Reason, Detail: d.Detail}), d.Mode), nil, nil
}

// last returns what was decided last about a host.
func (c *netWhyCommand) last(a *app, ask policy.Request, written bool) ([]netlog.Record, error) {
	r, err := netlog.OpenReader(a.host.Dirs.State, a.host.UID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	out := []netlog.Record{}
	err = r.Read(time.Time{}, func(rec netlog.Record) error {
		same := rec.Name == ask.Host && ask.Host != "" || ask.Host == "" && rec.Address == ask.Addr.String()
		here := c.Sandbox == "" || rec.Sandbox == string(c.Sandbox)
		if !same || !here || rec.Verdict == "" || written && rec.Port != ask.Port && rec.Port != 0 {
			return nil
		}
		if endsOne(rec) { // then that it was open once says nothing more
			out = slices.DeleteFunc(out, func(o netlog.Record) bool { return o.Open && connectionOf(o) == connectionOf(rec) })
		}
		if out = append(out, rec); len(out) > mostLast {
			out = out[1:]
		}
		return nil
	})
	slices.Reverse(out)
	return out, err
}

// portsOf returns the ports to answer for.
func portsOf(ask policy.Request, written bool, last []netlog.Record) []uint16 {
	var ports []uint16
	for _, r := range last {
		if !written && r.Port != 0 && !slices.Contains(ports, r.Port) && len(ports) < mostPorts {
			ports = append(ports, r.Port)
		}
	}
	if len(ports) == 0 {
		return []uint16{ask.Port}
	}
	return ports
}

// withSecrets adds the secrets that are for a host which is not allowed. Where
// a rule denies it, or this sandbox runs already, a flag would not help.
func (a *app) withSecrets(r testReport, m *mend) *mend {
	switch {
	case r.Verdict == bailey.Allow.String():
		return m
	case r.Reason != policy.ReasonNotAllowed && r.Reason != policy.ReasonModeNone && r.Reason != policy.ReasonPortNotAllowed:
		return m
	}
	var flags []string
	for _, d := range a.keptSecrets() {
		if slices.ContainsFunc(d.Rules, func(rule secret.Rule) bool { return rule.Of(r.Host, r.Port) }) {
			flags = append(flags, "--secret "+d.Name)
		}
	}
	if m != nil && m.Flag != "" { // else its host would stay refused
		m.Secrets = flags
	}
	return m
}

// beyondRules reports whether a refusal, or a failure, is none of what a rule
// for the host decides: it can happen to what the rules allow.
func beyondRules(reason string) bool {
	switch reason {
	case "", policy.ReasonNotAllowed, policy.ReasonPortNotAllowed, policy.ReasonModeNone, policy.ReasonDeniedByRule:
		return false
	}
	return true
}

// print is the answer for a person.
func (r whyReport) print(w io.Writer) error {
	lines := r.Model.lines()
	for _, d := range r.Decisions {
		lines = append(lines, "now: "+d.line())
	}
	for _, rec := range r.Last {
		line := "was: " + shower{}.text(rec)
		if rec.Message != "" && rec.Name != "" {
			line += "  " + rec.Message
		}
		lines = append(lines, line)
	}
	for _, line := range r.proposals() {
		if !slices.Contains(lines, line) { // one rule can do for two ports
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, terminal.Sanitize(line)); err != nil {
			return err
		}
	}
	return nil
}

// proposals are the lines about how to allow what is refused.
func (r whyReport) proposals() (lines []string) {
	for _, d := range r.Decisions {
		if d.Allow != nil && strings.HasSuffix(d.Detail, d.Allow.Note) { // it has been said
			d.Allow.Note = ""
		}
		lines = append(lines, d.Allow.lines(d.Port)...)
	}
	return lines
}

func (m *mend) lines(port uint16) []string {
	if m == nil {
		return nil
	}
	var lines []string
	if m.Note != "" {
		lines = append(lines, fmt.Sprintf("port %d: %s", port, m.Note))
	}
	if m.First != "" {
		lines = append(lines, "to allow it, first:       "+m.First+" (bailey policy diff shows what it agrees to)")
	}
	if m.Flag != "" {
		lines = append(lines, "to allow it in a run:     bailey run "+m.Flag+" …")
	}
	for _, flag := range m.Secrets {
		lines = append(lines, fmt.Sprintf("to lend it a secret too:  bailey run %s …", flag))
	}
	if m.YAML == "" {
		return lines
	}
	where := m.File
	if m.project {
		where += ", or in " + settings.ProjectFile + " with bailey policy trust"
	}
	return append(lines, fmt.Sprintf("to allow it in every run: in %s:  %s", where, m.YAML))
}
