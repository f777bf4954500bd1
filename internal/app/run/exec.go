package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/wire"
)

// ExecRequest is one `bailey exec`.
type ExecRequest struct {
	Name    string
	Command []string
	Env     []string
	Workdir string // absolute, inside; empty leaves it to the sandbox
}

// Exec runs a command in a sandbox that another bailey holds, and returns its
// exit code.
func Exec(ctx context.Context, h Host, r ExecRequest) (int, error) {
	env, err := config.ExpandEnv(r.Env, h.Env)
	if err != nil {
		return 0, err
	}
	if r.Workdir != "" && !filepath.IsAbs(r.Workdir) {
		return 0, bailey.NewError(bailey.Invalid, fmt.Sprintf("--workdir: %q does not begin with a slash", r.Workdir),
			"name the folder as the sandbox sees it, such as --workdir "+filepath.Join(h.Dir, r.Workdir))
	}
	if t := rootfs.Terminal(h.Env.Get); t != "" {
		env = merge([]string{"TERM=" + t}, env)
	}
	_, conn, err := control.Ask(ctx, h.Dirs.Runtime, r.Name, control.Exec)
	if err != nil {
		return 0, Over(h, r.Name, err)
	}
	out := &output{w: h.Stderr}
	result, err := session.Run(ctx, session.Dial(conn), session.Options{
		Command: wire.Exec{Argv: r.Command, Env: env, Dir: r.Workdir},
		Stdin:   h.Stdin, Stdout: h.Stdout, Stderr: h.Stderr,
	})
	if err != nil && result.Code != 0 {
		out.must("%s", err.Error())
		if hint := startHint(r.Command, result.Code, false); hint != "" {
			out.must("%s", hint)
		}
		return result.Code, nil
	}
	if errors.Is(err, session.ErrLost) { // what the wire said of it, such as EOF, says nothing more
		err = bailey.NewError(bailey.Unavailable, session.ErrLost.Error(), "bailey ps lists those that are still there")
	}
	return result.Status(), err
}
