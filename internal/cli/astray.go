package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/spell"
)

// reached is the command, or the group of commands, that the words of a command
// line lead to, and the words behind it.
func reached(args []string, model *kong.Application) (at *kong.Node, rest []string) {
	at = model.Node
	for i, word := range args {
		next := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Type == kong.CommandNode && n.Name == word })
		if next < 0 {
			return at, args[i:]
		}
		at = at.Children[next]
	}
	return at, nil
}

// commandsOf are the commands of a group that people are told of.
func commandsOf(group *kong.Node) []string {
	var names []string
	for _, n := range group.Children {
		if n.Type == kong.CommandNode && !n.Hidden {
			names = append(names, n.Name)
		}
	}
	return names
}

// helpOf says where more is said of a command.
func helpOf(at *kong.Node) string {
	if at.Type != kong.CommandNode {
		return "bailey --help, or bailey COMMAND --help"
	}
	return "bailey " + commandName(at) + " --help"
}

// inSecret reports whether a command is one of those about secrets.
func inSecret(at *kong.Node) bool {
	name, _, _ := strings.Cut(commandName(at), " ")
	return name == "secret"
}

// meant is the command of a group that a word stands for elsewhere, or else is
// nearest to, or "".
func meant(word string, known []string) string {
	for _, habit := range []struct{ ours, others string }{
		{"ls", "list"},
		{"ps", "list ls"},
		{"show", "get print cat read view reveal describe info inspect"},
		{"set", "add new create put store save"},
		{"edit", "update change modify"},
		{"rotate", "replace renew"},
		{"rm", "remove delete del unset"},
		{"export", "backup dump"},
		{"import", "restore load"},
		{"lint", "scan"},
		{"check", "validate verify"},
		{"stop", "kill rm remove"},
		{"log", "logs"},
		{"allow", "permit"},
		{"deny", "block"},
	} {
		if slices.Contains(known, habit.ours) && slices.Contains(strings.Fields(habit.others), word) {
			return habit.ours
		}
	}
	return spell.Nearest(word, known)
}

// groupError is about a group of commands of which none was named, or one that
// it has not. In that about secrets the word is not repeated: it may be a value.
func groupError(text string, at *kong.Node, rest []string) error {
	known := commandsOf(at)
	if at.Type != kong.CommandNode || len(known) == 0 {
		return nil
	}
	group := "bailey " + commandName(at)
	list := strings.Join(known, ", ") + "; " + helpOf(at) + " says what each does"
	switch {
	case len(rest) == 0:
		return bailey.NewError(bailey.Invalid, group+": no command was named", "its commands: "+list)
	case !strings.HasPrefix(text, "unexpected argument "):
		return nil
	}
	problem := fmt.Sprintf("%s has no command %q", group, rest[0])
	if inSecret(at) {
		problem = group + " has no such command"
	}
	near := meant(rest[0], known)
	switch {
	case near == "":
		return bailey.NewError(bailey.Invalid, problem, "its commands: "+list)
	case near == "show" && inSecret(at):
		list = "it prints where a secret may go, and nothing prints a value; its commands: " + list
	default:
		list = "its commands: " + list
	}
	return bailey.NewError(bailey.Invalid, problem, fmt.Sprintf("did you mean %q? %s", near, list))
}

// givenError is about a flag that a value was to be given with. Neither what
// the parser says of it nor what it was is repeated.
func givenError(text string, at *kong.Node) error {
	flag, ok := strings.CutPrefix(text, "unknown flag ")
	flag, _, _ = strings.Cut(flag, ",")
	if name := strings.TrimLeft(flag, "-"); !ok || !takesValue(name) || !inSecret(at) && commandName(at) != "run" && commandName(at) != "exec" {
		return passphraseError(text)
	}
	hint := "bailey secret set NAME keeps it, and bailey run --secret NAME lends it"
	switch commandName(at) {
	case "secret set", "secret rotate", "secret edit":
		hint = "give it on standard input, at the prompt, by --from-env VAR or by --from-file FILE"
	case "secret rekey", "secret export", "secret import":
		hint = "a passphrase is asked for at a terminal; age recipients and identities take none"
	}
	return bailey.NewError(bailey.Invalid, flag+": a value is never an argument, where ps shows it to others and your shell keeps it", hint+"; take what was typed here out of the shell's history")
}

