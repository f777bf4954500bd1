package sshgit

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// opening is how long a host may take to begin a command; a person may have to
// touch a key meanwhile.
const opening = time.Minute

// User is whose key is used: what they know of hosts, and how they prove who
// they are.
type User struct {
	check   ssh.HostKeyCallback
	known   []string // files
	cas     bool     // some line is of an authority
	signers func() ([]ssh.Signer, error)
}

// NewUser reads what a user knows of hosts, from those files that are there, and
// takes their agent, which may be nil, and their key: a file with a private one,
// or with the public half of one that the agent holds; "" for all of the agent's.
func NewUser(known []string, agentConn io.ReadWriter, key string) (*User, error) {
	u := &User{}
	for _, path := range known {
		b, err := os.ReadFile(path)
		if err == nil {
			u.known = append(u.known, path)
			u.cas = u.cas || strings.Contains(string(b), "@cert-authority")
		}
	}
	var err error
	if u.check, err = knownhosts.New(u.known...); err != nil {
		return nil, fmt.Errorf("read the host keys that you know: %w", err)
	}
	if u.signers, err = findSigners(agentConn, key); err != nil {
		return nil, err
	}
	return u, nil
}

// findSigners returns what gives the keys to prove with.
func findSigners(agentConn io.ReadWriter, key string) (func() ([]ssh.Signer, error), error) {
	var held func() ([]ssh.Signer, error)
	if agentConn != nil {
		held = agent.NewClient(agentConn).Signers
	}
	if key == "" {
		if held == nil {
			return nil, errors.New("no ssh-agent answers (SSH_AUTH_SOCK), and no key is named")
		}
		return held, nil
	}
	b, err := os.ReadFile(key)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if public, _, _, _, err := ssh.ParseAuthorizedKey(b); err == nil {
		if held == nil {
			return nil, fmt.Errorf("%s is the public half of a key, and no ssh-agent answers that could hold the other (SSH_AUTH_SOCK)", key)
		}
		return func() ([]ssh.Signer, error) {
			all, err := held()
			return slices.DeleteFunc(all, func(s ssh.Signer) bool { return string(s.PublicKey().Marshal()) != string(public.Marshal()) }), err
		}, nil
	}
	own, err := ssh.ParsePrivateKey(b)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, fmt.Errorf("%s has a passphrase: add it to your agent with ssh-add, and name the file that ends in .pub", key)
	}
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", key, err)
	}
	return func() ([]ssh.Signer, error) { return []ssh.Signer{own}, nil }, nil
}

