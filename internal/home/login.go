package home

import (
	"bytes"
	"encoding/json"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Login is a file of a home that holds what somebody logged in with.
type Login struct {
	Of   string `json:"of"`   // an agent or a program
	Path string `json:"path"` // below the home
	id   fileID
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
		info, err := beneath.Lstat(h.Files, l.Path)
		if err != nil || !info.Mode.IsRegular() || info.Size == 0 {
			continue
		}
		if info.Size <= maxLogin && isHollow(h.Read(l.Path, maxLogin), l.Of) {
			continue
		}
		l.id = fileID{info.Dev, info.Ino}
		out = append(out, l)
	}
	return out
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
