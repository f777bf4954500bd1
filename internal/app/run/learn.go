package run

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/mirror"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/settings"
)

// Bounds of what a run learns: a sandbox can make up hosts for ever.
const (
	mostLearned  = 256
	mostRequests = 12 // paths of one host
)

// learned is what a run asked of the network, allowed or not. Nothing of it is
// let through for that.
type learned struct {
	wants map[string]*want
	order []string
	more  int
	left  []string // what no rule opens, each once
	file  *proposalFile
}

// want is a host that was asked for at one port; 0: it was only looked up.
type want struct {
	host     string
	port     uint16
	refused  int
	used     int
	program  string
	methods  map[string]bool // of requests that rules tell apart
	paths    map[string]bool
	whole    bool // something was asked for that shows no request
	service  bool
	gitPath  string // of a repository over SSH
	gitWrite bool
}

// learns takes what was decided.
func (l *learned) add(e bailey.Event) {
	if e.Type != bailey.EventNetDecision || toProxy(e) && e.Reason == policy.ReasonSilent {
		return
	}
	allowed := e.Verdict == bailey.Allow.String()
	if !allowed && (!opens(e) || e.Host == policy.ServiceHost) { // a service of this machine is not proposed because a program asks
		l.leave(e)
		return
	}
	host := cmp.Or(e.Host, e.Address)
	if host == "" || e.Protocol == policy.ProtocolDNS && allowed {
		return
	}
	key := fmt.Sprintf("%s %d", host, e.Port)
	if e.Protocol == policy.ProtocolSSH {
		key = e.Path
	}
	w := l.wants[key]
	if w == nil {
		if len(l.order) == mostLearned {
			l.more++
			return
		}
		w = &want{host: host, port: e.Port, service: e.Host == policy.ServiceHost}
		if l.wants == nil {
			l.wants = map[string]*want{}
		}
		l.wants[key] = w
		l.order = append(l.order, key)
	}
	w.add(e, allowed)
}

// opens reports whether a rule about the host, or one that says more, would let
// a refused event through.
func opens(e bailey.Event) bool {
	return policy.RemedyOf(e).Flag != "" || e.Reason == policy.ReasonMethod || e.Reason == policy.ReasonPath
}

func (w *want) add(e bailey.Event, allowed bool) {
	if allowed {
		w.used++
	} else {
		w.refused++
	}
	w.program = cmp.Or(w.program, e.Program)
	switch {
	case e.Protocol == policy.ProtocolSSH:
		w.gitPath = e.Path
		w.gitWrite = w.gitWrite || e.Method == policy.GitPush
	case e.Method == "" || e.Path == "":
		w.whole = w.whole || e.Protocol != policy.ProtocolDNS
	default:
		if w.methods == nil {
			w.methods, w.paths = map[string]bool{}, map[string]bool{}
		}
		w.methods[e.Method] = true
		if len(w.paths) <= mostRequests {
			w.paths[e.Path] = true
		}
	}
}

// leave keeps what is not proposed, with the reason.
func (l *learned) leave(e bailey.Event) {
	target, note := targetOf(e), policy.RemedyOf(e).Note
	if note == "" {
		note = e.Reason
	}
	const most = 20
	if line := target + ": " + note; target != "" && len(l.left) < most && !slices.Contains(l.left, line) {
		l.left = append(l.left, line)
	}
}

// list returns what was wanted, the ports of a host one after the other. A host
// that was also connected to is not there for its look-up.
func (l *learned) list() []*want {
	var out []*want
	for _, key := range l.order {
		w := l.wants[key]
		connected := func(o *want) bool { return o.host == w.host && o.port != 0 }
		if w.port == 0 && slices.ContainsFunc(slices.Collect(maps.Values(l.wants)), connected) {
			continue
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b *want) int { return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port)) })
	return out
}

