package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/airlock"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/secret"
)

// nobody is who the proxies run as.
const nobody = 65534

// process is one started proxy.
type process struct {
	cmd   *exec.Cmd
	said  bytes.Buffer // on standard error
	hold  []io.Closer  // closed at the end: the airlock, the socket
	ended chan struct{}
	once  sync.Once
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) stop() {
	p.once.Do(func() {
		for _, c := range p.hold {
			_ = c.Close()
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(5 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
}

// start starts a program in the host's namespace, with the lab's resolv.conf,
// hosts and certificates in place of the machine's, as nobody.
func (l *lab) start(ctx context.Context, files []*os.File, env []string, argv ...string) (*process, error) {
	p := &process{ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, l.self)
	p.cmd.Args = append([]string{argvEnter, l.dir}, argv...)
	p.cmd.Env, p.cmd.Dir, p.cmd.ExtraFiles, p.cmd.Stderr = env, "/", files, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Setsid: true}
	if p.cmd.Env == nil {
		p.cmd.Env = []string{}
	}
	if err := within(l.w.host, p.cmd.Start); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	l.processes = append(l.processes, p)
	return p, nil
}

// become puts the lab's files in place, gives up root, and becomes a program:
// its arguments are the lab's folder, the program's path and its argv.
func become(args []string) error {
	dir, path, argv := args[0], args[1], args[2:]
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for from, to := range map[string]string{
		"resolv.conf": "/etc/resolv.conf", "hosts": "/etc/hosts", "ca.pem": "/etc/ssl/certs/ca-certificates.crt",
	} {
		if err := syscall.Mount(filepath.Join(dir, from), to, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount over %s: %w", to, err)
		}
	}
	if isRealRoot() {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return fmt.Errorf("become another user: %w", err)
		}
	}
	return fmt.Errorf("start %s: %w", path, syscall.Exec(path, argv, os.Environ()))
}

// isRealRoot tells root from that of a user namespace with one id, who is
// nobody else's.
func isRealRoot() bool {
	ids, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(ids))
	return err == nil && len(fields) == 3 && fields[2] != "1"
}

func (l *lab) startPlain(ctx context.Context) (*contender, error) {
	lock, err := airlock.Build()
	if err != nil {
		return nil, err
	}
	p, err := l.start(ctx, []*os.File{lock.TCP}, nil, l.self, argvPlain)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	p.hold = append(p.hold, lock)
	return &contender{ns: lock.Sandbox, proxy: p}, nil
}

// rules are what the clients need; those with a port of their own are for
// bytes that name no host.
func rules() (policy.Policy, error) {
	p := policy.Policy{Mode: bailey.NetAllow}
	for _, text := range []string{nameSpliced, nameSpliced + ":9443", upstream.String() + ":9000"} {
		r, err := policy.ParseDenyRule(text)
		if err != nil {
			return p, err
		}
		p.Allow = append(p.Allow, r)
	}
	return p, p.Validate()
}

// opened are rules with one for which TLS is opened.
func opened() (policy.Policy, error) {
	p, err := rules()
	if err != nil {
		return p, err
	}
	r, err := policy.ParseDenyRule(nameOpened)
	if err == nil {
		r, err = r.With(policy.Narrow{Inspect: true})
	}
	if err != nil {
		return p, err
	}
	p.Allow = append(p.Allow, r)
	return p, p.Validate()
}

func (l *lab) startBailey(ctx context.Context) (*contender, error) { return l.startOpening(ctx, nil) }

// startLending starts one that puts a value on each request, and holds as many
// secrets as a busy agent may.
func (l *lab) startLending(ctx context.Context) (*contender, error) {
	const held = 50
	host := secret.Rule{Hosts: []secret.Host{{Name: nameOpened, Port: portTLS}}, Place: secret.Place{Kind: secret.Header, Name: "Authorization", Format: "Bearer {}"}}
	var all []gate.Secret
	for i := range held {
		value := fmt.Sprintf("ghp_%036d", i)
		all = append(all, gate.Secret{
			ID: secret.ID(fmt.Sprintf("sec_%016x", i)), Name: fmt.Sprintf("s%d", i), Value: []byte(value),
			Placeholder: secret.NewPlaceholder([]byte(value), 0), Rules: []secret.Rule{host},
		})
	}
	c, err := l.startOpening(ctx, all)
	if err == nil {
		c.auth = "Authorization: Bearer " + all[0].Placeholder + "\r\n"
	}
	return c, err
}

func (l *lab) startOpening(ctx context.Context, secrets []gate.Secret) (*contender, error) {
	p, err := opened()
	if err != nil {
		return nil, err
	}
	const id = "sbx_0123456789abcdef"
	root, err := gate.NewRoot(id, p, time.Now(), 0)
	if err != nil {
		return nil, err
	}
	sealed, err := root.Seal()
	if err != nil {
		return nil, err
	}
	c, err := l.startRole(ctx, gate.Settings{Sandbox: id, Policy: p, Root: sealed, Secrets: secrets})
	if err != nil {
		return nil, err
	}
	c.roots = x509.NewCertPool()
	if !c.roots.AppendCertsFromPEM(root.PEM()) {
		return nil, errors.New("the root of its sandbox cannot be read")
	}
	return c, nil
}

// startRole starts bailey's proxy as `bailey run` does, on an airlock of its
// own.
func (l *lab) startRole(ctx context.Context, s gate.Settings) (*contender, error) {
	lock, err := airlock.Build()
	if err != nil {
		return nil, err
	}
	p, err := l.role(ctx, s, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	p.hold = append(p.hold, lock)
	return &contender{ns: lock.Sandbox, proxy: p}, nil
}

func (l *lab) role(ctx context.Context, s gate.Settings, lock *airlock.Lock) (*process, error) {
	settingsR, settingsW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer settingsR.Close()
	defer settingsW.Close()
	eventsR, eventsW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer eventsW.Close()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, eventsR.Close())
	}
	theirs, peer := os.NewFile(uintptr(fds[1]), "peer"), os.NewFile(uintptr(fds[0]), "peer")
	defer theirs.Close()
	control, controlIn, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, eventsR.Close(), peer.Close())
	}
	defer control.Close()
	p, err := l.start(ctx, []*os.File{settingsR, theirs, eventsW, control}, gate.Env(), l.bailey, gate.Argv0)
	if err != nil {
		return nil, errors.Join(err, eventsR.Close(), peer.Close(), controlIn.Close())
	}
	go func() { // as `bailey run` does, but for keeping them
		_, _ = io.Copy(io.Discard, eventsR)
		_ = eventsR.Close()
	}()
	p.hold = append(p.hold, peer, controlIn)
	return p, errors.Join(
		json.NewEncoder(settingsW).Encode(s),
		fdpass.SendListeners(peer, lock.TCP, lock.DNSUDP, lock.DNSTCP),
	)
}