// Task is one command at a host, over a connection that is there.
type Task struct {
	Host           string
	Port           uint16
	Command        Command
	Branches       []string // that a push may update; empty: any reference
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run does it and returns its exit code. The error is a sentence for the one who
// started the sandbox: why there was no command, or that it was refused.
func (u *User) Run(conn net.Conn, t Task) (code uint8, err error) {
	at := net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
	algorithms, err := u.algorithms(at, conn.RemoteAddr())
	if err != nil {
		return 0, err
	}
	_ = conn.SetDeadline(time.Now().Add(opening)) //nolint:forbidigo // a socket's deadline is by the clock
	c, channels, requests, err := ssh.NewClientConn(conn, at, &ssh.ClientConfig{
		User: t.Command.Login, HostKeyAlgorithms: algorithms, HostKeyCallback: u.check,
		Auth:          []ssh.AuthMethod{ssh.PublicKeysCallback(u.signers)},
		ClientVersion: "SSH-2.0-bailey",
	})
	if err != nil {
		return 0, u.explain(at, t.Command.Login, err)
	}
	client := ssh.NewClient(c, channels, requests)
	defer func() { _ = client.Close() }()
	s, err := client.NewSession()
	if err != nil {
		return 0, fmt.Errorf("%s opens no session: %w", at, err)
	}
	_ = conn.SetDeadline(time.Time{})
	if t.Command.Protocol != "" {
		_ = s.Setenv("GIT_PROTOCOL", t.Command.Protocol) // a host that knows none of it speaks the first
	}
	return t.attend(s)
}

// attend runs the command in a session of the host.
func (t Task) attend(s *ssh.Session) (uint8, error) {
	s.Stdout, s.Stderr = t.Stdout, t.Stderr
	in, err := s.StdinPipe()
	if err == nil {
		err = s.Start(t.Command.line())
	}
	if err != nil {
		return 0, fmt.Errorf("%s does not begin %s: %w", t.Host, t.Command.Service, err)
	}
	refused := make(chan error, 1)
	go func() {
		from := t.Stdin
		var err error
		if t.Command.Service == pushService && len(t.Branches) > 0 {
			from, err = screenPush(t.Stdin, t.Branches)
		}
		if err != nil {
			refused <- err
			_ = s.Close()
			return
		}
		_, _ = io.Copy(in, from)
		_ = in.Close()
	}()
	err = s.Wait()
	select {
	case why := <-refused:
		if errors.Is(why, ErrRef) {
			return 0, why
		}
	default:
	}
	exit, ended := errors.AsType[*ssh.ExitError](err)
	switch {
	case err == nil:
		return 0, nil
	case ended && exit.ExitStatus() > 0 && exit.ExitStatus() < 256:
		return uint8(exit.ExitStatus()), nil
	}
	return 0, fmt.Errorf("%s ended the connection: %w", t.Host, err)
}

// algorithms are those of the keys that the user knows of a host, so that it
// shows one of them, and not another that it has too.
func (u *User) algorithms(at string, from net.Addr) ([]string, error) {
	err := u.check(at, from, noKey{})
	key, known := errors.AsType[*knownhosts.KeyError](err)
	if !known || len(key.Want) == 0 {
		if u.cas {
			return nil, nil // an authority may vouch for it
		}
		return nil, u.unknown(at)
	}
	var out []string
	for _, k := range key.Want {
		name := k.Key.Type()
		if name == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		out = append(out, name)
	}
	if u.cas {
		out = append(out, ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01)
	}
	return out, nil
}

// noKey is one that nobody has.
type noKey struct{}

// Type is ssh.PublicKey's.
func (noKey) Type() string { return "none" }

// Marshal is ssh.PublicKey's.
func (noKey) Marshal() []byte { return []byte("none") }

// Verify is ssh.PublicKey's.
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

func (u *User) unknown(at string) error {
	return fmt.Errorf("the key of %s is not among those that you know; compare it with what the host publishes, and add it outside of the sandbox by connecting once with ssh, then start the sandbox anew", at)
}

// explain says why a host was not entered.
func (u *User) explain(at, login string, err error) error {
	key, ofKey := errors.AsType[*knownhosts.KeyError](err)
	revoked, isRevoked := errors.AsType[*knownhosts.RevokedError](err)
	switch {
	case isRevoked:
		return fmt.Errorf("the key of %s is revoked (%s:%d)", at, revoked.Revoked.Filename, revoked.Revoked.Line)
	case ofKey && len(key.Want) > 0:
		return fmt.Errorf("the key of %s is not the one that you know (%s:%d): somebody may stand in between; if the host has a new one, compare it with what the host publishes, and renew it outside of the sandbox with ssh-keygen -R", at, key.Want[0].Filename, key.Want[0].Line)
	case ofKey:
		return u.unknown(at)
	case strings.Contains(err.Error(), "no common algorithm for host key"):
		return fmt.Errorf("%s shows none of the kinds of keys that you know of it: somebody may stand in between, or its keys are new; compare them with what the host publishes", at)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%s takes none of your keys for %s: see that ssh-add -l lists the one, or name it with key in net.git", at, login)
	}
	return fmt.Errorf("speak SSH with %s: %w", at, err)
}
