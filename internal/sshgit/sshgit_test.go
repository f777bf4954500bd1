package sshgit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bailey-dev/bailey/internal/sshgit"
)

// TestParseCommand: the one form that git writes is read, and no other.
func TestParseCommand(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"git-upload-pack 'a/b.git'", "git-receive-pack '/srv/a'"} {
		if _, _, err := sshgit.ParseCommand(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "git-upload-pack", "git-upload-pack a/b", "git-upload-pack ''", "git-upload-pack 'a' 'b'", "git-upload-pack 'a'; ls", "git-upload-pack 'a'\n",
		"git-upload-pack  'a'", " git-upload-pack 'a'", "git-upload-pack '-u'", "git-upload-pack --strict 'a'", "git-upload-pack 'a'\\''b'", "git-upload-pack '~/a'",
		"git-upload-pack 'a%2fb'", "git-upload-pack 'a b'", "git-upload-pack 'a\x00b'", "git-upload-archive 'a'", "git upload-pack 'a'", "git-lfs-authenticate 'a' upload",
		"GIT-UPLOAD-PACK 'a'", "git-upload-pack \"a\"", "git-upload-pack 'é'", "git-upload-pack '" + strings.Repeat("a", 600) + "'", "sh -c 'git-upload-pack'",
	} {
		if _, path, err := sshgit.ParseCommand(bad); err == nil {
			t.Errorf("%q is read as %q", bad, path)
		}
	}
}

const (
	old  = "1111111111111111111111111111111111111111"
	next = "2222222222222222222222222222222222222222"
	none = "0000000000000000000000000000000000000000"
)

func pkt(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

// TestScreenPush: what is let through is passed on byte by byte, and of the rest
// nothing.
func TestScreenPush(t *testing.T) {
	t.Parallel()
	branches := []string{"agent/*", "main"}
	for name, tc := range map[string]struct {
		in string
		ok bool
	}{
		"one":             {pkt(old+" "+next+" refs/heads/agent/x\x00report-status agent=git/2") + "0000PACK", true},
		"new":             {pkt(none+" "+next+" refs/heads/main\x00caps") + "0000PACK", true},
		"two":             {pkt(old+" "+next+" refs/heads/main\x00caps") + pkt(old+" "+next+" refs/heads/agent/a/b") + "0000", true},
		"shallow":         {pkt("shallow "+old) + pkt(old+" "+next+" refs/heads/main") + "0000", true},
		"nothing":         {"0000", true},
		"gone":            {"", true},
		"another":         {pkt(old+" "+next+" refs/heads/dev\x00caps") + "0000PACK", false},
		"second":          {pkt(old+" "+next+" refs/heads/main\x00caps") + pkt(old+" "+next+" refs/heads/dev") + "0000", false},
		"prefix":          {pkt(old+" "+next+" refs/heads/agent/") + "0000", false},
		"like":            {pkt(old+" "+next+" refs/heads/agentx") + "0000", false},
		"tag":             {pkt(old+" "+next+" refs/tags/main") + "0000", false},
		"deletion":        {pkt(old+" "+none+" refs/heads/main\x00delete-refs") + "0000", false},
		"options":         {pkt(old+" "+next+" refs/heads/main\x00report-status push-options agent=git/2") + "0000" + pkt("merge_request.create") + "0000PACK", false},
		"space":           {pkt(old+" "+next+" refs/heads/main refs/heads/dev") + "0000", false},
		"certificate":     {pkt("push-cert\x00caps") + pkt("certificate version 0.1\n") + "0000", false},
		"short name":      {pkt(old[1:]+" "+next+" refs/heads/main") + "0000", false},
		"no length":       {"zzzz" + old, false},
		"length of three": {"0003", false},
		"delimiter":       {"0001" + pkt(old+" "+next+" refs/heads/main") + "0000", false},
		"too long":        {"ffff" + strings.Repeat("a", 70000), false},
		"cut":             {"0100abc", false},
		"many":            {strings.Repeat(pkt(old+" "+next+" refs/heads/main"), 1100) + "0000", false},
	} {
		out, err := sshgit.ScreenPush(strings.NewReader(tc.in), branches)
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if b, _ := io.ReadAll(out); string(b) != tc.in {
			t.Errorf("%s: %q is passed on", name, b)
		}
	}
}

func FuzzScreenPush(f *testing.F) {
	f.Add([]byte(pkt(old+" "+next+" refs/heads/main\x00caps") + "0000PACK"))
	f.Add([]byte(pkt("shallow "+old) + "0000"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := sshgit.ScreenPush(bytes.NewReader(in), []string{"main"})
		if err != nil {
			return
		}
		b, _ := io.ReadAll(out)
		if !bytes.Equal(b, in) {
			t.Errorf("%q is passed on as %q", in, b)
		}
		head, _, _ := bytes.Cut(in, []byte("0000"))
		if bytes.Contains(head, []byte(" refs/heads/dev")) && !bytes.Contains(head, []byte("\x00")) {
			t.Errorf("another branch in %q", in)
		}
	})
}

// serve has a server wait for one connection, and returns a client of it.
func serve(t *testing.T, handle sshgit.Handler) (net.Conn, chan error) {
	t.Helper()
	seed, err := sshgit.NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sshgit.NewServer(seed)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	ended := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			err = s.Serve(c, handle)
		}
		ended <- err
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, ended
}

