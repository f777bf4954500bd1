package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/mcp"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/phase"
	"github.com/bailey-dev/bailey/internal/settings"
)

type referenceCommand struct {
	Page string `arg:"" enum:"cli,configuration,schema,models-schema,phase-schema,skill" help:"cli, configuration, schema, models-schema, phase-schema or skill."`
}

// Run prints a page of docs/ as Markdown.
func (c *referenceCommand) Run(a *app) error {
	page := cliPage(a.model.Model)
	switch c.Page {
	case "configuration":
		page = configurationPage(a.model.Model)
	case "schema":
		schema, err := settings.Schema()
		if err != nil {
			return err
		}
		page = string(schema)
	case "skill":
		page = mcp.Skill
	case "phase-schema":
		schema, err := phase.Schema()
		if err != nil {
			return err
		}
		page = string(schema)
	case "models-schema":
		schema, err := models.Schema()
		if err != nil {
			return err
		}
		page = string(schema)
	}
	_, err := fmt.Fprint(a.stdout, page)
	return err
}

// inspectName is the command that has the flags of another.
const inspectName = "inspect"

const generated = "<!-- Written by `make gen`. -->\n\n"

// visible returns the commands that people are told of.
func visible(model *kong.Application) []*kong.Node {
	return slices.DeleteFunc(model.Leaves(true), func(n *kong.Node) bool { return n.Hidden })
}

// commandName is a command without the program's name.
func commandName(n *kong.Node) string {
	name := n.Name
	for p := n.Parent; p != nil && p.Type == kong.CommandNode; p = p.Parent {
		name = p.Name + " " + name
	}
	return name
}

// usage is a command's line, as a person would type it.
func usage(n *kong.Node) string {
	if len(n.Children) > 0 && len(n.Positional) == 0 {
		return "bailey " + commandName(n) + " COMMAND [FLAGS]"
	}
	words := []string{"bailey", commandName(n), "[FLAGS]"}
	for _, p := range n.Positional {
		words = append(words, argumentName(p))
	}
	return strings.Join(words, " ")
}

func argumentName(p *kong.Positional) string {
	name := strings.ToUpper(p.Name)
	switch {
	case p.Enum != "":
		name = strings.ReplaceAll(p.Enum, ",", "|")
	case p.Passthrough:
		return "[--] COMMAND [ARG...]"
	case p.IsSlice():
		name += "..."
	}
	if !p.Required {
		return "[" + name + "]"
	}
	return name
}

// flagName is a flag with the name of its value.
func flagName(f *kong.Flag) string {
	name := "--" + f.Name
	if f.Short != 0 {
		name = "-" + string(f.Short) + ", " + name
	}
	if !f.IsBool() {
		name += " " + f.PlaceHolder
	}
	return name
}

// flagGroup is the flags of a command that stand under one heading.
type flagGroup struct {
	title string // empty: those of no group
	flags []*kong.Flag
}

func flagGroups(n *kong.Node) []flagGroup {
	var groups []flagGroup
	for _, f := range n.Flags {
		if f.Hidden || f.Name == "help" {
			continue
		}
		title := ""
		if f.Group != nil {
			title = f.Group.Title
		}
		i := slices.IndexFunc(groups, func(g flagGroup) bool { return g.title == title })
		if i < 0 {
			i, groups = len(groups), append(groups, flagGroup{title: title})
		}
		groups[i].flags = append(groups[i].flags, f)
	}
	return groups
}

// block is a paragraph of a command's help, or lines to be shown as they are.
type block struct {
	verbatim bool
	text     string
}

// blocks takes a help text apart: what is indented is verbatim.
func blocks(text string) []block {
	var out []block
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		rest, indented := strings.CutPrefix(line, "  ")
		last := len(out) - 1
		switch {
		case line == "":
			out = append(out, block{})
		case last >= 0 && out[last].verbatim == indented && out[last].text != "":
			out[last].text += "\n" + rest
		default:
			out = append(out, block{indented, rest})
		}
	}
	return slices.DeleteFunc(out, func(b block) bool { return b.text == "" })
}

