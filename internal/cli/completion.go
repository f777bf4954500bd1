package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/environment"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/journal"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/transcript"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is what `bailey completion --help` says beyond the flags.
func (completionCommand) Help() string {
	return `Prints a script that teaches a shell to complete bailey's commands, flags and the names of running sandboxes. It asks bailey at each completion, so it is as new as the program.

Examples:
  bailey completion bash > ~/.local/share/bash-completion/completions/bailey
  bailey completion zsh > "${fpath[1]}/_bailey"
  bailey completion fish > ~/.config/fish/completions/bailey.fish
  . <(bailey completion bash)                       for this shell alone`
}

// Run prints the script.
func (c *completionCommand) Run(a *app) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := fmt.Fprint(a.stdout, script)
	return err
}

// The scripts know nothing of the command line: they hand the words to
// `bailey __complete`, whose first line of output says what the shell may add
// of its own, and each further line is a word, with a description after a tab.
const (
	bashScript = `# bash completion for bailey
_bailey() {
	local cur=$2 line kind=
	COMPREPLY=()
	[[ $cur != "=" ]] || cur=
	while IFS= read -r line; do
		if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("${line%%$'\t'*}"); fi
	done < <("$1" __complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	case $kind in
	:files) compopt -o default ;;
	:folders) compopt -o dirnames ;;
	:commands)
		compopt -o default
		# Programs alone, each once, and not all of them at once.
		[[ -z $cur ]] || while IFS= read -r line; do
			[[ " ${COMPREPLY[*]} " == *" $line "* ]] || ! type -P "$line" >/dev/null || COMPREPLY+=("$line")
		done < <(compgen -c -- "$cur" | sort -u)
		;;
	:variables)
		while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -e -- "$cur")
		;;
	esac
}
complete -F _bailey bailey
`
	zshScript = `#compdef bailey
_bailey() {
	local -a lines values
	local tab=$'\t' line kind
	lines=("${(@f)$("${words[1]}" __complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	kind=${lines[1]}
	for line in "${(@)lines[2,-1]}"; do
		values+=("${${line%%$tab*}//:/\\:}:${line#*$tab}")
	done
	(( ${#values} )) && _describe -t values bailey values
	[[ $kind != :none && $PREFIX == --*=* ]] && compset -P 1 '*='
	case $kind in
	:files) _files ;;
	:folders) _files -/ ;;
	:commands) _command_names -e; _files ;;
	:variables) _parameters -g '*export*' ;;
	esac
}
if [[ $funcstack[1] == _bailey ]]; then _bailey "$@"; else compdef _bailey bailey; fi
`
	fishScript = `# fish completion for bailey
function __bailey_complete
	set -l words (commandline -opc)
	set -l cur (commandline -ct)
	set -l program $words[1]
	set -e words[1]
	set -l lines ($program __complete fish -- $words "$cur" 2>/dev/null)
	set -l kind $lines[1]
	set -e lines[1]
	string join -- \n $lines
	switch "$kind"
		case :files
			__fish_complete_path "$cur"
		case :folders
			__fish_complete_directories "$cur"
		case :commands
			complete -C "$cur"
		case :variables
			set -nx
	end
end
complete -c bailey -f -a '(__bailey_complete)'
`
)

type completeCommand struct {
	Shell string   `arg:""`
	Words []string `arg:"" passthrough:"" optional:""`
}

// Run prints what may stand at the last of the words.
func (c *completeCommand) Run(a *app) error {
	words, _ := afterDashes(c.Words)
	if c.Shell == "bash" {
		words = joinEquals(words)
	}
	s := suggest(a.model.Model, words)
	s.values = append(s.values, a.namesFor(s)...)
	cut := ""
	if flag, _, found := strings.Cut(s.word, "="); found && c.Shell == "bash" && strings.HasPrefix(flag, "-") {
		cut = flag + "=" // bash takes what stands behind it for the word
	}
	var out strings.Builder
	out.WriteString(string(s.also) + "\n")
	for _, v := range s.values {
		if strings.HasPrefix(v.word, s.word) && terminal.Sanitize(v.word) == v.word {
			_, _ = fmt.Fprintf(&out, "%s\t%s\n", strings.TrimPrefix(v.word, cut), firstSentence(v.help))
		}
	}
	_, err := fmt.Fprint(a.stdout, out.String())
	return err
}