// TestServer_OneCommand: a connection has one session with one command, and
// nothing else of SSH.
func TestServer_OneCommand(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c, ended := serve(t, func(cmd sshgit.Command, problem string, s sshgit.Session) uint8 {
		<-release
		_, _ = fmt.Fprintf(s, "%s %s %s %s%s", cmd.Login, cmd.Service, cmd.Path, cmd.Protocol, problem)
		return 3
	})
	conn, chans, reqs, err := ssh.NewClientConn(c, "x", &ssh.ClientConfig{User: "git", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, chans, reqs)
	for _, kind := range []string{"tcpip-forward", "streamlocal-forward@openssh.com"} {
		if ok, _, err := conn.SendRequest(kind, true, ssh.Marshal(struct {
			Addr string
			Port uint32
		}{"0.0.0.0", 80})); ok || err != nil {
			t.Errorf("%s: %v, %v", kind, ok, err)
		}
	}
	for _, kind := range []string{"direct-tcpip", "direct-streamlocal@openssh.com", "x11", "tun@openssh.com"} {
		if _, _, err := conn.OpenChannel(kind, nil); err == nil {
			t.Errorf("%s is opened", kind)
		}
	}
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s.Stdout = &out
	if s.Setenv("LD_PRELOAD", "x") == nil || s.Setenv("GIT_PROTOCOL", "version=2:object-format=sha1;x") == nil {
		t.Error("a variable is taken")
	}
	if err := s.Setenv("GIT_PROTOCOL", "version=2"); err != nil {
		t.Error(err)
	}
	if ok, err := s.SendRequest("auth-agent-req@openssh.com", true, nil); ok || err != nil {
		t.Errorf("agent: %v, %v", ok, err)
	}
	if err := s.Start("git-upload-pack 'a/b.git'"); err != nil {
		t.Fatal(err)
	}
	if ok, _ := s.SendRequest("exec", true, ssh.Marshal(struct{ L string }{"git-receive-pack 'a/b.git'"})); ok {
		t.Error("a second command is taken")
	}
	if _, err := client.NewSession(); err == nil {
		t.Error("a second session is opened")
	}
	close(release)
	err = s.Wait()
	if exit, ok := errors.AsType[*ssh.ExitError](err); !ok || exit.ExitStatus() != 3 {
		t.Errorf("it ends with %v", err)
	}
	if out.String() != "git git-upload-pack a/b.git version=2" {
		t.Errorf("done: %q", out.String())
	}
	_ = client.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestServer_BadBytes: what is no SSH, or of a size that nothing has, ends the
// connection.
func TestServer_BadBytes(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]string{
		"no SSH":        "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 70000),
		"huge packet":   "SSH-2.0-x\r\n\xff\xff\xff\xff" + strings.Repeat("x", 70000),
		"empty packet":  "SSH-2.0-x\r\n\x00\x00\x00\x00\x00\x00\x00\x00",
		"old protocol":  "SSH-1.5-x\r\n",
		"endless line":  "SSH-2.0-" + strings.Repeat("x", 70000),
		"gone at once":  "",
		"wrong padding": "SSH-2.0-x\r\n\x00\x00\x00\x0c\xff" + strings.Repeat("\x14", 11),
	} {
		c, ended := serve(t, func(sshgit.Command, string, sshgit.Session) uint8 { t.Error("a command"); return 0 })
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = io.WriteString(c, bytes)
		if bytes == "" {
			_ = c.Close()
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it goes on", name)
		}
	}
}

// TestParseRequest: what no client could have asked for is refused, whoever sends
// it.
func TestParseRequest(t *testing.T) {
	t.Parallel()
	if _, err := sshgit.ParseRequest([]byte(`{"host":"a.test","port":22,"command":{"login":"git","service":"git-upload-pack","path":"a/b"}}`)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		``, `{}`, `{"host":"a.test","command":{"service":"sh","path":"a"}}`, `{"command":{"service":"git-upload-pack","path":"a'; ls '"}}`,
		`{"command":{"service":"git-upload-pack","path":"a","protocol":"x"}}`,
	} {
		if r, err := sshgit.ParseRequest([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, r)
		}
	}
}