func cliPage(model *kong.Application) string {
	var out strings.Builder
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(&out, format, args...) }
	p("# Command line\n\n%s", generated)
	p("`bailey COMMAND --help` says the same in a terminal. Settings that a variable of the environment may give as well are in [configuration](configuration.md); what `--json` prints is in [events](events.md).\n\n")
	p("| command | |\n|---|---|\n")
	for _, n := range visible(model) {
		p("| [`bailey %s`](#bailey-%s) | %s |\n", commandName(n), strings.ReplaceAll(commandName(n), " ", "-"), n.Help)
	}
	for _, n := range visible(model) {
		p("\n## bailey %s\n\n```\n%s\n```\n\n%s\n", commandName(n), usage(n), n.Help)
		for _, b := range blocks(n.Detail) {
			if b.verbatim {
				p("\n```\n%s\n```\n", b.text)
			} else {
				p("\n%s\n", escapeMarkdown(b.text))
			}
		}
		for _, a := range n.Positional {
			p("\n`%s`: %s\n", argumentName(a), escapeMarkdown(a.Help))
		}
		if commandName(n) == inspectName {
			p("\nIts flags are those of [bailey run](#bailey-run).\n")
			continue
		}
		for _, g := range flagGroups(n) {
			p("\n%s", flagTable(g))
		}
	}
	return out.String()
}

func flagTable(g flagGroup) string {
	var out strings.Builder
	title := g.title
	if title == "" {
		title = "flag"
	}
	_, _ = fmt.Fprintf(&out, "| %s | |\n|---|---|\n", title)
	for _, f := range g.flags {
		_, _ = fmt.Fprintf(&out, "| `%s` | %s |\n", flagName(f), escapeMarkdown(f.Help))
	}
	return out.String()
}

// escapeMarkdown keeps the letters of a help text from being read as marks.
func escapeMarkdown(s string) string {
	return strings.NewReplacer("*", `\*`, "|", `\|`, "<", "&lt;", "_", `\_`).Replace(s)
}

func configurationPage(model *kong.Application) string {
	var out strings.Builder
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(&out, format, args...) }
	p("# Configuration\n\n%s", generated)
	p("What a sandbox may reach can stand in files, see [policy](policy.md). Everything else is set by flags: a flag wins over its variable of the environment, and a variable over the default. A value that makes no sense is an error, wherever it stands.\n")
	p("\n## Variables that stand for flags\n\n| variable | flag | |\n|---|---|---|\n")
	for _, n := range visible(model) {
		if commandName(n) == inspectName {
			continue // they are those of a run
		}
		for _, f := range n.Flags {
			for _, v := range f.Envs {
				p("| `%s` | `bailey %s --%s %s` | %s |\n", v, commandName(n), f.Name, f.PlaceHolder, escapeMarkdown(f.Help))
			}
		}
	}
	p("\n## Other variables\n\n| variable | |\n|---|---|\n")
	for _, v := range config.Variables() {
		p("| `%s` | %s |\n", v.Name, v.Effect)
	}
	p("\nNothing of the environment enters a sandbox but what `--env` names, `TERM`, `COLORTERM`, `NO_COLOR`, the language and the time zone. Inside, `BAILEY_SANDBOX` holds the sandbox's name, and where there is a network the usual variables name the [proxy inside](policy.md#the-proxy-inside).\n")
	p("\n## Folders\n\nNone of them is visible in a sandbox, and no workspace may hold one or lie in one.\n\n| folder | where | without the variable |\n|---|---|---|\n")
	for _, f := range config.Folders() {
		p("| %s | `$%s/bailey` | `%s` |\n", f.Use, f.Variable, f.Fallback)
	}
	p("\n## Limits\n\nWhat keeps each, and what happens when it is reached, is in [limits](limits.md).\n\n| limit | default | least |\n|---|---|---|\n")
	for _, l := range config.LimitTable() {
		p("| `--%s` | %s | %s |\n", l.Flag, l.Default, l.Least)
	}
	p("\nSizes are a number with K, M, G or T (powers of 1024), such as `512M`; durations a number with s, m or h, such as `90s` or `30m`.\n")
	return out.String()
}