// proposal is the smallest policy that lets through what was wanted, as YAML; ""
// where nothing was.
func (l *learned) proposal(command []string, h mirror.Host) string {
	wants := l.list()
	if len(wants) == 0 {
		return ""
	}
	presets, rest := presetsFor(wants, h)
	var hosts, repos []string
	for _, w := range rest {
		if w.gitPath != "" {
			repos = append(repos, w.git())
		} else {
			hosts = append(hosts, w.entry())
		}
	}
	lines := []string{
		"# Proposed by bailey run --learn. The sandbox asked for these, and it can ask for",
		"# anything: keep a line only if you know what it is for.",
		"# command: " + quoted(strings.Join(command, " ")),
		"net:", "  mode: allow",
	}
	lines = append(lines, section("presets", presets)...)
	lines = append(lines, section("allow", hosts)...)
	lines = append(lines, section("git", repos)...)
	for _, line := range l.left {
		lines = append(lines, "# left out: "+visible(line))
	}
	if l.more > 0 {
		lines = append(lines, fmt.Sprintf("# and %d more that found no place", l.more))
	}
	return strings.Join(lines, "\n") + "\n"
}

// section is a list of a policy file.
func section(name string, items []string) []string {
	if len(items) == 0 {
		return nil
	}
	out := []string{"  " + name + ":"}
	for _, item := range items {
		out = append(out, "    - "+item)
	}
	return out
}

// entry is one rule of net.allow.
func (w *want) entry() string {
	if w.service {
		return fmt.Sprintf("{host-service: %d, why: %s}", w.port, w.why())
	}
	parts := []string{"host: " + strconv.Quote(w.host)}
	if w.port != 0 {
		parts = append(parts, fmt.Sprintf("ports: [%d]", w.port))
	}
	if methods, paths := w.requests(); len(paths) > 0 {
		parts = append(parts, "methods: ["+strings.Join(methods, ", ")+"]", "paths: ["+strings.Join(paths, ", ")+"]")
	}
	return "{" + strings.Join(append(parts, "why: "+w.why()), ", ") + "}"
}

func (w *want) git() string {
	write := ""
	if w.gitWrite {
		write = ", write: true"
	}
	return fmt.Sprintf("{repositories: [%s]%s, why: %s}", strconv.Quote(w.gitPath), write, w.why())
}

