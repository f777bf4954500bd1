package run

import (
	"context"

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
	if t := rootfs.Terminal(h.Env.Get); t != "" {
		env = merge([]string{"TERM=" + t}, env)
	}
	_, conn, err := control.Ask(ctx, h.Dirs.Runtime, r.Name, control.Exec)
	if err != nil {
		return 0, err
	}
	out := &output{w: h.Stderr}
	result, err := session.Run(ctx, session.Dial(conn), session.Options{
		Command: wire.Exec{Argv: r.Command, Env: env, Dir: r.Workdir},
		Stdin:   h.Stdin, Stdout: h.Stdout, Stderr: h.Stderr,
	})
	if err != nil && result.Code != 0 {
		out.must("%s", err.Error())
		return result.Code, nil
	}
	return result.Status(), err
}