// namesFor returns the names that are asked for of what there is.
func (a *app) namesFor(s suggestion) (out []candidate) { //nolint:gocognit // one kind of word after the other
	if s.kept {
		for _, name := range journal.Names(a.host.Dirs.State, a.host.UID) {
			out = append(out, candidate{name, "its output is kept"})
		}
	}
	if s.sandboxes {
		infos, _ := control.List(a.ctx, a.host.Dirs.Runtime) // a completion has nobody to tell
		for _, i := range infos {
			name := i.Name
			if s.within {
				name += ":"
			}
			out = append(out, candidate{name, i.Status + " in " + i.Workspace})
		}
	}
	if s.secrets {
		for _, name := range a.host.Vault().Names() {
			out = append(out, candidate{name, ""})
		}
	}
	if s.environments {
		out = append(out, a.environmentNames()...)
	}
	if s.homes {
		out = append(out, a.homeNames()...)
	}
	if s.models {
		out = append(out, a.modelNames()...)
	}
	if s.tasks {
		out = append(out, a.taskNames()...)
	}
	return out
}

// joinEquals undoes that bash splits words at "=".
func joinEquals(words []string) []string {
	var out []string
	for i, w := range words {
		joins := len(out) > 0 && strings.HasPrefix(out[len(out)-1], "--")
		if joins && (w == "=" || i > 0 && words[i-1] == "=" && strings.HasSuffix(out[len(out)-1], "=")) {
			out[len(out)-1] += w
			continue
		}
		out = append(out, w)
	}
	return out
}

// also is what a shell completes of its own.
type also string

const (
	alsoNone      also = ":none"
	alsoFiles     also = ":files"
	alsoFolders   also = ":folders"
	alsoCommands  also = ":commands"
	alsoVariables also = ":variables"
)

type candidate struct{ word, help string }

// suggestion is what may stand at a word.
type suggestion struct {
	word      string // as far as it is typed
	values    []candidate
	sandboxes bool // the names of running sandboxes as well
	within    bool // with a colon behind them, for a path inside
	kept      bool // the names of sandboxes whose output is kept as well
	secrets   bool // the names of secrets as well
	models    bool // the names of models as well
	tasks     bool // the ids of tasks as well

	environments bool // the names of environments as well
	homes        bool // the names of homes as well
	also         also
}

// position is where in the grammar a line of words has come to.
type position struct {
	node *kong.Node
	flag *kong.Flag // the next word is its value
	args int        // positional arguments so far
	free bool       // no flags any more
	dash bool       // a "--" was seen
}

// suggest returns what may stand at the last of the words, which follow the
// program's name.
func suggest(model *kong.Application, words []string) suggestion {
	if len(words) == 0 {
		words = []string{""}
	}
	p := position{node: model.Node}
	for _, w := range words[:len(words)-1] {
		p.take(w)
	}
	return p.suggest(words[len(words)-1])
}

// take moves over one word.
func (p *position) take(w string) {
	switch {
	case p.flag != nil:
		p.flag = nil
	case !p.free && w == "--":
		p.free, p.dash = true, true
	case !p.free && len(w) > 1 && w[0] == '-':
		name, _, given := strings.Cut(w, "=")
		if f := findFlag(p.node, name); f != nil && !f.IsBool() && !given {
			p.flag = f
		}
	case len(p.node.Children) > 0:
		if i := slices.IndexFunc(p.node.Children, func(n *kong.Node) bool { return n.Name == w }); i >= 0 {
			p.node = p.node.Children[i]
		}
	default:
		if v := p.argument(); v != nil && v.Passthrough {
			p.free = true
		}
		p.args++
	}
}

// argument returns the positional argument that comes next, or nil.
func (p *position) argument() *kong.Positional {
	list := p.node.Positional
	switch {
	case len(list) == 0:
		return nil
	case p.args < len(list):
		return list[p.args]
	case list[len(list)-1].IsSlice():
		return list[len(list)-1]
	}
	return nil
}

func (p *position) suggest(word string) suggestion {
	s := suggestion{word: word, also: alsoNone}
	name, _, given := strings.Cut(word, "=")
	switch flag := findFlag(p.node, name); {
	case p.flag != nil:
		s.flagValue(p.flag, "")
	case !p.free && given && flag != nil:
		s.flagValue(flag, name+"=")
	case !p.free && strings.HasPrefix(word, "-"):
		s.flags(p.node)
	case len(p.node.Children) > 0:
		for _, n := range p.node.Children {
			if !n.Hidden {
				s.values = append(s.values, candidate{n.Name, n.Help})
			}
		}
	default:
		s.positional(p)
	}
	return s
}

