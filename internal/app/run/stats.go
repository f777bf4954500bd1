package run

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/linux/proc"
	"github.com/bailey-dev/bailey/internal/watch"
	"github.com/bailey-dev/bailey/internal/wire"
)

// uses counts what passed the network and what was asked of the model.
type uses struct {
	mu    sync.Mutex
	open  map[uint64]bool // connections, by their number
	net   control.NetUse
	model control.ModelUse
}

// mostOpen bounds what is kept of open connections; the proxy has less.
const mostOpen = 1 << 16

// passed counts an event of the proxy's.
func (c *uses) passed(e bailey.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Type == bailey.EventNetOpen {
		if c.open == nil {
			c.open = map[uint64]bool{}
		}
		if len(c.open) < mostOpen {
			c.open[e.Connection] = true
		}
		return
	}
	if e.Connection != 0 {
		delete(c.open, e.Connection)
	}
	if e.Verdict == "allow" {
		c.net.Allowed++
	} else {
		c.net.Denied++
	}
	c.net.In += e.BytesIn
	c.net.Out += e.BytesOut
}

// called counts an event of the model gateway's.
func (c *uses) called(e bailey.Event) {
	if e.Type == bailey.EventModelTotal || e.Use == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.model.Requests++
	c.model.Input += e.Use.Input + e.Use.CacheRead + e.Use.CacheWrite
	c.model.Output += e.Use.Output
}

// Sample answers `bailey stats`.
func (u *running) Sample() control.Sample {
	l := u.plan.spec.Limits
	s := control.Sample{Name: u.plan.name, ID: u.plan.spec.ID, Time: time.Now(), CPUs: float64(l.MilliCPUs) / 1000}
	s.Memory, s.CPU = u.machine()
	s.CPU = max(s.CPU, 0)
	if s.Memory != nil {
		s.Memory.Limit = l.MemoryBytes
	}
	if n, tmp := u.inside(); n >= 0 {
		s.Processes = &control.Gauge{Used: n, Limit: l.Processes - wire.ThreadReserve}
		s.Tmp = tmp
	}
	if g := u.growth(); g.Known && l.DiskBytes > 0 {
		s.Disk = &control.Gauge{Used: g.Bytes, Limit: l.DiskBytes}
		s.Inodes = &control.Gauge{Used: g.Inodes, Limit: l.Inodes}
	}
	u.uses.mu.Lock()
	defer u.uses.mu.Unlock()
	if u.plan.policy.Mode != bailey.NetNone {
		n := u.uses.net
		n.Open = int64(len(u.uses.open))
		s.Net = &n
	}
	if m := u.plan.model; m != nil {
		n := u.uses.model
		n.Model = m.Name
		s.Model = &n
	}
	return s
}

// machine is what the sandbox takes of the machine: by its cgroup, or else by
// its processes.
func (u *running) machine() (*control.Gauge, time.Duration) {
	u.mu.Lock()
	sb := u.sandbox
	u.mu.Unlock()
	if sb == nil {
		return nil, -1
	}
	used := u.limits.group.Usage()
	if used.MemoryBytes >= 0 && used.CPU >= 0 {
		return &control.Gauge{Used: used.MemoryBytes}, used.CPU
	}
	ids, err := proc.Descendants(sb.Pid)
	if err != nil {
		return nil, used.CPU
	}
	memory, cpu := int64(0), time.Duration(0)
	for _, id := range ids {
		n, err := proc.PSS(id.PID)
		if err != nil {
			n, _ = proc.RSS(id.PID) // one that has ended has none
		}
		memory += n
		t, _ := proc.CPU(id.PID) // likewise
		cpu += t
	}
	if used.MemoryBytes >= 0 {
		memory = used.MemoryBytes
	}
	if used.CPU >= 0 {
		cpu = used.CPU
	}
	return &control.Gauge{Used: memory}, cpu
}

// measuring is what the watchdog last said of the workspace's growth.
type measuring struct {
	asking sync.Mutex // one asks at a time
	came   chan watch.Growth
	owed   bool // an answer; asking guards it
	known  watch.Growth
}

// measureWithin is how long the watchdog may take to answer: what it last said
// will do.
const measureWithin = 300 * time.Millisecond

// measured takes its answer. There is room for the one that was asked for.
func (m *measuring) measured(g watch.Growth) {
	select {
	case m.came <- g:
	default:
	}
}

// growth is by how much the workspace has grown; before the command runs the
// watchdog has other things to say.
func (u *running) growth() watch.Growth {
	if !closed(u.ready) {
		return watch.Growth{}
	}
	return u.limits.growth()
}

// growth asks the watchdog how much the workspace has grown.
func (l *limits) growth() watch.Growth {
	m := &l.measuring
	m.asking.Lock()
	defer m.asking.Unlock()
	if !m.owed && l.dog.Measure() != nil {
		return m.known
	}
	m.owed = true
	select {
	case m.known = <-m.came:
		m.owed = false
	case <-time.After(measureWithin):
	}
	return m.known
}

// insideWithin bounds the look inside: whoever asks waits for five seconds.
const insideWithin = 3 * time.Second

// lookInside counts processes and says how full the file systems in memory are.
const lookInside = `set -- /proc/[0-9]*; echo $#; stat -f -c '%b %f %S' /tmp "$HOME" 2>/dev/null`

// inside returns the number of processes inside, without the two of the look,
// and how full /tmp and the home are; -1 when the sandbox does not say.
func (u *running) inside() (int64, *control.Gauge) {
	if !closed(u.ready) || u.gone() {
		return -1, nil
	}
	ctx, cancel := context.WithTimeout(u.ctx, insideWithin)
	defer cancel()
	out := u.ask(ctx, wire.Exec{Argv: []string{"/bin/sh", "-c", lookInside}, Env: u.plan.exec.Env, Dir: "/", Umask: u.plan.exec.Umask, Limits: u.plan.exec.Limits})
	var n int64
	var rest string
	if _, err := fmt.Sscanf(out, "%d\n", &n); err != nil || n < 2 {
		return -1, nil
	}
	_, rest, _ = strings.Cut(out, "\n")
	var tmp *control.Gauge
	for rest != "" {
		var blocks, free, size int64
		if _, err := fmt.Sscanf(rest, "%d %d %d", &blocks, &free, &size); err != nil || blocks < free || free < 0 || size <= 0 || size > 1<<20 || blocks > 1<<40 {
			break // the sandbox's word: it may say anything
		}
		if tmp == nil {
			tmp = &control.Gauge{}
		}
		tmp.Used += (blocks - free) * size
		tmp.Limit += blocks * size
		_, rest, _ = strings.Cut(rest, "\n")
	}
	const ours = 2 // the first process, and the shell that counts
	return n - ours, tmp
}

// ask runs a short command inside and returns the first of what it says.
func (u *running) ask(ctx context.Context, x wire.Exec) string {
	const most = 4 << 10
	stream, err := u.wire.Open()
	if err != nil {
		return ""
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	h := wire.Header{Op: wire.OpExec, Exec: x}
	if wire.WriteHeader(stream, &h) != nil {
		return ""
	}
	var out []byte
	frames := wire.NewReader(io.Reader(stream), wire.FromSandbox)
	for {
		f, err := frames.Next()
		switch {
		case err != nil, f.Type == wire.Failed:
			return ""
		case f.Type == wire.Exited:
			return string(out)
		case f.Type == wire.Stdout:
			out = append(out, f.Payload[:min(len(f.Payload), most-len(out))]...)
		}
	}
}
