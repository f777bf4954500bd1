package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/sshgit"
)

// Git is git over SSH: who stands for its hosts inside, and who speaks to the
// hosts themselves with the user's key, which this process never has.
type Git struct {
	Server *sshgit.Server
	// Hand has a command that was let through done over a connection to its host,
	// which is given away. The command's input is written to in, which is to be
	// closed at its end, and frames of its output come from out.
	Hand func(r sshgit.Request, up *net.TCPConn) (in io.WriteCloser, out io.ReadCloser, err error)
}

// gitHosts are the names that the connection may be for, of those that are
// reached by git over SSH alone, latest first. SSH says no name.
func (f *flow) gitHosts() []string {
	names := []string{f.tunnel}
	if f.tunnel == "" {
		names = f.p.cfg.Pins.Names(f.dest.Addr(), f.p.cfg.Now())
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" || !f.p.rules.OverSSH(name, f.dest.Port()) })
}

// serveGit ends a client's SSH here, and has its command done if a rule lets one
// of the hosts have it.
func (f *flow) serveGit(ctx context.Context, hosts []string) {
	f.protocol, f.host, f.byPin = policy.ProtocolSSH, hosts[0], true
	if f.p.cfg.Git == nil {
		f.refuse(policy.ReasonSealed, fmt.Sprintf("%s is for git over SSH since the rules were changed: that begins with the next run", f.host))
		return
	}
	f.refuse(policy.ReasonSilent, "the connection ended before it said which repository it is for")
	var feeding sync.WaitGroup
	defer feeding.Wait() // after Serve, which closes what is read
	err := f.p.cfg.Git.Server.Serve(&headed{f.down, f}, func(c sshgit.Command, problem string, s sshgit.Session) uint8 {
		code := f.gitCommand(ctx, &feeding, hosts, c, problem, s)
		f.kept = true
		return code
	})
	if err != nil && f.decision.Reason == policy.ReasonSilent {
		f.refuse(policy.ReasonBadRequest, printableTo(err.Error(), maxPath))
	}
}

// gitFailed is git's own exit code for what went wrong.
const gitFailed = 128

// gitCommand decides a command and has it done, or tells the client why not.
func (f *flow) gitCommand(ctx context.Context, feeding *sync.WaitGroup, hosts []string, c sshgit.Command, problem string, s sshgit.Session) uint8 { //nolint:revive // one check after the other
	if problem != "" {
		f.refuse(policy.ReasonCommand, problem)
		return f.tellGit(s)
	}
	f.asked = asked{method: c.Service, path: c.Path, login: c.Login}
	for _, f.host = range hosts {
		if f.decide() {
			break
		}
	}
	f.seen = asked{method: c.Service, path: f.request().Repository()}
	if f.decision.Verdict != bailey.Allow {
		return f.tellGit(s)
	}
	up := f.dial(ctx)
	if up == nil {
		return f.tellGit(s)
	}
	stop := context.AfterFunc(ctx, func() { shut(up) })
	defer stop()
	defer func() { _ = up.Close() }()
	in, out, err := f.p.cfg.Git.Hand(sshgit.Request{Host: f.host, Port: f.dest.Port(), Command: c}, up)
	if err != nil {
		f.decision.Reason, f.decision.Detail = policy.ReasonUpstream, "the process that has your key does not answer: "+err.Error()
		return f.tellGit(s)
	}
	defer out.Close()
	feeding.Go(func() {
		_, _ = io.Copy(counting{in, &f.out}, s)
		_ = in.Close()
	})
	return f.answerGit(out, s)
}

// shut ends a connection that another process has too.
func shut(c *net.TCPConn) {
	_ = c.CloseRead()
	_ = c.CloseWrite()
}

// answerGit passes on what comes of a command, and returns its exit code.
func (f *flow) answerGit(out io.Reader, s sshgit.Session) uint8 {
	var buf []byte
	for {
		kind, b, err := sshgit.ReadFrame(out, buf)
		if err != nil {
			f.decision.Reason, f.decision.Detail = policy.ReasonUpstream, "the connection to the host broke"
			return f.tellGit(s)
		}
		buf = b
		switch kind {
		case sshgit.FrameOut:
			f.in.Add(int64(len(b)))
			_, err = s.Write(b)
		case sshgit.FrameErr:
			f.in.Add(int64(len(b)))
			_, err = s.Errors().Write(b)
		case sshgit.FrameExit:
			if len(b) == 1 {
				return b[0]
			}
			return gitFailed
		case sshgit.FrameRefused:
			f.refuse(policy.ReasonRepository, printableTo(string(b), maxSentence))
			return f.tellGit(s)
		default:
			f.decision.Reason, f.decision.Detail = policy.ReasonUpstream, printableTo(string(b), maxSentence)
			return f.tellGit(s)
		}
		if err != nil { // the client is gone
			return gitFailed
		}
	}
}

// maxSentence bounds what the other process says went wrong, in bytes.
const maxSentence = 512

// tellGit says the decision to a person who looks at what git prints.
func (f *flow) tellGit(s sshgit.Session) uint8 {
	_, _ = fmt.Fprintf(s.Errors(), "bailey: %s\r\n", printableTo(f.decision.Detail, 2*maxSentence))
	return gitFailed
}

// headed is the client's connection with what was read of it before.
type headed struct {
	*net.TCPConn
	f *flow
}

// Read is net.Conn's.
func (h *headed) Read(b []byte) (int, error) {
	if len(h.f.head) == 0 {
		return h.TCPConn.Read(b)
	}
	n := copy(b, h.f.head)
	h.f.head = h.f.head[n:]
	return n, nil
}

// counting counts what is written.
type counting struct {
	io.Writer
	n interface{ Add(int64) int64 }
}

// Write is io.Writer's.
func (c counting) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	return n, err
}
