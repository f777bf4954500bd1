// Package signer is the role that has the user's key for git over SSH: a process
// of its own that takes commands of git from the proxy, each with a connection
// that the proxy made to the host, holds them against the rules once more, and
// does them as the user. So the process that parses what a sandbox sends never
// has a session of the user's, and can ask for nothing but git's two commands on
// the repositories that the rules name.
//
// It knows a host by the user's own known_hosts, has the user's agent sign or
// reads the key that the user named, and then takes everything else away from
// itself: it opens no file and makes no socket afterwards.
package signer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
	"github.com/bailey-dev/bailey/internal/linux/seccomp"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/sshgit"
)

// maxAtOnce bounds the commands that are under way.
const maxAtOnce = 16

// Main is the process; it returns the exit code.
func Main() int {
	if err := serve(); err != nil {
		fmt.Fprintf(os.Stderr, "bailey signer: %v\n", err)
		return bailey.ExitBailey
	}
	return 0
}

func serve() error {
	if err := errors.Join(inherit.Check(gate.FDSignerSettings, gate.FDSignerProxy), harden.Process()); err != nil {
		return err
	}
	told := json.NewDecoder(inherit.Polled(gate.FDSignerSettings, "settings"))
	told.DisallowUnknownFields()
	var s gate.Signer
	if err := told.Decode(&s); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	r := &signer{slots: make(chan struct{}, maxAtOnce)}
	r.policy.Store(&s.Policy)
	r.user, r.why = newUser(s)
	if err := confine(); err != nil {
		return err
	}
	go r.take(inherit.Polled(gate.FDSignerProxy, "proxy")) // it ends with the process
	for {
		var p policy.Policy
		switch err := told.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read policy: %w", err)
		}
		r.policy.Store(&p)
	}
}

// newUser takes what belongs to the user. That something is missing is said to
// who asks for a repository: a run may ask for none.
func newUser(s gate.Signer) (*sshgit.User, error) {
	var agent io.ReadWriter
	if s.Agent != "" {
		conn, err := net.Dial("unix", s.Agent) //nolint:noctx // a socket of this machine, at once or not at all
		if err != nil {
			return nil, fmt.Errorf("your ssh-agent does not answer: %w", err)
		}
		agent = conn
	}
	return sshgit.NewUser(s.Known, agent, s.Key)
}

// confine takes away what is not needed any more.
func confine() error {
	if landlock.Level() > 0 {
		if err := landlock.Confine(nil, nil); err != nil {
			return err
		}
	}
	return seccomp.Confine(seccomp.Needs{})
}

// signer is the role at work.
type signer struct {
	policy atomic.Pointer[policy.Policy]
	user   *sshgit.User
	why    error // there is none
	slots  chan struct{}
}

// take does what comes from the proxy until that is gone.
func (r *signer) take(from *os.File) {
	for {
		payload, files, err := fdpass.ReceiveFiles(from, sshgit.MaxRequest)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil || len(files) != 3 {
			closeAll(files)
			continue
		}
		select {
		case r.slots <- struct{}{}:
			go func() {
				defer func() { <-r.slots }()
				defer closeAll(files)
				r.do(payload, files[0], files[1], files[2])
			}()
		default:
			_ = sshgit.NewFrames(files[2]).Write(sshgit.FrameFailed, []byte("too many commands are under way at once; wait for some to end"))
			closeAll(files)
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// do does one command and says how it ended.
func (r *signer) do(payload []byte, up, in, out *os.File) {
	frames := sshgit.NewFrames(out)
	code, err := r.run(payload, up, in, frames)
	switch {
	case err == nil:
		_ = frames.Write(sshgit.FrameExit, []byte{code})
	case errors.Is(err, sshgit.ErrRef), errors.Is(err, errNotAllowed):
		_ = frames.Write(sshgit.FrameRefused, []byte(err.Error()))
	default:
		_ = frames.Write(sshgit.FrameFailed, []byte(err.Error()))
	}
}

var errNotAllowed = errors.New("no rule allows that")

func (r *signer) run(payload []byte, up, in *os.File, frames *sshgit.Frames) (uint8, error) {
	q, err := sshgit.ParseRequest(payload)
	if err != nil {
		return 0, err
	}
	ask := policy.Request{Protocol: policy.ProtocolSSH, Host: q.Host, Port: q.Port, Method: q.Command.Service, Path: q.Command.Path, Login: q.Command.Login}
	p := *r.policy.Load()
	grant, ok := p.GrantGit(ask)
	if !ok || policy.Decide(p, ask).Verdict != bailey.Allow {
		return 0, errNotAllowed
	}
	if r.why != nil {
		return 0, r.why
	}
	conn, err := net.FileConn(up)
	if err != nil {
		return 0, fmt.Errorf("take connection: %w", err)
	}
	defer conn.Close()
	q.Command.Path = grant.Repository // as the rule has it, and never as it was asked for
	return r.user.Run(conn, sshgit.Task{
		Host: q.Host, Port: q.Port, Command: q.Command, Branches: grant.Branches,
		Stdin: in, Stdout: frames.Of(sshgit.FrameOut), Stderr: frames.Of(sshgit.FrameErr),
	})
}