// requests are the methods and paths that were seen, if all that was asked for
// showed them.
func (w *want) requests() (methods, paths []string) {
	if w.whole || len(w.paths) == 0 {
		return nil, nil
	}
	for _, m := range slices.Sorted(maps.Keys(w.methods)) {
		if policy.CheckMethod(m) != nil {
			return nil, nil
		}
		methods = append(methods, m)
	}
	for _, p := range slices.Sorted(maps.Keys(w.paths)) {
		if len(w.paths) > mostRequests { // what they have in common
			first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
			p = "/" + first + "/*"
		}
		if policy.CheckPattern(p) != nil {
			return nil, nil
		}
		if p = strconv.Quote(p); !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return methods, paths
}

// why says what is known of it.
func (w *want) why() string {
	var parts []string
	if w.refused > 0 {
		parts = append(parts, "refused "+times(w.refused))
	}
	if w.used > 0 {
		parts = append(parts, "used "+times(w.used))
	}
	if w.port == 0 {
		parts = append(parts, "only looked up, so its port is not known")
	}
	if w.program != "" {
		parts = append(parts, "claims to be "+w.program)
	}
	return strconv.QuoteToASCII(strings.Join(parts, "; "))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// visible makes words of a sandbox's fit for a comment.
func visible(s string) string {
	q := strconv.QuoteToASCII(s)
	return q[1 : len(q)-1]
}

// presetsFor returns presets for what is wanted, and what none of them is for.
// One is proposed for several hosts of its own, or where it holds hardly more
// than the one.
func presetsFor(wants []*want, h mirror.Host) (items []string, rest []*want) { //nolint:gocognit // presets by hosts
	rest = wants
	for {
		best, covered := "", []*want(nil)
		size := 0
		for _, name := range settings.PresetNames() {
			held, err := settings.Expand(name, "", h)
			if err != nil {
				continue
			}
			got := coveredBy(held, rest)
			enough := len(wantedHosts(got)) > 1 || len(got) > 0 && len(held) <= 2
			if better := len(got) > len(covered) || len(got) == len(covered) && len(held) < size; enough && better {
				best, covered, size = name, got, len(held)
			}
		}
		if best == "" {
			return items, rest
		}
		items = append(items, best+" # "+strings.Join(wantedHosts(covered), ", "))
		rest = slices.DeleteFunc(slices.Clone(rest), func(w *want) bool { return slices.Contains(covered, w) })
	}
}

// coveredBy are those of what is wanted that rules let through.
func coveredBy(held []settings.Held, wants []*want) (out []*want) {
	p := policy.Policy{Mode: bailey.NetAllow}
	for _, r := range held {
		p.Allow = append(p.Allow, r.Rule)
	}
	x := policy.NewIndex(p)
	for _, w := range wants {
		ask := policy.Request{Protocol: policy.ProtocolTLS, Host: w.host, Port: cmp.Or(w.port, 443)}
		if w.gitPath == "" && !w.service && len(w.paths) == 0 && x.Decide(ask).Verdict == bailey.Allow {
			out = append(out, w)
		}
	}
	return out
}

func wantedHosts(wants []*want) []string {
	var out []string
	for _, w := range wants {
		out = appendNew(out, w.host)
	}
	return out
}

// proposalFile is where a proposal is written. Its folder is opened before there
// is a sandbox, and the file made when there is none any more.
type proposalFile struct {
	path string
	dir  *os.File
}

// openProposal prepares it, or returns nil where none is asked for.
func openProposal(h Host, path, workspace string) (*proposalFile, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // it is printed alone
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(h.Dir, path)
	}
	const hint = "name a file that is not there yet, in a folder that is"
	dir, err := beneath.Folder(filepath.Dir(path), workspace)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, fmt.Sprintf("--learn=%s: its folder cannot be opened", path), err, hint)
	}
	if _, err := beneath.Lstat(dir, filepath.Base(path)); err == nil {
		_ = dir.Close()
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--learn=%s: there is such a file already", path), hint)
	}
	return &proposalFile{path, dir}, nil
}

// write makes the file; one that is there by now is a sandbox's.
func (f *proposalFile) write(text string) error {
	out, err := beneath.OpenNew(f.dir, filepath.Base(f.path), 0o600)
	if err != nil {
		return fmt.Errorf("write the proposed policy: %w", err)
	}
	_, err = out.WriteString(text)
	if err2 := out.Close(); err == nil {
		err = err2
	}
	return err
}

// sayNothing says why nothing is proposed.
func (l *learned) sayNothing(out *output) {
	if len(l.left) == 0 {
		out.say("learn: nothing is proposed: no connection was asked for")
		return
	}
	out.say("learn: nothing is proposed; what was refused is left out:")
	for _, line := range l.left {
		out.say("  %s", visible(line))
	}
}

// proposed says at the end what would be enough.
func (u *running) proposed() {
	l := u.learned
	if l == nil {
		return
	}
	u.mu.Lock()
	text := l.proposal(u.req.Command, u.plan.place.Mirror)
	u.mu.Unlock()
	if text == "" {
		l.sayNothing(u.out)
		return
	}
	if _, err := settings.Parse("proposal", []byte(text)); err != nil {
		u.warn("learn: bug: the proposal is no policy: " + err.Error())
		return
	}
	u.out.event(bailey.Event{Type: bailey.EventNetProposal, Message: text})
	if l.file == nil {
		u.out.say("learn: this would be enough:")
		for line := range strings.Lines(text) {
			u.out.say("  %s", strings.TrimSuffix(line, "\n"))
		}
		return
	}
	if err := l.file.write(text); err != nil {
		u.warn("learn: " + err.Error())
		return
	}
	u.out.say("learn: what would be enough is in %s; to allow it, read it and move it to %s, or to %s and run bailey policy trust", l.file.path, u.plan.place.UserFile(), settings.ProjectFile)
}
