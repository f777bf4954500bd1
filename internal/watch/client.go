package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/proc"
)

// Client is the starter's side of a running watchdog.
type Client struct {
	cmd     *exec.Cmd
	tell    *os.File // takes the settings; closed when they are told
	control *os.File
	report  *os.File
	reports *json.Decoder
	first   func() (Report, error) // the watchdog's first report, read once
	mu      sync.Mutex             // guards writes to control
}

// Start starts a watchdog that knows what to watch: Launch, then Begin.
func Start(cmd *exec.Cmd, s Settings) (*Client, error) {
	c, err := Launch(cmd)
	if err != nil {
		return nil, err
	}
	if err := c.Begin(s); err != nil {
		return nil, err
	}
	return c, nil
}

// Launch starts a watchdog that waits to be told what to watch: its program needs
// as long to start as the caller may need to find that out. cmd is the program
// that runs watchdog.Main, with neither descriptors nor attributes set. The
// caller goes on with Begin or Abandon.
func Launch(cmd *exec.Cmd) (c *Client, err error) {
	var files pipes
	defer func() {
		if err != nil {
			files.closeAll()
		}
	}()
	if err := files.open(); err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{files.settingsR, files.controlR, files.reportW}
	// A session of its own: neither Ctrl-C nor a kill of the process group
	// nor the end of the terminal reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	for _, f := range cmd.ExtraFiles {
		_ = f.Close() // the watchdog has its own
	}
	c = &Client{
		cmd: cmd, tell: files.settingsW, control: files.controlW, report: files.reportR, reports: json.NewDecoder(files.reportR),
	}
	c.first = sync.OnceValues(c.read)
	return c, nil
}

// Begin tells it what to watch. When it returns, the settings are the watchdog's:
// from then on, what they name is cleaned up whenever this process dies. The
// caller ends with Done. On an error the watchdog is gone.
func (c *Client) Begin(s Settings) error {
	settings, err := json.Marshal(s)
	if err == nil {
		_, err = c.tell.Write(settings)
	}
	if err := errors.Join(err, c.tell.Close()); err != nil {
		c.Abandon()
		return fmt.Errorf("send settings to watchdog: %w", err)
	}
	return nil
}

// Abandon ends a watchdog that nothing is to be watched by.
func (c *Client) Abandon() {
	_ = c.tell.Close() // closed already, after a Begin that failed
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	_, _ = c.control.Close(), c.report.Close()
}

// pipes are the three channels, both ends; all close on exec.
type pipes struct {
	settingsR, settingsW, controlR, controlW, reportR, reportW *os.File
}

func (p *pipes) open() error {
	for _, ends := range [][2]**os.File{
		{&p.settingsR, &p.settingsW}, {&p.controlR, &p.controlW}, {&p.reportR, &p.reportW},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("open pipe to watchdog: %w", err)
		}
		*ends[0], *ends[1] = r, w
	}
	return nil
}

func (p *pipes) closeAll() {
	for _, f := range []*os.File{p.settingsR, p.settingsW, p.controlR, p.controlW, p.reportR, p.reportW} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Helper tells which process to kill. It is to be told as soon as the process
// exists, and before it is reaped, so that its pid cannot be another's.
func (c *Client) Helper(id proc.Identity) error { return c.send(Message{Helper: &id}) }

// WatchMemory sets Settings.MemoryBytes after the start: whether a cgroup
// enforces the limit is known for certain only when it has been made.
func (c *Client) WatchMemory(bytes int64) error { return c.send(Message{Memory: bytes}) }

// Measure asks by how much the workspace has grown: a Report that Next returns
// answers. Nobody asks again before that.
func (c *Client) Measure() error { return c.send(Message{Measure: true}) }

func (c *Client) send(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := json.NewEncoder(c.control).Encode(m); err != nil {
		return fmt.Errorf("tell watchdog: %w", err)
	}
	return nil
}

// readyTime is how long a watchdog may take to begin.
const readyTime = 10 * time.Second

// Ready waits until everything is watched: before that nothing of the sandbox
// may run. counted is false where the workspace is so large that it is still
// being counted.
func (c *Client) Ready() (counted bool, err error) {
	_ = c.report.SetReadDeadline(time.Now().Add(readyTime)) //nolint:forbidigo // the kernel's clock decides; a pipe takes it
	r, err := c.first()
	_ = c.report.SetReadDeadline(time.Time{})
	switch {
	case r.Ready:
		return r.Counted, nil
	case r.Message != "":
		return false, bailey.NewError(bailey.Unsupported, "the watchdog, which keeps the limits, cannot begin: "+r.Message, "see bailey doctor")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, bailey.NewError(bailey.Unavailable, fmt.Sprintf("the watchdog, which keeps the limits, did not begin within %v", readyTime), "the machine may be overloaded: try again")
	case err == nil || errors.Is(err, io.EOF):
		err = errors.New("it ended at once")
	}
	return false, bailey.WrapError(bailey.Unsupported, "start the watchdog, which keeps the limits", err, "see bailey doctor")
}

// Next waits for the next limit that was passed. io.EOF means that the watchdog
// has ended; before Done that is a failure: nobody keeps the limits any more,
// and the sandbox should be ended.
func (c *Client) Next() (Report, error) {
	if r, err := c.first(); err != nil {
		return Report{}, err
	} else if !r.Ready { // why is Ready's to say
		return Report{}, io.EOF
	}
	return c.read()
}

func (c *Client) read() (Report, error) {
	var r Report
	err := c.reports.Decode(&r)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed):
		return Report{}, io.EOF
	}
	return Report{}, fmt.Errorf("read report of watchdog: %w", err)
}

// PID returns the watchdog's process id.
func (c *Client) PID() int { return c.cmd.Process.Pid }

// endTime is how long a watchdog may take to end.
const endTime = 15 * time.Second

// Done says that the sandbox is over, waits until the watchdog has removed the
// cgroup and ended, and frees what the Client holds. The error says what was
// left behind.
func (c *Client) Done() error {
	serr := c.send(Message{Done: true})
	timer := time.AfterFunc(endTime, func() { _ = c.cmd.Process.Kill() })
	werr := c.cmd.Wait()
	timer.Stop()
	if werr == nil {
		serr = nil
	} else {
		werr = fmt.Errorf("watchdog: %w", werr)
	}
	return errors.Join(serr, werr, c.control.Close(), c.report.Close())
}
