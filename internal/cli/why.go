package cli

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type netWhyCommand struct {
	Host string `arg:"" placeholder:"HOST[:PORT]" help:"A name or an address; the port is 443 unless it is written."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Help is what `bailey net why --help` says beyond the flags.
func (netWhyCommand) Help() string {
	return `Says what would be decided now by the policy that holds here, and what would allow it: a flag, or a line in a file. Nothing is looked up. With --json: an object with decision, as of bailey policy test, and allow, an object with flag, yaml, file and note, absent where nothing is to be done.

Exit codes: 0 whatever the verdict; 125 when there is none.`
}

// whyReport is the published form of an answer.
type whyReport struct {
	Decision testReport `json:"decision"`
	Allow    *mend      `json:"allow,omitempty"`
}

// mend is what would allow what is refused. Without a flag, nothing but what
// the note says would.
type mend struct {
	Flag string `json:"flag"` // of bailey run
	YAML string `json:"yaml"` // in a policy file
	File string `json:"file"` // the user's own
	Note string `json:"note"`
}

// Run answers one question.
func (c *netWhyCommand) Run(a *app) error {
	ask, written, err := question(c.Host)
	if err != nil {
		return err
	}
	ask.Method, ask.Path = "GET", "/"
	r := whyReport{}
	if r.Decision, err = a.answer(ask, ""); err != nil {
		return err
	}
	r.Allow = a.mendOf(r.Decision, written)
	if c.JSON {
		return printJSON(a.stdout, r)
	}
	return r.print(a.stdout)
}

// print is the answer for a person.
func (r whyReport) print(w io.Writer) error {
	lines := []string{r.Decision.line()}
	if m := r.Allow; m != nil {
		if m.Note != "" {
			lines = append(lines, m.Note)
		}
		if m.Flag != "" {
			lines = append(lines, "to allow it in a run:    bailey run "+m.Flag+" …",
				fmt.Sprintf("to allow it in each run: in %s  %s", m.File, m.YAML))
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, terminal.Sanitize(line)); err != nil {
			return err
		}
	}
	return nil
}

// mendOf finds what would allow what a report refuses. The flag has a port
// where one was written.
func (a *app) mendOf(r testReport, written bool) *mend {
	if r.Verdict == bailey.Allow.String() {
		return nil
	}
	m := &mend{Note: policy.Mend(r.Reason)}
	if r.From != "" {
		m.Note += ": " + r.From
	}
	ev := bailey.Event{Type: bailey.EventNetDecision, Verdict: r.Verdict, Reason: r.Reason, Protocol: policy.ProtocolTLS, Host: r.Host}
	if addr, err := netip.ParseAddr(r.Host); err == nil {
		ev.Host, ev.Address, ev.Protocol = "", addr.String(), policy.ProtocolTCP
	}
	if written {
		ev.Port = r.Port
	}
	if rule, ok := policy.AllowFlag(ev); ok {
		m.Flag, m.YAML, m.File = "--allow "+rule, settings.AllowLine(rule), a.place().UserFile()
	}
	return m
}
