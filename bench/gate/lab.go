package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/bench/figures"
)

// The contenders.
const (
	caseDirect = "no proxy"
	casePlain  = "plain splice proxy"
	caseBailey = "bailey"
	caseLent   = "bailey, with a secret"
	caseMitm   = "mitmproxy"
	caseSquid  = "squid"
)

// contender is one way from a client to the upstream.
type contender struct {
	name    string
	ns      *os.File       // where its clients are
	connect netip.AddrPort // a proxy that wants to be asked; zero: the client dials the upstream
	roots   *x509.CertPool // who signs where TLS is opened; nil: it opens none
	auth    string         // a header of each request, with its end
	proxy   *process       // nil: none
}

// lab is the world and who stands in it.
type lab struct {
	dir        string
	n          int
	bailey     string
	w          *world
	contenders []*contender
	processes  []*process
	missing    map[string]string
	self       string
}

func newLab(ctx context.Context, o options) (*lab, error) {
	l := &lab{n: o.n, missing: map[string]string{}}
	var err error
	if l.bailey, err = figures.Program(o.bailey); err != nil {
		return nil, fmt.Errorf("%w: run make first", err)
	}
	if l.dir, err = os.MkdirTemp("/var/tmp", "bailey-gate-"); err != nil {
		return nil, err
	}
	if err := l.prepare(ctx); err != nil {
		l.close()
		return nil, err
	}
	l.contenders = []*contender{{name: caseDirect, ns: l.w.host}}
	for name, start := range map[string]func(context.Context) (*contender, error){
		casePlain: l.startPlain, caseBailey: l.startBailey, caseLent: l.startLending, caseMitm: l.startMitm, caseSquid: l.startSquid,
	} {
		c, err := start(ctx)
		if err != nil {
			l.missing[name] = err.Error()
			continue
		}
		c.name = name
		l.contenders = append(l.contenders, c)
	}
	return l, ctx.Err()
}

// prepare makes the world, and the files that proxies see in place of the
// machine's.
func (l *lab) prepare(ctx context.Context) error {
	var err error
	if l.w, err = newWorld(ctx); err != nil {
		return err
	}
	if l.self, err = filepath.EvalSymlinks("/proc/self/exe"); err != nil {
		return err
	}
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"resolv.conf": []byte("nameserver " + nameserv.String() + "\n"),
		"hosts":       []byte("127.0.0.1 localhost\n"),
		"ca.pem":      l.w.ca.PEM(),
	} {
		if err := os.WriteFile(filepath.Join(l.dir, name), data, 0o644); err != nil {
			return err
		}
	}
	// Where everybody may run them: a checkout may be closed to others.
	l.bailey, err = copyProgram(l.bailey, l.dir)
	if err != nil {
		return err
	}
	l.self, err = copyProgram(l.self, l.dir)
	return err
}

// copyProgram copies an executable, to the disk: what is mapped of a file that
// waits to be written would count as its process's own.
func copyProgram(from, dir string) (string, error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, filepath.Base(from))
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return to, errors.Join(err, f.Sync(), f.Close())
}

func (l *lab) close() {
	for _, p := range l.processes {
		p.stop()
	}
	if l.w != nil {
		_ = l.w.close()
	}
	if err := os.RemoveAll(l.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench/gate:", err)
	}
}

// series is what contenders take turns in.
type series struct {
	name string
	n    int           // turns
	most time.Duration // in all: on a busy machine there are fewer turns, but some
}

// fewest is how many turns there are in any case.
const fewest = 3

// turns has some contenders take turns in random order, and once more to warm
// up; f is told which turn it is, from -1. One that fails is left out from then
// on.
func (l *lab) turns(ctx context.Context, s series, who []*contender, f func(*contender, int) error) error {
	failed := map[*contender]bool{}
	begin := time.Now()
	for i := -1; i < s.n && (i < fewest || time.Since(begin) < s.most); i++ {
		for _, j := range rand.Perm(len(who)) {
			c := who[j]
			if failed[c] {
				continue
			}
			if err := f(c, i); err != nil {
				failed[c] = true
				l.missing[s.name+", "+c.name] = err.Error()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// among returns the contenders of some names that are there.
func (l *lab) among(names ...string) []*contender {
	var out []*contender
	for _, c := range l.contenders {
		for _, name := range names {
			if c.name == name {
				out = append(out, c)
			}
		}
	}
	return out
}

// patience bounds what a single connection may take.
const patience = 10 * time.Second

// sockets makes n TCP sockets where the contender's clients are. A socket stays
// with its namespace, so connecting them costs no thread a change.
func (c *contender) sockets(n int) ([]int, error) {
	fds := make([]int, 0, n)
	err := within(c.ns, func() error {
		for range n {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
			if err != nil {
				return err
			}
			fds = append(fds, fd)
		}
		return nil
	})
	if err != nil {
		closeAll(fds)
		return nil, fmt.Errorf("make sockets: %w", err)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// dial makes one socket and connects it to a port of the upstream.
func (c *contender) dial(name string, port uint16) (net.Conn, error) {
	fds, err := c.sockets(1)
	if err != nil {
		return nil, err
	}
	return c.open(fds[0], name, port)
}

// open connects a socket to a port of the upstream, whose name is for a proxy
// that is asked; it closes the socket on error. The connection has a deadline.
func (c *contender) open(fd int, name string, port uint16) (net.Conn, error) {
	to := netip.AddrPortFrom(upstream, port)
	if c.connect.IsValid() {
		to = c.connect
	}
	file := os.NewFile(uintptr(fd), "client")
	defer file.Close()
	if err := connect(file, to); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(conn.SetDeadline(time.Now().Add(patience)), c.ask(conn, name, port)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// connect is connect(2) on a non-blocking socket, and the wait for its end.
func connect(file *os.File, to netip.AddrPort) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	err = errors.Join(err, file.SetDeadline(time.Now().Add(patience)))
	begun, result := false, error(nil)
	err2 := raw.Write(func(fd uintptr) bool {
		if !begun {
			begun = true
			result = syscall.Connect(int(fd), &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
			return !errors.Is(result, syscall.EINPROGRESS)
		}
		errno, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		if result = err; err == nil && errno != 0 {
			result = syscall.Errno(errno)
		}
		return true
	})
	return errors.Join(err, err2, result)
}

// ask asks a proxy for the upstream (RFC 9110 §9.3.6).
func (c *contender) ask(conn net.Conn, name string, port uint16) error {
	if !c.connect.IsValid() {
		return nil
	}
	host := fmt.Sprintf("%s:%d", name, port)
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host); err != nil {
		return err
	}
	// It says nothing after its head until we do, so nothing is lost.
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("CONNECT %s: %w", host, err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("CONNECT %s: %s", host, resp.Status)
	}
	return nil
}

// shake does a TLS handshake for a name with whoever opens TLS, or with the
// upstream.
func (c *contender) shake(conn net.Conn, name string, roots *x509.CertPool, protos ...string) (*tls.Conn, error) {
	s := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: roots, NextProtos: protos, MinVersion: tls.VersionTLS13})
	//nolint:noctx // the connection has a deadline
	if err := s.Handshake(); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS handshake for %s: %w", name, err), conn.Close())
	}
	return s, nil
}