func (l *lab) startMitm(ctx context.Context) (*contender, error) {
	path, err := exec.LookPath("mitmdump")
	if err != nil {
		return nil, errors.New("mitmdump is not installed (Debian: mitmproxy)")
	}
	conf := filepath.Join(l.dir, "mitm")
	if err := errors.Join(os.Mkdir(conf, 0o755), l.give(conf)); err != nil {
		return nil, err
	}
	at := netip.AddrPortFrom(hostAddr, 8081)
	c, err := l.asked(ctx, at, []string{"HOME=" + conf, "PATH=/usr/bin:/bin"}, path, path,
		"--quiet", "--listen-host", at.Addr().String(), "--listen-port", "8081",
		"--set", "confdir="+conf, "--set", "ssl_verify_upstream_trusted_ca="+filepath.Join(l.dir, "ca.pem"),
		"--set", "flow_detail=0", "--set", "block_global=false", "--set", "stream_large_bodies=1",
		"--ignore-hosts", "^"+strings.ReplaceAll(nameSpliced, ".", `\.`)+"$")
	if err != nil {
		return nil, err
	}
	// Its own root, which it made at its first start.
	root, err := os.ReadFile(filepath.Join(conf, "mitmproxy-ca-cert.pem"))
	if err != nil {
		return nil, err
	}
	c.roots = x509.NewCertPool()
	if !c.roots.AppendCertsFromPEM(root) {
		return nil, errors.New("its root cannot be read")
	}
	return c, nil
}

func (l *lab) startSquid(ctx context.Context) (*contender, error) {
	path, err := exec.LookPath("squid")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/squid"); err != nil {
			return nil, errors.New("squid is not installed")
		}
	}
	at := netip.AddrPortFrom(hostAddr, 3128)
	conf := filepath.Join(l.dir, "squid.conf")
	text := fmt.Sprintf("http_port %s\nhttp_access allow all\naccess_log none\ncache_log /dev/null\ncache deny all\npid_filename none\nvisible_hostname squid.test\ncoredump_dir /\nmax_filedescriptors 4096\n", at)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return l.asked(ctx, at, []string{"PATH=/usr/bin:/bin"}, path, path, "-N", "-f", conf)
}

// give makes a folder the proxies' own.
func (l *lab) give(folder string) error {
	if !isRealRoot() {
		return nil
	}
	return os.Chown(folder, nobody, nobody)
}

// asked starts a proxy that is asked by CONNECT and waits until it answers.
func (l *lab) asked(ctx context.Context, at netip.AddrPort, env []string, argv ...string) (*contender, error) {
	p, err := l.start(ctx, nil, env, argv...)
	if err != nil {
		return nil, err
	}
	c := &contender{ns: l.w.host, connect: at, proxy: p}
	for until := time.Now().Add(30 * time.Second); ; {
		conn, err := c.dial(nameSpliced, portTLS)
		if err == nil {
			return c, conn.Close()
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("it ended: %s", strings.TrimSpace(p.said.String()))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(until) {
			p.stop()
			return nil, err
		}
	}
}
