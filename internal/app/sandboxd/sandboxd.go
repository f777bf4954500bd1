package sandboxd

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/internal/wire"
)

// Times of the end: what SIGTERM did not end within termGrace is killed, and
// killGrace later sandboxd leaves whatever happened. Together they stay below
// the three seconds that a sandbox has to end in.
const (
	termGrace = time.Second
	killGrace = 500 * time.Millisecond
)

// Exit codes of sandboxd itself; the command's own travels over the wire.
const (
	exitDone   = 0
	exitBroken = 1 // no wire, or the system refused something at the start
)

// daemon is one running sandboxd.
type daemon struct {
	wire *wire.Sandbox
	reap *reaper
	main atomic.Pointer[command] // the main command, once it runs

	guarded chan struct{}  // closed when no signal from inside ends this process
	running sync.WaitGroup // exec streams
	calls   func() error   // take model calls, once
}

// Main runs sandboxd on the inherited wire (wire.FD) until the wire closes or
// the host asks for the end, and returns its exit code. It takes no
// arguments; what it is told comes over the wire.
func Main(_ []string) int {
	if err := settle(); err != nil {
		return exitBroken
	}
	conn := os.NewFile(wire.FD, "wire")
	if conn == nil {
		return exitBroken
	}
	children := make(chan os.Signal, 1) // one slot: the reaper looks for all
	signal.Notify(children, syscall.SIGCHLD)

	sandbox, err := wire.NewSandbox(conn)
	if err != nil {
		return exitBroken
	}
	d := &daemon{wire: sandbox, reap: newReaper(), guarded: make(chan struct{}), calls: sync.OnceValue(takeCalls)}
	go d.reap.run(children)
	go d.passSignals()
	for {
		stream, err := sandbox.Accept()
		if err != nil {
			d.endAll()
			return exitDone
		}
		go d.serve(stream)
	}
}

// forwarded are the signals that, sent to sandboxd, are meant for the main
// command. Asking for them also gives them a handler here, without which
// anybody inside could end the sandbox's first process, and which makes them
// default again in every child (A5).
func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH,
		// A fault that somebody sent (kill -SEGV 1) would otherwise crash.
		syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL,
		syscall.SIGABRT, syscall.SIGTRAP, syscall.SIGSYS,
	}
}

// passSignals hands signals that were sent to sandboxd to the main command. To
// ask for them takes gVisor milliseconds, so it is not done before the wire is
// served but before the first command starts: until then nobody can send one.
func (d *daemon) passSignals() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	close(d.guarded)
	for s := range signals {
		number, ok := s.(syscall.Signal)
		main := d.main.Load()
		if ok && main != nil && passes(number) {
			main.signal(number)
		}
	}
}

// passes reports whether a signal to sandboxd is handed on; those of a fault
// are only swallowed.
func passes(s syscall.Signal) bool {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2:
		return true
	}
	return false
}

// endAll ends every process of the sandbox: SIGTERM, then SIGKILL.
func (d *daemon) endAll() {
	if d.reap.killAll(syscall.SIGTERM, termGrace) {
		return
	}
	d.reap.killAll(syscall.SIGKILL, killGrace)
}
