package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/delegate"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
	"github.com/bailey-dev/bailey/internal/linux/seccomp"
	"github.com/bailey-dev/bailey/internal/taskapi"
)

const (
	maxSettings = 64 << 10
	// drainTime is how long running tasks may take to be collected and
	// delivered when the service is told to end. The launcher waits longer.
	drainTime = 50 * time.Second
)

// Main is the process: it serves until it is told to end (SIGTERM) or the
// launcher is gone, and returns the exit code: 0 for these, bailey.ExitBailey
// if it could not serve. The reason is said on standard error.
func Main(args []string) int {
	if len(args) > 0 {
		fmt.Fprintln(os.Stderr, "bailey control: it takes no arguments; bailey starts it")
		return bailey.ExitBailey
	}
	log.SetOutput(io.Discard)                                     // what a library says of a stranger's bytes is the stranger's word
	if err := confineAndServe(context.Background()); err != nil { //nolint:forbidigo // a process begins here
		say(err.Error())
		return bailey.ExitBailey
	}
	return 0
}

// say writes a line for the service's log.
func say(s string) { fmt.Fprintf(os.Stderr, "%q\n", s) }

func confineAndServe(ctx context.Context) error {
	if err := inherit.Check(launcher.FDSettings, launcher.FDState); err != nil {
		return err
	}
	if err := harden.Process(); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return errors.New("it has root's id, and must not")
	}
	settings, err := readSettings(os.NewFile(launcher.FDSettings, "settings"))
	if err != nil {
		return err
	}
	lacks, err := confine()
	if err != nil {
		return err
	}
	return serve(ctx, settings, lacks)
}

// confine takes away everything but the role's own folder and the sockets that
// it was given. What this kernel cannot take away is said wherever the service
// says how it is.
func confine() (lacks []string, err error) {
	if landlock.Level() == 0 {
		lacks = []string{"this kernel has no Landlock: control, and what works on repositories, run without that layer (enable it with lsm=landlock,… at boot)"}
		say(lacks[0])
	} else if err := landlock.ConfineToFolder(launcher.StatePath()); err != nil {
		return nil, err
	}
	return lacks, seccomp.Confine(seccomp.Needs{Folder: true})
}

func readSettings(f *os.File) (launcher.ControlSettings, error) {
	var s launcher.ControlSettings
	err := inherit.Document(f, maxSettings, &s)
	if err := errors.Join(err, f.Close()); err != nil {
		return s, err
	}
	if s.UID < 0 || s.MaxParallel < 0 {
		return s, errors.New("read settings: a number is less than 0")
	}
	return s, nil
}

// serve serves until ctx ends, SIGTERM comes, or the launcher is gone.
func serve(ctx context.Context, s launcher.ControlSettings, lacks []string) error {
	told, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	engine := launcher.NewClient(inherit.Polled(launcher.FDEngine, "engine"))
	gone := make(chan error, 1)
	go func() { gone <- engine.Run() }()
	use := newActivity(engine)
	resumed := use.resumed
	if s.Restarted > 0 { // what this service itself has begun goes on
		resumed = nil
	}
	service, err := delegate.New(delegate.Config{
		Engine: engine, Folder: launcher.StatePath(), Now: time.Now, Log: say, Most: s.MaxParallel, Active: use.tasks, Resumed: resumed, Path: s.Path,
		Warnings: lacks,
	})
	if err != nil {
		return err
	}
	defer func() { _ = service.Close() }() // all of it is written
	doors, err := open(s, service, use, lacks)
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait() // the last: what it waits for ends by the two others
	defer doors.close()
	defer end()
	failed := make(chan error, 3)
	work.Go(func() { failed <- service.Run(ctx) })
	work.Go(func() { use.run(ctx) })
	doors.serve(ctx, &work, failed)
	select {
	case err := <-failed:
		return err
	case err := <-gone: // what runs goes on, and the next control with it
		return err
	case <-told.Done():
		drain, cancel := context.WithTimeout(ctx, drainTime)
		defer cancel()
		service.Drain(drain)
		return nil
	}
}

// listener makes a listener of a descriptor.
func listener(fd uintptr, name string) (net.Listener, error) {
	f := os.NewFile(fd, name)
	l, err := net.FileListener(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("take the socket of %s: %w", name, err)
	}
	return l, nil
}

// doors are the ways by which the service is reached.
type doors struct {
	clients net.Listener
	server  *taskapi.Server
	mcp     *mcpDoor // nil: not served
}

func open(s launcher.ControlSettings, service *delegate.Service, use *activity, lacks []string) (*doors, error) {
	clients, err := listener(launcher.FDClients, "clients")
	if err != nil {
		return nil, err
	}
	d := &doors{clients: clients, server: taskapi.NewServer(taskapi.Config{
		Service: service, UID: s.UID, Version: s.Version, Warnings: lacks, Folders: taskapi.Folders(s.Folders), Clients: use.unix,
	})}
	if d.mcp, err = openMCP(s, service, use); err != nil {
		return nil, errors.Join(err, clients.Close())
	}
	return d, nil
}

func (d *doors) serve(ctx context.Context, work *sync.WaitGroup, failed chan<- error) {
	work.Go(func() {
		if err := d.server.Serve(d.clients); err != nil {
			failed <- err
		}
	})
	if d.mcp != nil {
		work.Go(func() {
			if err := d.mcp.serve(ctx); err != nil {
				failed <- err
			}
		})
	}
}

func (d *doors) close() {
	_ = d.server.Close() // who is connected is told by the end of the connection
	if d.mcp != nil {
		_ = d.mcp.listener.Close() // its server ends with the context
	}
}
