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
		p("%s", manCommandSection(n))
	}
	p(".SH ENVIRONMENT\n")
	for _, n := range visible(model) {
		for _, f := range n.Flags {
			for _, v := range f.Envs {
				p("%s", manItem("B", v, "Stands for bailey "+commandName(n)+" --"+f.Name+"."))
			}
		}
	}
	for _, v := range config.Variables() {
		p("%s", manItem("B", v.Name, v.Effect))
	}
	p(".SH FILES\n")
	for _, f := range config.Folders() {
		p("%s", manItem("I", f.Fallback, f.Use+"."))
	}
	return out.String()
}

func manCommandSection(n *kong.Node) string {
	var out strings.Builder
	_, _ = fmt.Fprintf(&out, ".SH BAILEY %s\n%s\n%s", strings.ToUpper(commandName(n)), roff(n.Help), roffBlocks(n.Detail))
	for _, g := range flagGroups(n) {
		if g.title != "" {
			_, _ = fmt.Fprintf(&out, ".SS %s\n", roff(g.title))
		}
		for _, f := range g.flags {
			out.WriteString(manItem("B", flagName(f), f.Help))
		}
	}
	return out.String()
}

// manItem is one entry of a list, its name in the font of a macro.
func manItem(macro, name, text string) string {
	return fmt.Sprintf(".TP\n.%s %s\n%s\n", macro, roff(name), roff(text))
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
