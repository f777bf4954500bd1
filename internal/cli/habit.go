package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
)

// habit is what flags of other programs are here.
type habit struct {
	flags string // separated by blanks
	run   string // in the place of such a flag of `bailey run`; empty: as for anything unknown
	exec  string // likewise of `bailey exec`
}

// habits are the flags of docker, podman and bubblewrap that people type first.
func habits() []habit {
	const (
		terminal = "leave it out: a command has the terminal that bailey has"
		never    = "no sandbox has that; leave it out"
		network  = "--net none, allow or open says it; --allow HOST has one host in reach"
		mount    = "--mount SRC:DST has another folder of this machine in sight, and --mount SRC:DST:rw has it written"
	)
	return []habit{
		{"-i -t --interactive --tty", terminal, terminal},
		{"-e -E --environment --setenv", "--env NAME passes your own value, --env NAME=VALUE another", "--env NAME passes your own value, --env NAME=VALUE another"},
		{"-v --volume --bind --ro-bind --dev-bind", mount, ""},
		{"-p --ports -P --publish-all", "--publish PORT has a port of the sandbox at 127.0.0.1", ""},
		{"-w -C --cwd --chdir", "--workdir DIR starts the command in another folder", "--workdir DIR starts the command in another folder"},
		{"-m", "--memory 4G sets the most that it may have", ""},
		{"-n", "--name NAME names the sandbox", ""},
		{"-c", "put the command behind --: bailey run -- sh -c '...'", "put the command behind --: bailey exec NAME -- sh -c '...'"},
		{"--network --share-net --unshare-net", network, ""},
		{"--rm", "leave it out: nothing of a sandbox is left when it has ended, but for its home", ""},
		{"-u --user --userns --uid --gid", "leave it out: a command runs as an id of its own, and its files are yours", "leave it out: a command runs as that of the sandbox does"},
		{"--privileged --cap-add --device --gpus --security-opt --pid --ipc", never, never},
		{"--image --entrypoint --platform --pull", "leave it out: a sandbox has this machine's programs, and needs no image", ""},
	}
}

// habitError is about a flag that another program has.
func habitError(text string, at *kong.Node) error {
	flag, ok := strings.CutPrefix(text, "unknown flag ")
	if !ok {
		return nil
	}
	flag, _, _ = strings.Cut(flag, ",")
	for _, h := range habits() {
		hint := h.run
		switch commandName(at) {
		case "run", "inspect":
		case "exec", "shell":
			hint = h.exec
		default:
			return nil
		}
		if hint != "" && slices.Contains(strings.Fields(h.flags), flag) {
			return bailey.NewError(bailey.Invalid, "unknown flag "+flag, hint)
		}
	}
	return nil
}
