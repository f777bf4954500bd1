package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/wire"
)

// The model as the gateway is told of it, with a key and a budget, so that all
// that it does is done.
const (
	modelID     = "bench"
	providerKey = "sk-ant-0123456789-abcdefghijklmnopqrstuvwxyz-0123456789"
	token       = "bly-0123456789abcdef0123456789abcdef"
)

// startRole starts bailey's gateway as `bailey run` does, with this process at
// the sandbox's end of its wire.
func (l *lab) startRole(ctx context.Context) ([]*contender, error) {
	limits, err := budget.ParseLimits([]string{"1000000M"})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(token))
	s := modelgate.Settings{
		Sandbox: "sbx_0123456789abcdef", Token: sum[:], Limits: budget.Limits{Run: limits},
		Pin:      gateway.Pin{ID: modelID, Name: answered, Dialect: gateway.Anthropic},
		Provider: models.Provider{Name: "local", Kind: models.Anthropic, Base: "http://" + l.provider.at, Secret: "provider-key"},
	}
	page, err := budget.In(filepath.Join(l.dir, "data")).Newest(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	defer page.File.Close()
	return l.role(ctx, s, page)
}

// pipes collects descriptors until one cannot be made.
type pipes struct {
	ours, theirs []*os.File
	err          error
}

func (p *pipes) pair(reads bool) {
	if p.err != nil {
		return
	}
	r, w, err := os.Pipe()
	if p.err = err; err != nil {
		return
	}
	if reads { // they read
		r, w = w, r
	}
	p.ours, p.theirs = append(p.ours, r), append(p.theirs, w)
}

func (p *pipes) sockets(kind int) {
	if p.err != nil {
		return
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, kind|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if p.err = err; err == nil {
		p.ours, p.theirs = append(p.ours, os.NewFile(uintptr(fds[0]), "ours")), append(p.theirs, os.NewFile(uintptr(fds[1]), "theirs"))
	}
}

func (l *lab) role(ctx context.Context, s modelgate.Settings, page budget.Page) ([]*contender, error) {
	var fds pipes
	fds.pair(true)                      // settings
	fds.sockets(syscall.SOCK_STREAM)    // the wire
	fds.pair(false)                     // events
	fds.sockets(syscall.SOCK_SEQPACKET) // days
	fds.pair(true)                      // keys
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err := errors.Join(fds.err, err); err != nil {
		return nil, err
	}
	fds.theirs = append(fds.theirs, null)
	settings, calls, events, days, keys := fds.ours[0], fds.ours[1], fds.ours[2], fds.ours[3], fds.ours[4]
	p := &process{cmd: exec.CommandContext(ctx, l.bailey), hold: []io.Closer{calls, days, keys}}
	p.cmd.Args, p.cmd.Env, p.cmd.Dir, p.cmd.ExtraFiles = []string{modelgate.Argv0}, modelgate.Env(), "/", fds.theirs
	err = l.start(p)
	for _, f := range fds.theirs {
		_ = f.Close()
	}
	if err != nil {
		return nil, err
	}
	go func() { // as `bailey run` does, but for keeping them
		_, _ = io.Copy(io.Discard, events)
		_ = events.Close()
	}()
	day, err := json.Marshal(modelgate.Day{Day: page.Day})
	err = errors.Join(err,
		json.NewEncoder(settings).Encode(s), settings.Close(),
		json.NewEncoder(keys).Encode(modelgate.Key{Value: []byte(providerKey)}),
		fdpass.SendFile(days, day, page.File),
	)
	if err != nil {
		return nil, err
	}
	caller, err := wire.NewCaller(calls)
	if err != nil {
		return nil, err
	}
	w := &worker{dial: func(string) (net.Conn, error) { return caller.Dial() }}
	return []*contender{{name: caseBailey, way: way{Token: token}, ask: w.ask, proxy: p, pid: p.cmd.Process.Pid}}, nil
}

// modelsFile is what a person would write.
const modelsFile = `providers:
  local: {kind: anthropic, base_url: "http://%s", key: {secret: provider-key}}
models:
  ` + modelID + `: {provider: local, dialect: anthropic, name: ` + answered + `}
`

// startSandbox starts one, with this program's client in it.
func (l *lab) startSandbox(ctx context.Context) ([]*contender, error) {
	home, work := filepath.Join(l.dir, "home"), filepath.Join(l.dir, "work")
	config := filepath.Join(home, ".config/bailey")
	if err := errors.Join(os.MkdirAll(config, 0o700), os.MkdirAll(work, 0o755)); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "models.yaml"), fmt.Appendf(nil, modelsFile, l.provider.at), 0o600); err != nil {
		return nil, err
	}
	if _, err := copyProgram(l.self, filepath.Join(work, argvInside)); err != nil {
		return nil, err
	}
	env := append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=", "DBUS_SESSION_BUS_ADDRESS=")
	keep := exec.CommandContext(ctx, l.bailey, "secret", "set", "provider-key", "--for", "gateway")
	keep.Env, keep.Stdin = env, strings.NewReader(providerKey)
	if out, err := keep.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("keep the provider's key: %w: %s", err, out)
	}
	var plainAt string
	flags := []string{"run", "--quiet", "--model", modelID, "--budget", "1000000M"}
	for _, c := range l.among(casePlain) {
		_, port, err := net.SplitHostPort(c.way.Addr)
		if err != nil {
			return nil, err
		}
		plainAt = net.JoinHostPort("host.bailey.internal", port)
		flags = append(flags, "--host-service", port)
	}
	p := &process{cmd: exec.CommandContext(ctx, l.bailey, append(flags, "--", "./"+argvInside)...)}
	p.cmd.Env, p.cmd.Dir = env, work
	far, err := l.startFar(p)
	if err != nil {
		return nil, err
	}
	out := []*contender{
		{name: caseBeside, way: way{Addr: atBeside}, ask: far.ask, proxy: p},
		{name: caseInside, way: way{Addr: atGateway}, ask: far.ask, proxy: p},
	}
	if plainAt != "" {
		out = append(out, &contender{name: caseAirlock, way: way{Addr: plainAt}, ask: far.ask, proxy: p})
	}
	if _, err := out[1].do(order{Do: "calls", N: 1}); err != nil {
		return nil, fmt.Errorf("ask from inside: %w: %s", err, strings.TrimSpace(p.said.String()))
	}
	out[1].pid, err = child(p.cmd.Process.Pid, modelgate.Argv0)
	return out, err
}

// far is a worker in another process.
type far struct {
	mu  sync.Mutex
	in  *json.Encoder
	out *json.Decoder
	p   *process
}

func (l *lab) startFar(p *process) (*far, error) {
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.hold = w, append(p.hold, in)
	err = errors.Join(l.start(p), w.Close())
	return &far{in: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(r)), p: p}, err
}

func (f *far) ask(o order) (r result, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.in.Encode(o); err != nil {
		return r, err
	}
	if err := f.out.Decode(&r); err != nil {
		return r, fmt.Errorf("the sandbox ended: %w", err)
	}
	return r, nil
}

// child finds a process by its parent and its argv[0].
func child(parent int, argv0 string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		name, _, _ := strings.Cut(string(text), "\x00")
		if err != nil || name != argv0 {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if err == nil && strings.Contains(string(stat), "\nPPid:\t"+strconv.Itoa(parent)+"\n") {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no process %s below %d", argv0, parent)
}
