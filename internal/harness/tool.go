package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Bin is the folder inside for the launchers of agents that another command
// starts.
const Bin = Home + "/.local/bin"

// AsTool is the preset for a run whose own command is another program, such as
// a shell, which starts the agent by its name: a launcher in Bin stands for
// Argv, and Name is empty.
func (p Preset) AsTool() Preset {
	quoted := make([]string, len(p.Argv))
	for i, arg := range p.Argv {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	script := "#!/bin/sh\n"
	if p.Behind[0] != "" {
		script += fmt.Sprintf("case \" $* \" in *\" %[2]s \"*) ;; \" %[1]s \"*) shift; set -- %[1]s %[2]s \"$@\" ;; esac\n", p.Behind[0], p.Behind[1])
	}
	p.Files = append(slices.Clone(p.Files), bailey.File{
		Path: Bin + "/" + p.Name, Mode: 0o700,
		Data: []byte(script + "exec " + strings.Join(quoted, " ") + " \"$@\"\n"),
	})
	p.Name, p.Argv, p.PathDir, p.Behind = "", nil, "", [2]string{}
	return p
}

// With adds what another preset needs.
func (p Preset) With(o Preset) Preset {
	p.Mounts = slices.Concat(p.Mounts, slices.DeleteFunc(slices.Clone(o.Mounts), func(m bailey.Mount) bool {
		return slices.ContainsFunc(p.Mounts, func(have bailey.Mount) bool { return have.Target == m.Target })
	}))
	p.Env = slices.Concat(p.Env, o.Env)
	p.Files = slices.Concat(p.Files, o.Files)
	p.Allow = slices.Concat(p.Allow, o.Allow)
	p.Quiet = slices.Concat(p.Quiet, o.Quiet)
	p.Notes = slices.Concat(p.Notes, o.Notes)
	return p
}
