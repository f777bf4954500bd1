package cli

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/harness"
)

// familiar turns what people type of habit into what it means here.
func familiar(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "--version" || args[0] == "-v" || args[0] == "-V":
		return append([]string{"version"}, args[1:]...)
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// printHelp is the parser's help, under our own line of usage: a command's
// flags stand before what it runs.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if n := ctx.Selected(); n != nil {
		if _, err := fmt.Fprintf(ctx.Stdout, "Usage: %s\n", usage(n)); err != nil {
			return err
		}
		options.NoAppSummary = true
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// usageError makes the parser's words one of ours.
func usageError(err error, args []string, model *kong.Application) error {
	if e, ok := errorOf(err); ok {
		return &bailey.Error{Kind: bailey.Invalid, Message: flagOf(err.Error(), e) + e.Message, Hint: e.Hint, Cause: e.Cause}
	}
	text := err.Error()
	at, rest := reached(args, model)
	for _, explain := range []func() error{
		func() error { return variableError(text, model) },
		func() error { return givenError(text, at) },
		func() error { return habitError(text, at) },
		func() error { return valueError(text) },
		func() error { return enumError(text, at) },
		func() error { return groupError(text, at, rest) },
		func() error { return strayError(text, at) },
		func() error { return missingError(text, at) },
		func() error { return firstWordError(text, args, model) },
	} {
		if e := explain(); e != nil {
			return e
		}
	}
	return bailey.NewError(bailey.Invalid, text, helpOf(at))
}

// variableError is about a value that the environment gives: the parser loses
// our own words about it.
func variableError(text string, model *kong.Application) error {
	_, rest, _ := strings.Cut(text, "(from envar ")
	name, quoted, found := strings.Cut(strings.TrimSuffix(rest, ")"), "=")
	if !found {
		return nil
	}
	for _, n := range model.Children {
		for _, f := range n.Flags {
			if !slices.Contains(f.Envs, name) {
				continue
			}
			given, err := strconv.Unquote(quoted)
			value, ok := reflect.TypeAssert[encoding.TextUnmarshaler](f.Target.Addr())
			if err == nil && ok {
				err = value.UnmarshalText([]byte(given))
			}
			if e, ok := errorOf(err); ok {
				return bailey.NewError(bailey.Invalid, name+" in the environment: "+e.Message, e.Hint)
			}
		}
	}
	return nil
}

// enumError is about a word that is none of a few.
func enumError(text string, at *kong.Node) error {
	what, rest, ok := strings.Cut(text, " must be one of ")
	list, got, found := strings.Cut(rest, " but got ")
	if !ok || !found || inSecret(at) {
		return nil
	}
	if name, argument := strings.CutPrefix(what, "<"); argument {
		what = strings.ToUpper(strings.TrimSuffix(name, ">"))
	}
	list = strings.ReplaceAll(strings.ReplaceAll(list, `"`, ""), ",", ", ")
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: %s is none of %s", what, got, list), usage(at)+"; "+helpOf(at)+" says more")
}

// valueError is about a flag's value that is not there, is no number, or reads
// as a flag.
func valueError(text string) error {
	flag, rest, ok := strings.Cut(text, ": expected ")
	if !ok || !strings.HasPrefix(flag, "--") {
		return nil
	}
	_, got, ok := strings.Cut(rest, ` but got "`)
	if !ok {
		return nil
	}
	wanted := "VALUE"
	if flag == "--secret" { // nobody is to write one there
		wanted = "NAME[=VAR]"
	}
	if value, _, _ := strings.Cut(got, `"`); strings.HasPrefix(value, "-") && value != "--" {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: %s is no value for it", flag, value),
			"write "+flag+"="+wanted+"; a value that begins with a hyphen needs the equals sign")
	}
	if strings.HasPrefix(rest, "a valid ") || strings.HasPrefix(rest, "a float ") { // the parser's, of a value that is there
		value, _, _ := strings.Cut(got, `"`)
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: %q is no number that it takes", flag, value), "write "+flag+"=N")
	}
	return bailey.NewError(bailey.Invalid, flag+": its value is missing", "write "+flag+"="+wanted)
}

// firstWordError is about a line that begins with no command of ours.
func firstWordError(text string, args []string, model *kong.Application) error {
	if len(args) == 0 {
		return nil
	}
	word, _, _ := strings.Cut(args[0], "=")
	if !strings.HasPrefix(text, "unexpected argument "+word) && !strings.HasPrefix(text, "unknown flag "+word) {
		return nil
	}
	if harness.Known(args[0]) {
		return bailey.NewError(bailey.Invalid, args[0]+" is an agent, and no command of bailey's", "bailey run "+args[0])
	}
	for _, n := range visible(model) {
		if slices.Contains(args[1:], n.Name) && strings.HasPrefix(word, "-") && findFlag(n, word) != nil {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("%s stands before %s, whose flag it is", word, n.Name), fmt.Sprintf("bailey %s %s …", n.Name, args[0]))
		}
	}
	if strings.HasPrefix(args[0], "-") {
		return nil
	}
	hint := "bailey --help lists the commands; a program is run with bailey run -- COMMAND"
	if near := meant(word, commandsOf(model.Node)); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near) + hint
	}
	text, _, _ = strings.Cut(text, ", did you mean ")
	return bailey.NewError(bailey.Invalid, text, hint)
}
