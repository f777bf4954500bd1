package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/linux/memfd"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/taskapi"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/vault"
	"github.com/bailey-dev/bailey/internal/version"
)

// serveCommand is the service of tasks.
type serveCommand struct {
	Start  serveStartCommand  `cmd:"" default:"withargs" help:"Serve, in the foreground."`
	Status serveStatusCommand `cmd:"" help:"Say whether the service runs, and where."`
	Stop   serveStopCommand   `cmd:"" help:"End the service: running tasks are cancelled, and their work is kept; queued ones wait for the next start."`
}

// serveStartCommand is the service itself.
type serveStartCommand struct {
	Local     bool          `help:"Serve yourself alone, on a Unix socket; MCP over HTTP on loopback too."`
	Idle      time.Duration `placeholder:"TIME" help:"End after so long without a client and a task, such as 30s. Default: never."`
	MCPListen string        `name:"mcp-listen" placeholder:"HOST:PORT" help:"Where MCP is served over HTTP, on loopback, or off. Default: tasks.mcp_listen of config.yaml, or 127.0.0.1:8765."`
	JSON      bool          `name:"json" help:"Say what happens as JSON lines on standard output."`
}

// Help is what `bailey serve --help` says beyond the flags.
func (serveStartCommand) Help() string {
	return `Keeps the service that works on tasks, one for each user: bailey task and bailey mcp start it themselves, with --idle 30s. It is several processes: this one, which makes folders and sandboxes and keeps deadlines; control, which answers clients and reads what agents print, and has no right to anything; one for each sandbox; and a short-lived one for each operation on a repository.

The socket is serve.sock in bailey's runtime folder. Who speaks MCP over HTTP has to say the token in mcp-token, in bailey's folder of settings. The log is serve.log in the folder of state. Ctrl-C or SIGTERM ends the service in order: running tasks are cancelled, and their work is kept; a second one does not wait for that.

With --json: objects with type (serving, resumed, warning, stopping, stopped), time and message; of serving pid, socket, mcp (the address; absent where it is not served) and log; of resumed tasks, the number of those that an earlier service left and this one takes up again.`
}

// Run becomes the launcher: the process stays, and its program is one that can
// do no more than it needs.
func (c *serveStartCommand) Run(a *app) error {
	if !c.Local {
		return bailey.NewError(bailey.Invalid, "there is no service for others yet", "bailey serve --local is one for yourself")
	}
	if c.Idle < 0 {
		return bailey.NewError(bailey.Invalid, "--idle: a time below 0", "such as 30s")
	}
	place := a.host.Place(a.host.Dir)
	tasks, err := settings.LoadTasks(place)
	if err != nil {
		return err
	}
	s := launcher.Settings{
		UID: a.host.UID, GID: a.host.GID, Home: a.host.Home,
		Config: a.host.Dirs.Config, Data: a.host.Dirs.Data, State: a.host.Dirs.State, Runtime: a.host.Dirs.Runtime,
		Env: servedEnv(a.host.Env), Idle: c.Idle, JSON: c.JSON, Version: version.Number,
		Tasks: launcher.Tasks{Roots: tasks.Folders(a.host.Home), From: tasks.Where(place.UserFile()), MaxParallel: tasks.Most()},
	}
	if s.MCPListen, err = c.listen(tasks); err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	f, err := memfd.Text("settings", text)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("hand on settings: %w", err)
	}
	return inherit.Become("/proc/self/exe", role.Launcher, []string{}, f)
}

// listen is where MCP is served over HTTP; empty: it is not.
func (c *serveStartCommand) listen(tasks settings.Tasks) (string, error) {
	at := launcher.MCPListen
	if tasks.MCPListen != nil {
		at = tasks.MCPListen.Value
	}
	if c.MCPListen != "" {
		if err := settings.CheckMCPListen(c.MCPListen); err != nil {
			return "", fmt.Errorf("--mcp-listen: %w", err)
		}
		at = c.MCPListen
	}
	if at == settings.MCPOff {
		return "", nil
	}
	return at, nil
}

