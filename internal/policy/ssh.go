package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// SSH narrows a rule to git over SSH: to fetching from some repositories of the
// host as one of its users, and nothing else of what it offers. It never changes.
type SSH struct {
	Login        string   `json:"login"`              // the user of the host, such as git
	Repositories []string `json:"repositories"`       // their paths as the host is told them, such as owner/name.git or /srv/name.git
	Push         bool     `json:"write,omitempty"`    // to them too,
	Branches     []string `json:"branches,omitempty"` // and then to these alone, as CheckBranch takes them, deleting none; empty: any reference
}

// The commands of git that pass over SSH (gitprotocol-pack(5)).
const (
	GitFetch = gitFetch
	GitPush  = gitPush
)

// sshPort is where a host is spoken to by SSH that names no port (RFC 4251).
const sshPort = 22

// ParseGit reads a repository as git's users write it, for SSH:
// LOGIN@HOST:PATH, or ssh://LOGIN@HOST[:PORT]/PATH.
func ParseGit(s string) (host Rule, login, path string, err error) {
	wrong := func(problem string) (Rule, string, string, error) {
		return Rule{}, "", "", bailey.NewError(bailey.Invalid, fmt.Sprintf("repository %q: %s", s, problem), "write it as git@example.com:owner/name.git, or ssh://git@example.com:2222/owner/name.git")
	}
	rest, isURL := strings.CutPrefix(s, "ssh://")
	separator := ":"
	if isURL {
		separator = "/"
	} else if strings.Contains(s, "://") {
		return wrong("it is not for SSH; one over HTTPS is a rule of net.allow with git")
	}
	login, rest, ok := strings.Cut(rest, "@")
	if !ok {
		return wrong("it names no user of the host")
	}
	if !isLogin(login) {
		return wrong("what stands before the @ is no name of a user")
	}
	target, path, ok := strings.Cut(rest, separator)
	if !ok || path == "" {
		return wrong("it has no path")
	}
	if isURL {
		path = "/" + path
	}
	if host, err = ParseRule(target); err != nil {
		return Rule{}, "", "", err
	}
	if !isURL && host.Port != 0 || host.Host == "" || host.Wildcard {
		return wrong("its host has to be one name")
	}
	if host.Port == 0 {
		host.Port = sshPort
	}
	return host, login, path, checkGitPath(path)
}

// isLogin takes the names that useradd(8) takes, in capitals too.
func isLogin(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && c != '.' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// checkGitPath refuses a path that a shell, git or a file system could take for
// something else than the folder it names.
func checkGitPath(path string) error {
	wrong := func(problem string) error {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("repository %q: %s", path, problem), "write its path as owner/name.git, or /srv/git/name.git")
	}
	if len(path) > 512 {
		return wrong("it is longer than 512 bytes")
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case segment == "":
			return wrong("it has an empty segment, or a slash at its end")
		case strings.Trim(segment, ".") == "":
			return wrong("it has a segment of dots")
		case segment[0] == '-':
			return wrong("it has a segment that could be read as an option")
		}
		for i := range len(segment) {
			if c := segment[i]; !isUnreserved(c) || c == '~' {
				return wrong(fmt.Sprintf("it holds the byte %q", c))
			}
		}
	}
	return nil
}

// CheckBranch refuses what is no pattern of branches: a name below refs/heads,
// or one that ends in /*, for every name below.
func CheckBranch(s string) error {
	name := strings.TrimSuffix(s, "/*")
	for segment := range strings.SplitSeq(name, "/") {
		ok := segment != "" && segment[0] != '.' && segment[0] != '-' && !strings.Contains(segment, "..") &&
			!strings.HasSuffix(segment, ".") && !strings.HasSuffix(segment, ".lock")
		for i := range len(segment) {
			ok = ok && isUnreserved(segment[i]) && segment[i] != '~'
		}
		if !ok || len(s) > 200 {
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("branch %q is no name of one", s), "write a name such as main, or agent/* for all below agent/")
		}
	}
	return nil
}

func (r Rule) isSSH() bool { return r.Narrow != nil && r.Narrow.SSH != nil }

// checkSSH refuses a rule for git over SSH that says anything else besides, or
// too little.
func (r Rule) checkSSH(n Narrow) error {
	s := n.SSH
	if s == nil {
		return nil
	}
	wrong := func(problem string) error {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("git over SSH with %s: %s", r, problem), "write its repositories as git@example.com:owner/name.git")
	}
	switch {
	case r.Host == "" || r.Wildcard || r.Service || r.Port == 0:
		return wrong("it has to be one host by its name")
	case len(n.Methods)+len(n.Paths)+len(n.Repositories)+len(n.Records) > 0 || n.Inspect:
		return wrong("it is about HTTP too")
	case !isLogin(s.Login):
		return wrong("it names no user of the host")
	case len(s.Repositories) == 0:
		return wrong("it names no repository")
	case len(s.Branches) > 0 && !s.Push:
		return wrong("it has branches to push to, and no write")
	}
	if err := first(s.Repositories, checkGitPath); err != nil {
		return err
	}
	return first(s.Branches, CheckBranch)
}

func (s *SSH) text() string {
	verb := "git over SSH as " + s.Login + ", fetch "
	if s.Push {
		verb = "git over SSH as " + s.Login + ", fetch and push "
	}
	text := verb + strings.Join(s.Repositories, ",")
	if len(s.Branches) > 0 {
		text += " to branches " + strings.Join(s.Branches, ",")
	}
	return text
}

