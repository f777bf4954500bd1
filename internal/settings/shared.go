package settings

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed shared.yaml
var sharedData []byte

// sharedHosts are names that strangers share, by what helps.
type sharedHosts struct {
	Paths []string `yaml:"paths"`
	Git   []string `yaml:"git"`
	Edge  []string `yaml:"edge"`
}

var readShared = sync.OnceValues(func() (sharedHosts, error) {
	var s sharedHosts
	err := yaml.Unmarshal(sharedData, &s)
	return s, err
})

// Warnings says, a line each and with the place, which allow rules of a file
// name a host that strangers share, and what makes them narrower. Such a rule
// holds; it lets more through than it looks like. Those that let nothing through
// come first.
func (f *File) Warnings() ([]string, error) {
	shared, err := readShared()
	if err != nil {
		return nil, fmt.Errorf("read the list of shared hosts: %w", err)
	}
	out := f.Net.dead()
	for _, h := range f.Net.Allow {
		about := shared.about(h)
		line := h.From + ": warning: " + about
		if about != "" && (len(out) == 0 || out[len(out)-1] != line) { // an entry with several ports is several rules
			out = append(out, line)
		}
	}
	return out, nil
}

// about says what is wrong with a rule, or "".
func (s sharedHosts) about(h Held) string {
	if h.Host == "" || h.Service {
		return ""
	}
	n := h.Narrow
	whole := n == nil || len(n.Paths)+len(n.Repositories) == 0
	switch {
	case whole && holds(s.Git, h.Host):
		return fmt.Sprintf("anyone can have a repository at %s, and be sent data there; name those that are needed: git: {repositories: [owner/name]}", h.Host)
	case whole && holds(s.Paths, h.Host):
		return fmt.Sprintf("anyone can have a place at %s, and be sent data there; name those that are needed: paths: [/mine/*]", h.Host)
	case whole && (n == nil || !n.Inspect) && holds(s.Edge, h.Host):
		return fmt.Sprintf("the servers of %s answer for other customers too, whose names cannot be seen inside TLS; write inspect: true", h.Host)
	}
	return ""
}

// holds reports whether a list names a host, itself or by what stands behind a
// star.
func holds(list []string, host string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		suffix, wild := strings.CutPrefix(entry, "*")
		return wild && strings.HasSuffix(host, suffix) || entry == host
	})
}

// StrangersBelow reports whether strangers have hosts below a name, or below a
// part of what is below it: whether a wildcard there would mean theirs too.
func StrangersBelow(name string) (bool, error) {
	shared, err := readShared()
	if err != nil {
		return false, fmt.Errorf("read the list of shared hosts: %w", err)
	}
	return slices.ContainsFunc(slices.Concat(shared.Paths, shared.Edge), func(entry string) bool {
		suffix, wild := strings.CutPrefix(entry, "*.")
		return wild && (name == suffix || strings.HasSuffix(name, "."+suffix) || strings.HasSuffix(suffix, "."+name))
	}), nil
}
