package mirror

import (
	"net/url"
	"path/filepath"
	"strings"
)

// Source is where a package manager fetches from on this machine, in words that
// the manager takes inside a sandbox, where the caller's own configuration is
// not. It holds no credential: a name and password in a URL are left out.
type Source struct {
	Env   []string // NAME=VALUE
	NPMRC string   // lines of npm's configuration; empty for other managers
}

// SourceOf returns what the configuration of pip, npm or go says. What nobody
// set is left out: the manager has a default of its own inside, too. Find says
// which hosts that are.
func SourceOf(manager string, h Host) Source {
	switch manager {
	case "pip":
		return Source{Env: h.pipSource(), NPMRC: ""}
	case "npm":
		return Source{Env: nil, NPMRC: h.npmSource()}
	case "go":
		return Source{Env: h.goSource(), NPMRC: ""}
	}
	return Source{Env: nil, NPMRC: ""}
}

func (h Host) pipSource() []string {
	index, extra, trusted := h.pipIndexes()
	var env []string
	if u := bareURL(index); u != "" {
		env = append(env, "PIP_INDEX_URL="+u)
	}
	if list := bareURLs(extra); len(list) > 0 {
		env = append(env, "PIP_EXTRA_INDEX_URL="+strings.Join(list, " "))
	}
	if len(trusted) > 0 {
		env = append(env, "PIP_TRUSTED_HOST="+strings.Join(trusted, " "))
	}
	return env
}

// npmSource is the registry and those of scopes.
func (h Host) npmSource() string {
	registry, scopes := h.npmRegistries()
	var out strings.Builder
	if u := bareURL(registry); u != "" {
		out.WriteString("registry=" + u + "\n")
	}
	for _, s := range scopes {
		if u := bareURL(s.value); u != "" && isPlain(s.key) {
			out.WriteString(s.key + "=" + u + "\n")
		}
	}
	return out.String()
}

// isPlain reports whether a key means nothing but itself in npm's files.
func isPlain(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"'\${}[]=;#`, r) })
}

func (h Host) goSource() []string {
	files := h.goFiles()
	var env []string
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE"} {
		v := h.setting(name, files)
		if name == "GOPROXY" {
			v = bareProxies(v)
		}
		if v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// bareProxies takes credentials off each URL of a list as GOPROXY has it.
func bareProxies(list string) string {
	var out strings.Builder
	for list != "" {
		i := strings.IndexAny(list, ",|")
		one, sep := list, ""
		if i >= 0 {
			one, sep = list[:i], list[i:i+1]
		}
		list = list[len(one)+len(sep):]
		if strings.Contains(one, "://") {
			one = bareURL(one)
		}
		out.WriteString(one + sep)
	}
	return out.String()
}

// bareURL is a URL without a name and password, or "" of what is none.
func bareURL(text string) string {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User == nil && strings.Contains(text, "@") {
		return ""
	}
	u.User = nil
	return u.String()
}

func bareURLs(list []string) []string {
	var out []string
	for _, text := range list {
		if u := bareURL(text); u != "" {
			out = append(out, u)
		}
	}
	return out
}

// goFiles are the files that go reads its settings from, the strongest first.
func (h Host) goFiles() []string {
	user := h.Env("GOENV")
	if user == "" {
		user = filepath.Join(h.configHome(), "go", "env")
	}
	files := []string{user}
	if program := h.program("go"); program != "" {
		files = append(files, filepath.Join(filepath.Dir(filepath.Dir(program)), "go.env"))
	}
	return files
}