// servedEnv is what runners have of this environment: where this person's
// vault, agents and folders are, and how they write time and text.
func servedEnv(env config.Lookup) []string {
	names := []string{
		"HOME", "PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS",
		vault.KeyVariable, vault.IdentityVariable, "BAILEY_DEBUG",
	}
	var out []string
	for _, name := range names {
		v, ok := env(name)
		if !ok || name == vault.KeyVariable && strings.HasPrefix(v, "fd:") { // the descriptor is not the service's
			continue
		}
		out = append(out, name+"="+v)
	}
	return out
}

// serveStatusCommand asks for the service.
type serveStatusCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey serve status --help` says beyond the flags.
func (serveStatusCommand) Help() string {
	return `Looks for the service of this runtime folder, and for one that has the same tasks and was started with another XDG_RUNTIME_DIR.

With --json: an object with running, and where that is true pid, socket, answering (the socket takes a connection), tasks (the folder that they are in) and log; warnings where this machine cannot do all that keeps the service confined.

Exit codes: 0 when the service runs; 1 when it does not.`
}

// served is the published form of the service.
type served struct {
	Running   bool   `json:"running"`
	PID       int    `json:"pid,omitempty"`
	Socket    string `json:"socket,omitempty"`
	Answering bool   `json:"answering"`
	Tasks     string `json:"tasks,omitempty"`
	Log       string `json:"log,omitempty"` // of a service of this person's folders

	Warnings []string `json:"warnings,omitempty"`
}

// Run looks at the locks, which the kernel keeps, and not at files.
func (c *serveStatusCommand) Run(a *app) error {
	found, err := launcher.Find(a.host.Dirs.Runtime, a.host.Dirs.Data)
	if err != nil {
		return err
	}
	var s served
	if found != nil {
		s = served{Running: true, PID: found.PID, Socket: found.Socket(), Tasks: found.Data}
		if found.Data == a.host.Dirs.Data {
			s.Log = filepath.Join(a.host.Dirs.State, launcher.LogName)
		}
		if s.Answering = answers(a.ctx, s.Socket); s.Answering {
			s.Warnings = warningsOf(a.ctx, s.Socket)
		}
	}
	switch {
	case c.JSON:
		err = printJSON(a.stdout, s)
	case s.Running && s.Log == "":
		_, err = fmt.Fprintf(a.stdout, "running: process %d, %s, on the tasks in %s, which are others than those in %s\n", s.PID, terminal.Sanitize(s.Socket), terminal.Sanitize(s.Tasks), terminal.Sanitize(a.host.Dirs.Data))
	case s.Running:
		lines := []string{fmt.Sprintf("running: process %d, %s; log: %s", s.PID, s.Socket, s.Log)}
		for _, w := range s.Warnings {
			lines = append(lines, "warning: "+terminal.Sanitize(w))
		}
		_, err = fmt.Fprintln(a.stdout, strings.Join(lines, "\n"))
	default:
		_, err = fmt.Fprintln(a.stdout, "not running")
	}
	if err == nil && !s.Running {
		return exitError(1)
	}
	return err
}

// answers reports whether a socket takes a connection.
func answers(ctx context.Context, socket string) bool {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// warningsOf is what the service says against its own confinement. One that is
// of another version, or does not answer in time, says nothing.
func warningsOf(ctx context.Context, socket string) []string {
	ctx, cancel := context.WithTimeout(ctx, serveHelloWithin)
	defer cancel()
	c, err := taskapi.Connect(ctx, socket)
	if err != nil {
		return nil
	}
	defer c.Close()
	hello, err := c.Hello(ctx)
	if err != nil {
		return nil
	}
	return hello.Warnings
}

// serveHelloWithin is how long a service may take to say who it is.
const serveHelloWithin = 2 * time.Second
