package sshgit

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// patience is how long a client may take to say who it is and what it wants.
const patience = 20 * time.Second

// leaving is how long a client may take to end a connection that is over.
const leaving = 2 * time.Second

// NewHostKey makes the key that a sandbox's server shows, as bytes to hand over.
func NewHostKey() (seed []byte, err error) {
	seed = make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return nil, fmt.Errorf("make a host key: %w", err)
	}
	return seed, nil
}

// signer is the key of a seed.
func signer(seed []byte) (ssh.Signer, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, errors.New("read host key: its length is wrong")
	}
	return ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
}

// KnownHosts is the file by which clients inside know the server's key, for each
// host and port that it stands for (sshd(8)).
func KnownHosts(seed []byte, hosts []string) ([]byte, error) {
	key, err := signer(seed)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, at := range hosts {
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			return nil, fmt.Errorf("name host %q: %w", at, err)
		}
		if port != "22" {
			host = "[" + host + "]:" + port
		}
		out.WriteString(host + " " + string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	}
	return []byte(out.String()), nil
}

// Server stands for git's hosts.
type Server struct{ config *ssh.ServerConfig }

// NewServer makes one that shows the key of a seed.
func NewServer(seed []byte) (*Server, error) {
	key, err := signer(seed)
	if err != nil {
		return nil, err
	}
	// Whatever a client offers to prove who it is will do: it is the sandbox.
	config := &ssh.ServerConfig{
		NoClientAuth:      true,
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }, //nolint:nilnil // no permission is needed
		PasswordCallback:  func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil },        //nolint:nilnil // likewise
		ServerVersion:     "SSH-2.0-bailey",
	}
	config.AddHostKey(key)
	return &Server{config}, nil
}

// Session is a client's one command: its input, its output and its errors.
type Session interface {
	io.Reader
	io.Writer
	Errors() io.Writer
}

// Handler does a command and returns its exit code. With problem the client
// asked for something that is none: it is only told so.
type Handler func(c Command, problem string, s Session) (code uint8)

// Serve has a handler do the one command of a connection, tells the client of
// its end, and closes the connection. The error is why there was none.
func (s *Server) Serve(c net.Conn, handle Handler) error {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience)) //nolint:forbidigo // a socket's deadline is by the clock
	conn, channels, requests, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return fmt.Errorf("speak SSH with the client: %w", err)
	}
	_ = c.SetDeadline(time.Time{})
	silent := time.AfterFunc(patience, func() { _ = c.Close() })
	defer silent.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer func() { _ = conn.Close() }()
	all.Go(func() { ssh.DiscardRequests(requests) }) // port forwarding is asked for by these
	one := session{login: conn.User(), handle: handle, begun: silent.Stop}
	for ch := range channels {
		if ch.ChannelType() != "session" || one.taken {
			_ = ch.Reject(ssh.Prohibited, "bailey: one command of git passes here, and nothing else")
			continue
		}
		channel, asked, err := ch.Accept()
		if err != nil {
			return fmt.Errorf("take the client's session: %w", err)
		}
		one.taken = true
		all.Go(func() {
			one.serve(channel, asked)
			// A client that is ended first says that it was, on top of all else.
			time.AfterFunc(leaving, func() { _ = c.Close() })
		})
	}
	if !one.taken {
		return errors.New("the client asked for no command")
	}
	return nil
}

// session is the one of a connection.
type session struct {
	login  string
	handle Handler
	begun  func() bool
	taken  bool

	command Command
	refused []string // what was asked for before the command, and is not given
}

// serve takes requests until one says what to do, and answers those after it
// with no.
func (s *session) serve(ch ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = ch.Close() }()
	for r := range requests {
		problem, begins := s.take(r)
		if !begins {
			continue
		}
		s.begun()
		go refuseAll(requests) // it ends with the channel
		for _, what := range s.refused {
			_, _ = fmt.Fprintf(ch.Stderr(), "bailey: %s is not given to a sandbox\r\n", what)
		}
		code := s.handle(s.command, problem, stream{ch})
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
		_ = ch.CloseWrite()
		return
	}
}

func refuseAll(requests <-chan *ssh.Request) {
	for r := range requests {
		_ = r.Reply(false, nil)
	}
}

// take answers one request (RFC 4254 §6), and reports whether it is the one that
// begins something, and what is wrong with it.
func (s *session) take(r *ssh.Request) (problem string, begins bool) {
	switch r.Type {
	case "exec":
		_ = r.Reply(true, nil) // so that what is wrong with it can be said
		var what struct{ Line string }
		if ssh.Unmarshal(r.Payload, &what) != nil {
			return "what is to be executed cannot be read", true
		}
		service, path, err := parseCommand(what.Line)
		if err != nil {
			return err.Error(), true
		}
		s.command = Command{Login: s.login, Service: service, Path: path, Protocol: s.command.Protocol}
		return "", true
	case "shell":
		_ = r.Reply(true, nil)
		return "there is no shell: only git's own commands for fetching and pushing pass here", true
	case "subsystem":
		_ = r.Reply(true, nil)
		return "there is no subsystem, such as SFTP: only git's own commands for fetching and pushing pass here", true
	case "env":
		var pair struct{ Name, Value string }
		ok := ssh.Unmarshal(r.Payload, &pair) == nil && pair.Name == "GIT_PROTOCOL" && isProtocol(pair.Value)
		if ok {
			s.command.Protocol = pair.Value
		}
		_ = r.Reply(ok, nil)
	case "auth-agent-req@openssh.com":
		s.refuse(r, "the agent")
	case "pty-req":
		s.refuse(r, "a terminal of the host")
	case "x11-req":
		s.refuse(r, "X11")
	default:
		_ = r.Reply(false, nil)
	}
	return "", false
}

func (s *session) refuse(r *ssh.Request, what string) {
	_ = r.Reply(false, nil)
	if len(s.refused) < 3 {
		s.refused = append(s.refused, what)
	}
}

type stream struct{ ssh.Channel }

// Errors is Session's.
func (s stream) Errors() io.Writer { return s.Stderr() }
