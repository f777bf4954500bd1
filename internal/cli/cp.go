package cli

import (
	"fmt"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/transfer"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type cpCommand struct {
	FollowLink bool         `short:"L" help:"Follow links of what is copied, on the side where it is."`
	MaxSize    config.Bytes `placeholder:"4G" help:"How much may come out of a sandbox. Default: 4G."`
	MaxFiles   config.Count `placeholder:"200000" help:"How many files and folders may come out of a sandbox. Default: 200000."`
	Quiet      bool         `short:"q" help:"Say nothing but errors, and what would run on the host."`

	From string `arg:"" placeholder:"FROM" help:"What is copied: NAME:PATH in a sandbox, or a path of this machine; - is an archive (tar) on standard input."`
	To   string `arg:"" placeholder:"TO" help:"Where to: the other of the two; - is an archive on standard output."`
}

// Help is what `bailey cp --help` says beyond the flags.
func (cpCommand) Help() string {
	return `Copies files and folders as docker cp does: into a folder that is there, or under the name that is given; FROM/. stands for the contents of a folder. A path that begins with a slash or a dot is one of this machine. Paths inside are relative to where the sandbox's command started.

What comes out is written below the place that you name and nowhere else, whatever the sandbox sends: no link is followed, links out of what is copied, devices and the like are left out and listed, setuid bits are dropped, and nothing is put in its place before all of it has come. Files that your own tools would run later are pointed out. What goes in belongs to the sandbox's user.

Examples:
  bailey cp api-3f2a91c0:/etc/hosts .
  bailey cp ./hosts api-3f2a91c0:/tmp/
  bailey cp api-3f2a91c0:/etc - | tar t`
}

// Run copies.
func (c *cpCommand) Run(a *app) error {
	from, to := asBytes(c.From), asBytes(c.To)
	name, inside, out := remote(from)
	if !out {
		var in bool
		if name, inside, in = remote(to); !in {
			return bailey.NewError(bailey.Invalid, "cp: neither path is one of a sandbox", "write NAME:PATH for the one in the sandbox; bailey ps lists the names")
		}
	} else if _, _, both := remote(to); both {
		return bailey.NewError(bailey.Invalid, "cp: both paths are of sandboxes", "copy by way of this machine: bailey cp FROM - | bailey cp - TO")
	}
	cfg := transfer.Config{Runtime: a.host.Dirs.Runtime, Dir: a.host.Dir, Stdin: a.host.Stdin, Stdout: a.host.Stdout}
	r := transfer.Request{Sandbox: name, Inside: inside, Follow: c.FollowLink, Limits: transfer.Limits{Bytes: int64(c.MaxSize), Files: int64(c.MaxFiles)}}
	if r.Limits.Bytes == 0 {
		r.Limits.Bytes = defaultCopySize
	}
	if r.Limits.Files == 0 {
		r.Limits.Files = defaultCopyFiles
	}
	var report transfer.Report
	var err error
	if out {
		if r.Host = to; to == "-" && pty.IsTerminal(a.host.Stdout) {
			return bailey.NewError(bailey.Invalid, "cp: an archive is not printed to a terminal", "send it to a file or a program: bailey cp "+from+" - | tar tv")
		}
		report, err = transfer.Out(a.ctx, cfg, r)
	} else {
		if r.Host = from; from == "-" && pty.IsTerminal(a.host.Stdin) {
			return bailey.NewError(bailey.Invalid, "cp: an archive is not typed", "give one on standard input: tar c FOLDER | bailey cp - "+to)
		}
		report, err = transfer.In(a.ctx, cfg, r)
	}
	c.tell(a, report, err == nil)
	return a.over(name, err)
}

// remote cuts NAME:PATH. As for docker, what begins with a slash or a dot is a
// path of the host.
func remote(arg string) (name, path string, ok bool) {
	if arg == "-" || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, ".") {
		return "", "", false
	}
	name, path, ok = strings.Cut(arg, ":")
	if !ok || !bailey.ValidSandboxName(name) {
		return "", "", false
	}
	if path == "" {
		path = "."
	}
	return name, path, true
}

// tell says what was left out, and what to look at before it is used.
func (c *cpCommand) tell(a *app, r transfer.Report, done bool) {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(a.stderr, "bailey: %s\n", terminal.Sanitize(fmt.Sprintf(format, args...)))
	}
	if !c.Quiet {
		for _, line := range r.Skipped {
			say("left out: %s", line)
		}
		if r.More > 0 {
			say("left out: %d more", r.More)
		}
	}
	if !done || len(r.Planted) == 0 {
		return
	}
	say("would run on the host, or change what runs:")
	for _, p := range r.Planted[:min(len(r.Planted), mostPointedOut)] {
		say("  %s: %s", p.Path, p.Why)
	}
	if more := len(r.Planted) - mostPointedOut; more > 0 {
		say("  and %s more", spell.Count(more, "file"))
	}
}

// What may come out of a sandbox where no flag says more.
const (
	defaultCopySize  = 4 << 30
	defaultCopyFiles = 200_000
)

// mostPointedOut bounds what a person reads.
const mostPointedOut = 20