// covers reports whether all that o lets through s does. What is not about git
// over SSH covers nothing of it, and the other way round: the one lends the
// user's key, the other does not.
func (s *SSH) covers(o *SSH) bool {
	if s == nil || o == nil {
		return s == nil && o == nil
	}
	return s.Login == o.Login && coversAll(s.Repositories, o.Repositories, equal) && (s.Push || !o.Push) &&
		(!o.Push || coversAll(s.Branches, o.Branches, coversBranch))
}

func coversBranch(a, b string) bool {
	below, all := strings.CutSuffix(a, "*")
	return a == b || all && strings.HasPrefix(b, below)
}

// find returns the repository of the rule that a path means, as the rule has it.
// Hosts take a path with and without .git, and many one with a slash in front.
func (s *SSH) find(path string) (string, bool) {
	if slices.Contains(s.Repositories, path) {
		return path, true
	}
	plain := func(p string) string { return strings.TrimSuffix(strings.TrimPrefix(p, "/"), ".git") }
	i := slices.IndexFunc(s.Repositories, func(r string) bool { return plain(r) == plain(path) })
	if i < 0 {
		return "", false
	}
	return s.Repositories[i], true
}

// outsideSSH is outside for rules of git over SSH, and for its commands.
func (t *target) outsideSSH(r Rule) string {
	if !r.isSSH() || t.Protocol != ProtocolSSH {
		return ReasonSealed
	}
	s := r.Narrow.SSH
	_, known := s.find(t.Path)
	if t.Login != s.Login || !known || t.Method != GitFetch && (t.Method != GitPush || !s.Push) {
		return ReasonRepository
	}
	return ""
}

// overSSH decides whatever goes to a host at the port of its rules for git over
// SSH, or returns nil where there are none. That ends at the proxy, so that no
// other rule, and no mode, lets it by.
func (x *Index) overSSH(t *target) *bailey.Decision {
	if t.anyPort {
		return nil
	}
	var of []string
	for e := range t.rules(x.allow) {
		if !e.rule.isSSH() || !e.rule.allowsPort(t.Port) {
			continue
		}
		if t.outside(e.rule) == "" {
			return &bailey.Decision{Verdict: bailey.Allow, Rule: e.text, Reason: "", Detail: ""}
		}
		of = append(of, brief(e.rule.Narrow.SSH.text()))
	}
	switch {
	case len(of) == 0 && t.Protocol != ProtocolSSH:
		return nil
	case len(of) == 0:
		d := denied(ReasonNotAllowed, "", fmt.Sprintf("%s:%d is not allowed for git over SSH", t.text, t.Port))
		return &d
	case t.Protocol != ProtocolSSH:
		d := denied(ReasonSealed, "", fmt.Sprintf("of %s:%d only %s is allowed, and this is no git over SSH", t.text, t.Port, strings.Join(of, "; ")))
		return &d
	}
	d := denied(ReasonRepository, "", fmt.Sprintf("of %s only %s is allowed, not %s of %s as %s%s can allow it with: bailey run --git %s",
		t.text, strings.Join(of, "; "), t.Method, t.Path, t.Login, toStarter, t.gitFlag()))
	return &d
}

// gitFlag is the value of --git that allows a command.
func (t *target) gitFlag() string { return gitFlag(t.Method, t.Repository()) }

func gitFlag(command, repository string) string {
	if command == GitPush {
		return repository + ":rw"
	}
	return repository
}

// Repository is what a command over SSH is about, as git's users write it.
func (r Request) Repository() string {
	if r.Port == sshPort && !strings.HasPrefix(r.Path, "/") {
		return r.Login + "@" + r.Host + ":" + r.Path
	}
	return fmt.Sprintf("ssh://%s@%s:%d/%s", r.Login, r.Host, r.Port, strings.TrimPrefix(r.Path, "/"))
}

// OverSSH reports whether connections to a host and port are for git over SSH.
func (x *Index) OverSSH(host string, port uint16) bool {
	for e := range x.allow.named(host) {
		if e.rule.isSSH() && e.rule.allowsPort(port) {
			return true
		}
	}
	return false
}

// GitGrant is what of a host one command of git over SSH may have.
type GitGrant struct {
	Repository string   // as the host is told it
	Branches   []string // of a push; empty: any reference
}

// GrantGit returns what an allowed command may have: by the first of the rules
// that allows it. The path of the repository is the rule's, never the asker's.
func (p Policy) GrantGit(r Request) (GitGrant, bool) {
	for _, rule := range p.Allow {
		if !rule.isSSH() || !rule.matchesHost(r.Host) || !rule.allowsPort(r.Port) {
			continue
		}
		t := &target{Request: r}
		if t.outsideSSH(rule) != "" {
			continue
		}
		path, _ := rule.Narrow.SSH.find(r.Path)
		return GitGrant{path, rule.Narrow.SSH.Branches}, true
	}
	return GitGrant{}, false
}

// OverSSH returns the rules for git over SSH. Where there is no network there
// are none.
func (p Policy) OverSSH() []Rule {
	return slices.DeleteFunc(slices.Clone(p.Allow), func(r Rule) bool { return p.Mode == bailey.NetNone || !r.isSSH() })
}
