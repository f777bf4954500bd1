package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/version"
)

type manCommand struct{}

// Run prints the manual page.
func (c *manCommand) Run(a *app) error {
	_, err := fmt.Fprint(a.stdout, manPage(a.model.Model))
	return err
}

// manPage writes the manual page in the man macros (man(7)). It has no date,
// so that the same program prints the same bytes.
func manPage(model *kong.Application) string {
	var out strings.Builder
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(&out, format, args...) }
	p(".TH BAILEY 1 \"\" \"bailey %s\" \"User Commands\"\n", roff(version.Number))
	p(".SH NAME\nbailey \\- run untrusted AI agents in a sandbox with one guarded way out\n.SH SYNOPSIS\n")
	for i, n := range visible(model) {
		if i > 0 {
			p(".br\n")
		}
		p(".B %s\n", roff(usage(n)))
	}
	p(".SH DESCRIPTION\n%s", roffBlocks(model.Help))
	for _, n := range visible(model) {
		p(".SH BAILEY %s\n%s\n%s", strings.ToUpper(n.Name), roff(n.Help), roffBlocks(n.Detail))
		for _, g := range flagGroups(n) {
			if g.title != "" {
				p(".SS %s\n", roff(g.title))
			}
			for _, f := range g.flags {
				p(".TP\n.B %s\n%s\n", roff(flagName(f)), roff(f.Help))
			}
		}
	}
	p(".SH ENVIRONMENT\n")
	for _, n := range visible(model) {
		for _, f := range n.Flags {
			for _, v := range f.Envs {
				p(".TP\n.B %s\nStands for %s.\n", roff(v), roff("bailey "+n.Name+" --"+f.Name))
			}
		}
	}
	for _, v := range config.Variables() {
		p(".TP\n.B %s\n%s\n", roff(v.Name), roff(v.Effect))
	}
	p(".SH FILES\n")
	for _, f := range config.Folders() {
		p(".TP\n.I %s\n%s.\n", roff(f.Fallback), roff(f.Use))
	}
	return out.String()
}

func roffBlocks(text string) string {
	var out strings.Builder
	for _, b := range blocks(text) {
		if b.verbatim {
			_, _ = fmt.Fprintf(&out, ".PP\n.nf\n.RS 4\n%s\n.RE\n.fi\n", roff(b.text))
		} else {
			_, _ = fmt.Fprintf(&out, ".PP\n%s\n", roff(b.text))
		}
	}
	return out.String()
}

// roff writes text so that the formatter reads none of it as a command.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "").Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