// takesValue reports whether other programs have a flag of that name for a
// secret's value.
func takesValue(name string) bool {
	return slices.Contains([]string{
		"value", "secret", "secret-value", "token", "password", "passwd", "pass", "passphrase", "key", "api-key", "apikey", "credential", "bearer",
	}, strings.ToLower(strings.ReplaceAll(name, "_", "-")))
}

// passphraseError is about a passphrase behind the flag that has one asked for.
func passphraseError(text string) error {
	if !strings.HasPrefix(text, "--passphrase: bool value must be ") {
		return nil
	}
	return bailey.NewError(bailey.Invalid, "--passphrase takes no value: it is asked for at a terminal", "write --passphrase alone; take what was typed here out of the shell's history")
}

// strayError is about a word too many of a command about secrets. It is not
// repeated: it may be a value.
func strayError(text string, at *kong.Node) error {
	if !inSecret(at) || !strings.HasPrefix(text, "unexpected argument ") {
		return nil
	}
	hint := usage(at) + "; " + helpOf(at) + " says more"
	switch commandName(at) {
	case "secret set", "secret rotate", "secret edit":
		hint = "a value is never an argument, where others could read it: give it on standard input, by --from-env or --from-file"
	case "secret lint":
		hint = "one folder or file is looked at at a time: bailey secret lint DIR"
	}
	return bailey.NewError(bailey.Invalid, "there is an argument too many", hint)
}

// missingError is about an argument that is not there.
func missingError(text string, at *kong.Node) error {
	wanted, ok := strings.CutPrefix(text, `expected "<`)
	if !ok || at.Type != kong.CommandNode {
		return nil
	}
	wanted, _, _ = strings.Cut(wanted, ">")
	name := commandName(at)
	switch {
	case wanted == "name" && name == "secret set":
		return bailey.NewError(bailey.Invalid, "no secret was named", "bailey secret set NAME --host HOST, or with --template TEMPLATE: bailey secret set --help")
	case wanted == "name" && inSecret(at):
		return bailey.NewError(bailey.Invalid, "no secret was named", "bailey secret ls lists the names")
	case wanted == "name" && name == "home import":
		return bailey.NewError(bailey.Invalid, "the new home has no name", "bailey home import NAME [FILE]; bailey home ls lists the names that are taken")
	case wanted == "name" && strings.HasPrefix(name, "home "):
		return bailey.NewError(bailey.Invalid, "no home was named", "bailey home ls lists the names")
	case wanted == "name" && strings.HasPrefix(name, "env "):
		return bailey.NewError(bailey.Invalid, "no environment was named", "bailey env ls lists the names")
	case wanted == "name":
		return bailey.NewError(bailey.Invalid, "no sandbox was named", usage(at)+"; bailey ps lists the names")
	case wanted == "shell":
		return bailey.NewError(bailey.Invalid, "no shell was named", "bailey completion bash, or zsh, or fish")
	case name == "secret export":
		return bailey.NewError(bailey.Invalid, "no file was named", "bailey secret export FILE --recipient age1..., or --passphrase; - stands for standard output")
	case name == "secret import":
		return bailey.NewError(bailey.Invalid, "no file was named", "bailey secret import FILE, with --identity FILE where it is encrypted to a recipient; - stands for standard input")
	}
	return bailey.NewError(bailey.Invalid, "bailey "+name+": "+strings.ToUpper(wanted)+" is missing", usage(at)+"; "+helpOf(at)+" says more")
}
