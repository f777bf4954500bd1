package mirror

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// apt reads its sources, in both forms (sources.list(5)).
func (h Host) apt() []string {
	var urls []string
	etc := h.system("/etc/apt")
	lists := append([]string{filepath.Join(etc, "sources.list")}, h.glob(filepath.Join(etc, "sources.list.d", "*"))...)
	for _, path := range lists {
		for line := range strings.SplitSeq(h.read(path), "\n") {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "deb" && words[0] != "deb-src" && !strings.EqualFold(words[0], "URIs:") {
				continue
			}
			urls = append(urls, words[1:]...) // what is no URL is no rule
		}
	}
	return urls
}

// cargo reads its configuration; where that puts nothing in the place of the
// default registry, the index that was fetched before says where it lies.
func (h Host) cargo() []string {
	home := h.Env("CARGO_HOME")
	if home == "" {
		home = filepath.Join(h.Home, ".cargo")
	}
	urls, replaced := h.cargoConfig(home)
	if replaced {
		return urls
	}
	for _, dir := range h.glob(filepath.Join(home, "registry", "index", "*")) {
		host := filepath.Base(dir)
		if i := strings.LastIndexByte(host, '-'); i > 0 {
			urls = append(urls, "https://"+host[:i])
		}
		var index struct {
			DL string `json:"dl"`
		}
		if json.Unmarshal([]byte(h.read(filepath.Join(dir, "config.json"))), &index) == nil {
			urls = append(urls, index.DL)
		}
	}
	return urls
}

// cargoConfig returns the registries of cargo's configuration, and whether one
// of them stands in the place of the default.
func (h Host) cargoConfig(home string) (urls []string, replaced bool) {
	for _, name := range []string{"config.toml", "config"} {
		for _, s := range settings(h.read(filepath.Join(home, name))) {
			replaced = replaced || s.section == "source.crates-io" && s.key == "replace-with"
			if s.key == "registry" || s.key == "index" {
				urls = append(urls, strings.TrimPrefix(s.value, "sparse+"))
			}
		}
	}
	return urls, replaced
}

// golang reads what `go env` would say: the environment, the file of
// `go env -w`, the toolchain's own.
func (h Host) golang() []string {
	files := h.goFiles()
	urls := strings.FieldsFunc(h.setting("GOPROXY", files), func(r rune) bool { return r == ',' || r == '|' })
	if sum := strings.Fields(h.setting("GOSUMDB", files)); len(sum) > 0 && sum[0] != "off" {
		db := sum[len(sum)-1]
		if !strings.Contains(db, "://") {
			name, _, _ := strings.Cut(db, "+") // a key follows
			db = "https://" + name
		}
		urls = append(urls, db)
	}
	return urls
}

// setting is a variable of the environment, or else a line of the first file
// that has one.
func (h Host) setting(name string, files []string) string {
	if v := h.Env(name); v != "" {
		return v
	}
	for _, path := range files {
		for _, s := range settings(h.read(path)) {
			if s.key == name && s.value != "" {
				return s.value
			}
		}
	}
	return ""
}

// npm reads the files of npm's own order but the project's, and its default
// out of its own source.
func (h Host) npm() []string {
	registry, scopes := h.npmRegistries()
	if registry == "" {
		registry = h.npmDefault()
	}
	urls := []string{registry}
	for _, s := range scopes {
		urls = append(urls, s.value)
	}
	return urls
}

// npmRegistries returns the registry that was set, or "", and those of scopes.
func (h Host) npmRegistries() (registry string, scopes []setting) {
	user := h.Env("NPM_CONFIG_USERCONFIG")
	if user == "" {
		user = filepath.Join(h.Home, ".npmrc")
	}
	files := []string{user, h.system("/etc/npmrc"), h.system("/usr/etc/npmrc"), h.system("/usr/local/etc/npmrc")}
	for _, name := range []string{"npm_config_registry", "NPM_CONFIG_REGISTRY"} {
		if v := h.Env(name); v != "" && registry == "" {
			registry = v
		}
	}
	for _, path := range files {
		for _, s := range settings(h.read(path)) {
			switch {
			case s.key == "registry" && registry == "":
				registry = h.expand(s.value)
			case strings.HasSuffix(s.key, ":registry"):
				scopes = append(scopes, setting{section: "", key: s.key, value: h.expand(s.value)})
			}
		}
	}
	return registry, scopes
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`) })

// expand puts variables in, as npm does.
func (h Host) expand(s string) string {
	return variable().ReplaceAllStringFunc(s, func(m string) string { return h.Env(m[2 : len(m)-1]) })
}

// npmDefault finds the registry that npm uses when nobody set one.
func (h Host) npmDefault() string {
	program := h.program("npm")
	if program == "" {
		return ""
	}
	source := h.read(filepath.Join(filepath.Dir(filepath.Dir(program)), "node_modules/@npmcli/config/lib/definitions/definitions.js"))
	if source == "" { // a distribution may put npm's modules beside it
		source = h.read(h.system("/usr/share/nodejs/@npmcli/config/lib/definitions/definitions.js"))
	}
	m := regexp.MustCompile(`['"]registry['"],[^}]*?default:\s*['"](https?://[^'"]+)['"]`).FindStringSubmatch(source)
	if m == nil {
		m = regexp.MustCompile(`registry:\s*new Definition\([^}]*?default:\s*['"](https?://[^'"]+)['"]`).FindStringSubmatch(source)
	}
	if m == nil {
		return ""
	}
	return m[1]
}

// pip reads its configuration, and its default out of its own source.
func (h Host) pip() []string {
	index, extra, _ := h.pipIndexes()
	if index == "" {
		return append(h.pipDefault(), extra...)
	}
	return append([]string{index}, extra...)
}

// pipIndexes returns the index that was set, or "", others beside it, and the
// hosts that need not prove their name.
func (h Host) pipIndexes() (index string, extra, trusted []string) {
	files := []string{
		h.system("/etc/pip.conf"), h.system("/etc/xdg/pip/pip.conf"),
		filepath.Join(h.Home, ".pip", "pip.conf"), filepath.Join(h.configHome(), "pip", "pip.conf"), h.Env("PIP_CONFIG_FILE"),
	}
	index, extra, trusted = h.Env("PIP_INDEX_URL"), strings.Fields(h.Env("PIP_EXTRA_INDEX_URL")), strings.Fields(h.Env("PIP_TRUSTED_HOST"))
	for _, path := range slices.Backward(files) { // the last one is the strongest
		for _, s := range settings(h.read(path)) {
			switch {
			case s.key == "index-url" && index == "":
				index = s.value
			case s.key == "extra-index-url":
				extra = append(extra, strings.Fields(s.value)...)
			case s.key == "trusted-host":
				trusted = append(trusted, strings.Fields(s.value)...)
			}
		}
	}
	return index, extra, trusted
}

// pipDefault finds the index and the store of files that pip uses when nobody
// set one.
func (h Host) pipDefault() []string {
	re := regexp.MustCompile(`PackageIndex\(\s*['"](https?://[^'"]+)['"],\s*file_storage_domain=['"]([^'"]+)['"]`)
	for _, pattern := range []string{
		filepath.Join(h.Home, ".local/lib/python3*/site-packages"), h.system("/usr/local/lib/python3*/*-packages"),
		h.system("/usr/lib/python3*/*-packages"),
	} {
		for _, dir := range h.glob(filepath.Join(pattern, "pip/_internal/models/index.py")) {
			if m := re.FindStringSubmatch(h.read(dir)); m != nil {
				return []string{m[1], "https://" + m[2]}
			}
		}
	}
	return nil
}
