package watchdog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/userns"
	"github.com/bailey-dev/bailey/internal/watch"
)

// Argv0 is the name under which bailey starts itself in this role.
const Argv0 = watch.Argv0

// Main is the role's entry. Args are as of os.Args; it takes none but its name,
// and uses the descriptors of internal/watch. It returns the exit code: 0 when
// all that was to be cleaned up is gone.
func Main(args []string) int {
	// It ends when the starter does, and not otherwise.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE)
	if len(args) > 1 {
		return complain(errors.New("takes no arguments"))
	}
	told, control, report, err := open()
	if err != nil {
		return complain(err)
	}
	d, err := begin(told, report)
	if errors.Is(err, io.EOF) {
		return 0 // the starter died, or gave up, before it said anything, and so before it made anything
	}
	if err != nil {
		// The starter has to know: standard error is nobody's.
		_ = json.NewEncoder(report).Encode(watch.Report{Message: err.Error()})
		return complain(err)
	}
	if err := d.run(messages(control)); err != nil {
		return complain(err)
	}
	return 0
}

// begin makes the process fit to watch, and waits to be told what.
func begin(told, report *os.File) (*dog, error) {
	if err := confine(); err != nil {
		return nil, fmt.Errorf("give up what it does not need: %w", err)
	}
	var s watch.Settings
	dec := json.NewDecoder(told)
	dec.DisallowUnknownFields()
	if err := errors.Join(dec.Decode(&s), told.Close()); err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return newDog(s, report)
}

// keptCaps is what root's watchdog uses (capabilities(7)): KILL ends a sandbox,
// which runs as another id; DAC_OVERRIDE and FOWNER undo what it left in a
// workspace of somebody else; SYS_PTRACE reads how much memory it has where no
// cgroup counts that. It does without what the caller has not: over the
// sandbox's own user namespace, which root made, it has every one of them
// (user_namespaces(7)), and what the caller may not undo was not its to give.
const keptCaps = 1<<unix.CAP_KILL | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_SYS_PTRACE

// confine gives up what the role does not need.
func confine() error {
	if err := harden.Process(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil // there is nothing to give up
	}
	if err := userns.Keep(keptCaps); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil // a build with cgo, which bailey's is not, cannot reach all threads
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "bailey: watchdog:", err)
	return 1
}

func open() (told, control, report *os.File, err error) {
	for _, fd := range []int{watch.SettingsFD, watch.ControlFD, watch.ReportFD} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return nil, nil, nil, fmt.Errorf("is started by bailey run alone: descriptor %d is not open", fd)
		}
		unix.CloseOnExec(fd)
	}
	return os.NewFile(watch.SettingsFD, "settings"), os.NewFile(watch.ControlFD, "control"), os.NewFile(watch.ReportFD, "report"), nil
}

// maxLine bounds one message.
const maxLine = 4096

// messages reads the starter's lines; the channel is closed when it is dead,
// or says something that cannot be understood, which is no better.
func messages(control *os.File) <-chan watch.Message {
	ch := make(chan watch.Message)
	go func() {
		defer close(ch)
		lines := bufio.NewScanner(control)
		lines.Buffer(make([]byte, maxLine), maxLine)
		for lines.Scan() {
			var m watch.Message
			if json.Unmarshal(lines.Bytes(), &m) != nil {
				return
			}
			ch <- m
		}
	}()
	return ch
}
