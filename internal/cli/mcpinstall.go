package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/mcp"
	"github.com/bailey-dev/bailey/internal/mcp/clients"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type mcpInstallCommand struct {
	HTTP  bool `name:"http" help:"Let it use the HTTP door, with the token, in place of starting bailey mcp itself. bailey serve has to run."`
	Print bool `xor:"how" help:"Only print what would stand in an empty configuration."`
	Yes   bool `short:"y" xor:"how" help:"Write it without asking."`

	Client string `arg:"" enum:"claude,codex,gemini,opencode" help:"claude, codex, gemini or opencode."`
}

// Help is what `bailey mcp install --help` says beyond the flags.
func (mcpInstallCommand) Help() string {
	return `Shows what it would write into which file, asks, and writes it: bailey among the client's MCP servers, for this user, with the time that a tool may take set to 5 hours, since the clients' own bound is minutes. Clients start servers without most of the environment, so variables that say where bailey's folders are go along. What else stands in the file stays as it is, comments included. What is there already is not written again.

Examples:
  bailey mcp install claude --print
  bailey mcp install codex --yes
  bailey mcp install gemini --http --yes`
}

// mostConfig bounds the configuration of a client, in bytes: Claude Code keeps
// more than settings in its own.
const mostConfig = 64 << 20

// Run changes the client's configuration.
func (c *mcpInstallCommand) Run(a *app) error {
	client, err := clients.Find(c.Client)
	if err != nil {
		return err
	}
	server, shown, err := c.server(a)
	if err != nil {
		return err
	}
	if c.Print {
		entry, err := client.Entry(server)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(a.stdout, entry)
		return err
	}
	path := client.Path(clients.Host{Home: a.host.Home, Env: a.host.Env.Get, Exists: isThere})
	old, err := readConfig(path)
	if err != nil {
		return err
	}
	merged, err := client.Merge(old, server)
	if err != nil {
		return err
	}
	if bytes.Equal(old, merged) {
		_, err := fmt.Fprintf(a.stdout, "%s: bailey is there already\n", terminal.Sanitize(path))
		return err
	}
	if err := c.consent(a, client, path, shown); err != nil {
		return err
	}
	if err := writeConfig(path, merged, c.HTTP); err != nil {
		return bailey.WrapError(bailey.Unavailable, "write "+path, err, "--print shows what to write into it by hand")
	}
	_, err = fmt.Fprintf(a.stdout, "%s: written; %s reads it at its next start\n", terminal.Sanitize(path), client.Title)
	return err
}

// server is bailey as the client is to find it, and the same without the
// token's value, for a screen.
func (c *mcpInstallCommand) server(a *app) (server, shown clients.Server, err error) {
	if !c.HTTP {
		s := clients.Server{Command: a.host.Executable}
		for _, name := range clients.Kept() {
			if v := a.host.Env.Get(name); v != "" {
				s.Env = append(s.Env, clients.Variable{Name: name, Value: v})
			}
		}
		return s, s, nil
	}
	tasks, err := settings.LoadTasks(a.host.Place(a.host.Dir))
	if err != nil {
		return server, shown, err
	}
	at, err := (&serveStartCommand{}).listen(tasks)
	if err == nil && at == "" {
		err = bailey.NewError(bailey.Unavailable, "MCP is not served over HTTP: tasks.mcp_listen of config.yaml is off", "leave --http out: the client starts bailey mcp itself")
	}
	if err != nil {
		return server, shown, err
	}
	path := a.mcpToken()
	token, err := mcp.Token(path)
	if err != nil {
		return server, shown, err
	}
	server = clients.Server{URL: "http://" + at + mcp.Path, Token: token}
	shown = server
	shown.Token = "(what is in " + path + ")"
	return server, shown, nil
}

// consent shows what will be written, and asks unless that is answered.
func (c *mcpInstallCommand) consent(a *app, client clients.Client, path string, shown clients.Server) error {
	entry, err := client.Entry(shown)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.stderr, "bailey: %s will have, beside what is there:\n", terminal.Sanitize(path))
	for line := range strings.Lines(entry) {
		_, _ = fmt.Fprintf(a.stderr, "  %s\n", terminal.Sanitize(strings.TrimSuffix(line, "\n")))
	}
	if c.Yes {
		return nil
	}
	if !pty.IsTerminal(a.host.Stdin) || !pty.IsTerminal(a.host.Stderr) {
		return bailey.NewError(bailey.Invalid, "nobody can be asked here", "--yes writes it, --print only prints it")
	}
	_, _ = fmt.Fprint(a.stderr, "Write it? [y/N] ")
	answer, _ := bufio.NewReader(io.LimitReader(a.host.Stdin, 1<<10)).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return bailey.NewError(bailey.Forbidden, "nothing was written", "")
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readConfig returns nothing for a file that is not there.
func readConfig(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "read "+path, err, "")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostConfig {
		return nil, bailey.NewError(bailey.Conflict, path+" is no file, or too large for a configuration", "--print shows what to write into it by hand")
	}
	b, err := io.ReadAll(io.LimitReader(f, mostConfig))
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "read "+path, err, "")
	}
	return b, nil
}

// writeConfig puts the file in its place whole. A link stays one, and its
// target is written; with a token in it, nobody but its owner reads it.
func writeConfig(path string, data []byte, private bool) error {
	mode := fs.FileMode(0o600)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if mode = info.Mode().Perm(); private {
			mode &^= 0o077
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".bailey-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