func (s *suggestion) flags(n *kong.Node) {
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			s.values = append(s.values, candidate{"--" + f.Name, f.Help})
		}
	}
}

func (s *suggestion) flagValue(f *kong.Flag, prefix string) {
	switch {
	case f.Name == "net":
		for _, m := range bailey.NetModes() {
			s.values = append(s.values, candidate{prefix + m.String(), ""})
		}
	case f.Name == "dns":
		for _, m := range []bailey.DNSMode{bailey.DNSRules, bailey.DNSOpen} {
			s.values = append(s.values, candidate{prefix + m.String(), ""})
		}
	case f.Name == "preset":
		for _, name := range settings.PresetNames() {
			s.values = append(s.values, candidate{prefix + name, ""})
		}
	case f.Name == "template":
		for _, t := range secret.Templates() {
			s.values = append(s.values, candidate{prefix + t.Name, t.What})
		}
	case s.names(f.Name):
	case f.Name == "kind":
		for _, k := range environment.Kinds() {
			s.values = append(s.values, candidate{prefix + string(k), ""})
		}
	case f.Name == "harness":
		for _, n := range transcript.Agents() {
			s.values = append(s.values, candidate{prefix + n, ""})
		}
	case f.Enum != "":
		for _, e := range f.EnumSlice() {
			s.values = append(s.values, candidate{prefix + e, ""})
		}
	case f.Name == "for":
		s.values = append(s.values, candidate{prefix + "gateway", "for the model gateway alone"})
	case f.Name == "from-env":
		s.also = alsoVariables
	case f.Name == "tool":
		s.also = alsoCommands
	case f.PlaceHolder == "FILE":
		s.also = alsoFiles
	case f.PlaceHolder == "DIR":
		s.also = alsoFolders
	case f.PlaceHolder == "NAME[=VALUE]":
		s.also = alsoVariables
	}
}

// names reports whether a flag's value is the name of something that there is,
// and notes of what.
func (s *suggestion) names(flag string) bool {
	switch flag {
	case "environment":
		s.environments = true
	case "home":
		s.homes = true
	case "model":
		s.models = true
	case "live", "sandbox":
		s.sandboxes = true
	case "secret":
		s.secrets = true
	default:
		return false
	}
	return true
}

func (s *suggestion) positional(p *position) { //nolint:gocognit // one kind of word after the other
	v := p.argument()
	switch {
	case v == nil:
	case v.Enum != "":
		for _, e := range v.EnumSlice() {
			s.values = append(s.values, candidate{e, ""})
		}
	case v.Name == "name" && p.node.Parent != nil && p.node.Parent.Name == "secret":
		s.secrets = p.node.Name != "set"
	case p.node.Name == "cp":
		s.sandboxes, s.within, s.also = true, true, alsoFiles
	case v.Name == "name" && p.node.Name == "logs":
		s.kept = true
	case v.Name == "name" && p.node.Parent != nil && p.node.Parent.Name == "env":
		s.environments = true
	case v.Name == "name" && p.node.Parent != nil && p.node.Parent.Name == "home":
		s.homes = p.node.Name != "import"
	case v.Name == "name":
		s.sandboxes = true
	case v.Name == "model":
		s.models = true
	case v.Name == "tasks" || v.Name == "task" && p.node.Name != "run":
		s.tasks = true
	case v.Name == "file":
		s.also = alsoFiles
	case v.Name == "dir":
		s.also = alsoFolders
	case v.Name == "command" && p.args >= len(p.node.Positional):
		s.also = alsoFiles
	case v.Name == "command":
		s.also = alsoCommands
		if p.node.Name == "run" && !p.dash {
			for _, n := range harness.Names() {
				s.values = append(s.values, candidate{n, "this agent, its own API host and no other"})
			}
		}
	}
}

// findFlag finds a flag of a command by what a person types.
func findFlag(n *kong.Node, typed string) *kong.Flag {
	for _, group := range n.AllFlags(false) {
		for _, f := range group {
			if typed == "--"+f.Name || f.Short != 0 && typed == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

// firstSentence keeps a description to one line of a menu.
func firstSentence(s string) string {
	for _, end := range []string{". ", "; "} { // a dot alone may be a file's or a host's
		s, _, _ = strings.Cut(s, end)
	}
	return terminal.Sanitize(strings.TrimSuffix(s, "."))
}
