package home

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Login is a file of a home that holds what somebody logged in with.
type Login struct {
	Of   string `json:"of"`   // an agent or a program
	Path string `json:"path"` // below the home
	id   fileID
	real string // where it lies: Path, or what links lead that to
}

type fileID struct{ dev, ino uint64 }

// credentials are the files that agents, and the programs that they use most,
// keep logins in.
func credentials() []Login {
	var out []Login
	for _, c := range [][2]string{
		{"claude", ".claude/.credentials.json"},
		{"codex", ".codex/auth.json"},
		{"copilot", ".copilot/config.json"},
		{"gemini", ".gemini/oauth_creds.json"},
		{"gemini", ".gemini/gemini-credentials.json"},
		{"opencode", ".local/share/opencode/auth.json"},
		{"opencode", ".local/share/opencode/mcp-auth.json"},
		{"pi", ".pi/agent/auth.json"},
		{"pi", ".pi/agent/mcp-auth.json"},
		{"qwen", ".qwen/oauth_creds.json"},
		{"git", ".git-credentials"},
		{"git", ".config/git/credentials"},
		{"gh", ".config/gh/hosts.yml"},
		{"glab", ".config/glab-cli/config.yml"},
		{"netrc", ".netrc"},
		{"npm", ".npmrc"},
		{"docker", ".docker/config.json"},
		{"aws", ".aws/credentials"},
		{"gcloud", ".config/gcloud/credentials.db"},
		{"ssh", ".ssh/id_ed25519"},
		{"ssh", ".ssh/id_rsa"},
		{"ssh", ".ssh/id_ecdsa"},
	} {
		out = append(out, Login{Of: c[0], Path: c[1]})
	}
	return out
}

// maxLogin bounds a file of credentials that is looked at.
const maxLogin = 1 << 20

// Logins lists the logins that the home holds, in the order of a fixed list. Of
// their contents it looks at nothing but whether there is something.
func (h *Home) Logins() []Login {
	var out []Login
	for _, l := range credentials() {
		real, info, err := resolve(h.Files, l.Path)
		if err != nil || !info.Mode.IsRegular() || info.Size == 0 {
			continue
		}
		if info.Size <= maxLogin && isHollow(h.Read(real, maxLogin), l.Of) {
			continue
		}
		l.id, l.real = fileID{info.Dev, info.Ino}, real
		out = append(out, l)
	}
	return out
}

// mostLinks is how many the kernel follows (path_resolution(7)).
const mostLinks = 40

// homeDeep is how deep a sandbox's home, /home/agent, lies.
const homeDeep = 2

// resolve finds what a path of the home is for the sandbox, which follows links:
// in the home alone, where an absolute link is one from the sandbox's root. What
// lies elsewhere is not in the home, and fs.ErrNotExist. It returns the path
// without links; nothing of the host is ever followed.
func resolve(files *os.File, rel string) (string, beneath.Info, error) { //nolint:gocognit // one kind of step after the other
	at, rest := []string{"home", "agent"}, strings.Split(rel, "/") // at begins at the sandbox's root
	var info beneath.Info
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = at[:max(0, len(at)-1)]
			continue
		}
		next := append(slices.Clone(at), name)
		if !inHome(next) {
			at = next
			continue
		}
		var err error
		if len(next) == homeDeep {
			info, err = beneath.Lstat(files, "")
		} else {
			info, err = beneath.Lstat(files, path.Join(next[homeDeep:]...))
		}
		if err != nil {
			return "", info, fmt.Errorf("find %s: %w", rel, err)
		}
		if info.Mode&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > mostLinks {
			return "", info, fmt.Errorf("find %s: %w", rel, unix.ELOOP)
		}
		to, err := beneath.Readlink(files, path.Join(next[homeDeep:]...))
		if err != nil {
			return "", info, fmt.Errorf("find %s: %w", rel, err)
		}
		to = strings.TrimPrefix(to, "/proc/self/root") // which is the sandbox's
		if strings.HasPrefix(to, "/") {
			at = nil
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	if !inHome(at) || len(at) == homeDeep {
		return "", info, fmt.Errorf("find %s: it leads out of the home: %w", rel, fs.ErrNotExist)
	}
	return path.Join(at[homeDeep:]...), info, nil
}

func inHome(at []string) bool {
	return len(at) >= homeDeep && slices.Equal(at[:homeDeep], []string{"home", "agent"})
}

// isHollow reports whether a file holds no login: agents write one with nothing
// in it, and some keep other things in it.
func isHollow(data []byte, of string) bool {
	if of == "npm" {
		return !bytes.Contains(data, []byte("_auth")) && !bytes.Contains(data, []byte("_password"))
	}
	var v map[string]any
	if json.Unmarshal(data, &v) != nil {
		return len(bytes.TrimSpace(data)) == 0
	}
	switch of {
	case "docker":
		auths, _ := v["auths"].(map[string]any)
		return len(auths) == 0
	case "copilot":
		_, in := v["logged_in_users"]
		_, in2 := v["loggedInUsers"]
		_, in3 := v["copilot_tokens"]
		return !in && !in2 && !in3
	}
	for _, one := range v {
		if one != nil {
			return false
		}
	}
	return true
}

// Same reports whether two are the same file with, perhaps, other contents.
func (l Login) Same(o Login) bool { return l.Path == o.Path }
