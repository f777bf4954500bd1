package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/dns"
	"github.com/bailey-dev/bailey/internal/egress"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/origdst"
	"github.com/bailey-dev/bailey/internal/policy"
)

const (
	idleProxy = "an idle proxy"

	idleFor   = 3 * time.Second // before a proxy is weighed
	afterLoad = 6 * time.Second
	manyMore  = 200 // proxies in one process
)

// measureMemory weighs proxies that have had nothing to do yet, and what each
// further one would cost in a process with others.
func measureMemory(ctx context.Context, l *lab, r *report) error {
	p, err := rules()
	if err != nil {
		return err
	}
	// A second one, so that what both share of the binary is no one's own: on a
	// machine with a sandbox, `bailey run` shares it as well.
	c, err := l.startRole(ctx, gate.Settings{Sandbox: "sbx_fedcba9876543210", Policy: p})
	if err != nil {
		return err
	}
	pause(ctx, idleFor)
	m, err := weigh(c.proxy.pid())
	if err != nil {
		return err
	}
	m.Name = idleProxy
	r.Memory = append(r.Memory, m)
	names := map[string]string{caseBailey: "an idle proxy that opens TLS", casePlain: "the plain splice proxy"}
	for _, c := range l.among(casePlain, caseBailey) {
		if m, err = weigh(c.proxy.pid()); err != nil {
			return err
		}
		m.Name = names[c.name]
		r.Memory = append(r.Memory, m)
	}
	cmd := exec.CommandContext(ctx, l.self)
	cmd.Args, cmd.Stderr = []string{argvMany}, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("weigh many proxies in one process: %w", err)
	}
	return json.Unmarshal(out, &r.Further)
}

// measureLoaded weighs bailey's proxy after all the load.
func measureLoaded(ctx context.Context, l *lab, r *report) error {
	for _, c := range l.among(caseBailey, caseMitm) {
		if len(r.Latency) == 0 {
			return nil // there was no load
		}
		if c.name == caseBailey {
			pause(ctx, afterLoad)
		}
		m, err := weigh(c.proxy.pid())
		if err != nil {
			return err
		}
		m.Name = c.name + ", idle after all of this"
		r.Memory = append(r.Memory, m)
	}
	return nil
}

// weigh reads what a process has to itself (proc(5), smaps_rollup).
func weigh(pid int) (memory, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return memory{}, err
	}
	return readRollup(text)
}

func readRollup(text []byte) (memory, error) {
	kb := map[string]float64{}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		n, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return memory{}, fmt.Errorf("smaps_rollup: %q: %w", line, err)
		}
		kb[strings.TrimSuffix(fields[0], ":")] = n
	}
	m := memory{DirtyMB: kb["Private_Dirty"] / 1024, CleanMB: kb["Private_Clean"] / 1024, PSSMB: kb["Pss"] / 1024}
	if m.DirtyMB == 0 || m.PSSMB == 0 {
		return memory{}, errors.New("smaps_rollup has no line Private_Dirty or Pss")
	}
	m.USSMB = m.DirtyMB + m.CleanMB
	return m, nil
}

// weighMany is a process that holds one idle proxy, and then many more, and
// writes what each of those cost it, in MB.
func weighMany(out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	defer func() { _ = group.Wait() }()
	defer cancel()
	grow := func(n int) (float64, error) {
		for range n {
			if err := idle(ctx, group); err != nil {
				return 0, err
			}
		}
		pause(ctx, time.Second/2)
		debug.FreeOSMemory()
		m, err := weigh(os.Getpid())
		return m.USSMB, err
	}
	one, err := grow(1)
	if err != nil {
		return err
	}
	all, err := grow(manyMore)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(further{Proxies: manyMore, EachMB: (all - one) / manyMore})
}

// silent takes events and keeps none.
type silent struct{}

func (silent) Record(bailey.Event) {}

// idle adds a proxy and its DNS responder to this process.
func idle(ctx context.Context, group *errgroup.Group) error {
	p, err := rules()
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	pc, err := lc.ListenPacket(ctx, "udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	dnsLn, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	rules := policy.NewLive(p)
	resolver, pins := dns.NewHostResolver(ctx, time.Now, rules.Now().Names), &dns.Pins{}
	responder := dns.New(dns.Config{
		Sandbox: "sbx_0123456789abcdef", Rules: rules, Resolver: resolver, Recorder: silent{}, Pins: pins, Now: time.Now,
	})
	way := egress.New(egress.Config{
		Sandbox: "sbx_0123456789abcdef", Rules: rules, Resolver: resolver, Pins: pins, Recorder: silent{}, Now: time.Now,
		OriginalDst: origdst.Of, HostAddress: func(netip.Addr) bool { return false },
		HostDefines: func(string, netip.Addr) bool { return false },
	})
	group.Go(func() error { return responder.Run(ctx, pc, dnsLn) })
	group.Go(func() error { return way.Run(ctx, ln) })
	return nil
}
