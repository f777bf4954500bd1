package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
)

// maxSettings bounds the settings, in bytes.
const maxSettings = 1 << 20

// Main is the role's entry: it serves until it is told to end, and returns the
// exit code: 0 for that end, bailey.ExitBailey if it could not serve.
func Main(args []string) int {
	code, err := enter(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bailey: %v\n", err)
		if e, ok := errors.AsType[*bailey.Error](err); ok && e.Hint != "" {
			fmt.Fprintf(os.Stderr, "hint: %s\n", e.Hint)
		}
		return bailey.ExitBailey
	}
	return code
}

// enter serves in this process, or where it is not alone in it, in another.
func enter(args []string) (int, error) {
	own, tied := slices.Equal(args, []string{mountsArg}), slices.Equal(args, []string{tiedArg})
	if len(args) > 0 && !own && !tied {
		return 0, errors.New("the launcher takes no arguments; bailey serve --local starts it")
	}
	if err := inherit.Check(launcher.FDSettings, launcher.FDSettings); err != nil {
		return 0, err
	}
	if crowded() {
		return apart()
	}
	why := ""
	if !own {
		why = ownMounts(tied)
	}
	return 0, serve(why)
}

// serve serves. noDisks says why no task has a disk of its own; empty where each
// may have one.
func serve(noDisks string) error {
	if err := confine(); err != nil {
		return err
	}
	var settings launcher.Settings
	in := os.NewFile(launcher.FDSettings, "settings")
	err := inherit.Document(in, maxSettings, &settings)
	if err := errors.Join(err, in.Close()); err != nil {
		return err
	}
	if err := settings.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // a process begins here
	defer cancel()
	hurry := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		<-signals
		cancel()
		<-signals
		close(hurry)
	}()
	out := &voice{to: os.Stdout, text: os.Stderr, json: settings.JSON, now: time.Now}
	s, err := newService(ctx, settings, noDisks, out)
	defer s.close()
	if err != nil {
		return err
	}
	s.serve(ctx, hurry)
	return nil
}

// confine takes away what the role has no use for. No-new-privileges is not
// among it: a runner may need newuidmap(1) for an id that owns nothing, and
// would inherit it. Every child takes it for itself.
func confine() error {
	if err := harden.Undumpable(); err != nil {
		return err
	}
	if err := harden.NoDump(); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil { // or it would keep the folder that it was started in
		return fmt.Errorf("leave the folder: %w", err)
	}
	return harden.KeepDescriptors()
}
