package sshgit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Command is one of git's over SSH.
type Command struct {
	Login    string `json:"login"`              // the user of the host
	Service  string `json:"service"`            // git-upload-pack or git-receive-pack
	Path     string `json:"path"`               // of the repository, as it was asked for
	Protocol string `json:"protocol,omitempty"` // the value of GIT_PROTOCOL, one of three; empty: none
}

// The services.
const (
	fetchService = "git-upload-pack"
	pushService  = "git-receive-pack"
)

// maxPath bounds the path of a repository, in bytes.
const maxPath = 512

// parseCommand reads what a client asks to have executed. Only the one form that
// git writes is read, so that no shell could take it for anything else.
func parseCommand(line string) (service, path string, err error) {
	service, quoted, _ := strings.Cut(line, " ")
	if service != fetchService && service != pushService {
		return "", "", errors.New("only git's own commands for fetching and pushing pass here")
	}
	path, opened := strings.CutPrefix(quoted, "'")
	path, closed := strings.CutSuffix(path, "'")
	if !opened || !closed || !isPath(path) {
		return "", "", fmt.Errorf("%s does not name one repository by a plain path", service)
	}
	return service, path, nil
}

// isPath takes letters, digits, and what stands in paths of repositories. No
// escape is among it, so a path means one thing to everybody.
func isPath(path string) bool {
	for i := range len(path) {
		c := path[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("/._-", rune(c)) {
			return false
		}
	}
	return path != "" && len(path) <= maxPath && path[0] != '-'
}

// isProtocol takes the values of GIT_PROTOCOL that git itself sends (git(1)).
func isProtocol(v string) bool { return v == "version=0" || v == "version=1" || v == "version=2" }

// line is the command as git writes it.
func (c Command) line() string { return c.Service + " '" + c.Path + "'" }

// MaxRequest bounds a Request and a Reply as JSON, in bytes.
const MaxRequest = 4 << 10

// Request is a command that the process at the way out has let through, on its
// way to the one that has the user's key, together with a connection to the host.
type Request struct {
	Host    string  `json:"host"` // normalised name
	Port    uint16  `json:"port"`
	Command Command `json:"command"`
}

// ParseRequest reads a Request, and refuses one that no client could have made:
// whoever sends it read hostile bytes.
func ParseRequest(b []byte) (Request, error) {
	var r Request
	if err := json.Unmarshal(b, &r); err != nil {
		return Request{}, fmt.Errorf("read request: %w", err)
	}
	c := r.Command
	if _, _, err := parseCommand(c.line()); err != nil {
		return Request{}, fmt.Errorf("read request: %w", err)
	}
	if c.Protocol != "" && !isProtocol(c.Protocol) {
		return Request{}, errors.New("read request: it names a protocol that git does not have")
	}
	return r, nil
}
