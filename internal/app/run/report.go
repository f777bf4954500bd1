package run

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// header says, before the command starts, what the sandbox is.
func (u *running) header() []string {
	p := u.plan
	access := "read-write"
	if u.req.ReadOnly {
		access = "read-only"
	}
	lines := []string{
		fmt.Sprintf("sandbox %s: %s, workspace %s (%s)", p.name, p.spec.Runtime, p.workspace, access),
		u.netLine(),
	}
	if opened := u.plan.policy.Opened(); len(opened) > 0 {
		lines = append(lines, "inspected: TLS to "+hostsLine(opened)+" is opened, so that rules can see the requests")
	}
	for _, m := range p.mounted {
		lines = append(lines, fmt.Sprintf("mounted read-only: %s (%s)", m.Source, m.Why))
	}
	lines = append(lines, u.req.Loose.lines()...)
	lines = append(lines, p.open.lines()...)
	lines = append(lines, p.hidingLines()...)
	lines = append(lines, p.publishLines()...)
	lines = append(lines, p.browserLines()...)
	lines = append(lines, p.notes...)
	return append(lines, limitLines(u.limits.watched())...)
}

// limitLines are what the header says of limits that no cgroup keeps.
func limitLines(watched []cgroup.Status) (lines []string) {
	for _, s := range watched {
		switch s.Limit {
		case cgroup.Tasks: // RLIMIT_NPROC inside holds it; the cgroup only backs it up
		case cgroup.CPU:
			lines = append(lines, "limit cpus is not enforced: "+s.Why+" (bailey doctor says more)")
		default:
			lines = append(lines, fmt.Sprintf("limit %s is watched, not enforced: %s (bailey doctor says more)", s.Limit, s.Why))
		}
	}
	return lines
}

func (u *running) netLine() string {
	p := u.plan.policy
	line := "network: "
	switch p.Mode {
	case bailey.NetNone:
		if by := u.plan.effective.ClosedBy(); by != "" {
			return line + "none (" + by + ")"
		}
		return line + "none (--allow HOST lets it reach one)"
	case bailey.NetOpen:
		line += "open: any public address"
	case bailey.NetFull:
		line += "full: any public or private address"
	case bailey.NetAllow:
		line += rulesLine(p.Allow)
		if len(p.Allow) == 0 {
			line += "no host"
		}
	}
	if len(p.Deny) > 0 {
		line += "; denied: " + rulesLine(p.Deny)
	}
	if p.Ask && p.Mode.ByList() {
		line += "; you are asked about others"
	}
	if p.Learn {
		line += "; learn: what is asked for beyond that is refused, and proposed at the end"
	}
	if p.DNS == bailey.DNSOpen {
		line += "; dns open: any name is looked up"
	}
	return line
}

func rulesLine(list []policy.Rule) string {
	var rules []string
	for _, r := range list { // a file and a flag may say the same
		if text := r.Brief(); !slices.Contains(rules, text) {
			rules = append(rules, text)
		}
	}
	return shortList(rules)
}

// hostsLine names the hosts and ports of some rules, each once.
func hostsLine(list []policy.Rule) string {
	var hosts []string
	for _, r := range list {
		if host := r.String(); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return shortList(hosts)
}

func shortList(list []string) string {
	const most = 6
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, ", ")
}

// footer says, after the command ended, what a person should know before they
// touch the workspace.
func (u *running) footer(r session.Result) {
	if hint := startHint(u.req.Command, r.Code, u.req.Preset, u.req.Models...); hint != "" && !u.ran.Load() {
		u.out.must("%s", hint)
	}
	u.netFooter()
	u.proposed()
	u.modelFooter()
	u.homeFooter()
	if n := r.Dropped.Total(); n > 0 {
		u.out.say("filtered from the terminal: %s", filtered(r.Dropped.Named()))
	}
	u.files()
}

// filtered lists counts by the name of what was counted.
func filtered(counts map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// mostRows is how many refusals the footer shows.
const mostRows = 12

// netFooter shows what the network refused, and how to allow it, and what it
// could not reach. What can be copied at once is what the rows show: nobody
// allows a host unseen.
func (u *running) netFooter() {
	u.mu.Lock()
	list, more := u.denied.list(), u.denied.more
	u.mu.Unlock()
	if len(list) == 0 {
		return
	}
	shown := list[:min(len(list), mostRows)]
	u.rows("the network refused", shown, func(d denial) bool { return !d.unreached })
	u.rows("allowed, and could not be reached", shown, func(d denial) bool { return d.unreached })
	all := "to allow them all"
	if hidden := len(list) - len(shown) + more; hidden > 0 {
		u.out.say("  and %d more", hidden)
		all = "to allow those above"
	}
	offers := offered(shown)
	if slices.ContainsFunc(shown, func(d denial) bool { return d.reason == policy.ReasonAnsweredNo }) {
		all = "to allow the others"
	}
	if flags := flagsOf(offers); flags != "" && len(offers) > 1 {
		u.out.say("%s: %s", all, flags)
	}
	if line := lineOf(offers); line != "" {
		u.out.say("for every run, in %s, or in %s with bailey policy trust:   %s", u.plan.place.UserFile(), settings.ProjectFile, line)
	}
}

// rows shows those of a list that are of a kind, if there are some.
func (u *running) rows(title string, list []denial, of func(denial) bool) {
	for _, d := range list {
		if !of(d) {
			continue
		}
		if title != "" {
			u.out.say("%s:", title)
			title = ""
		}
		u.out.say("  %s", d.row())
	}
}

// scanBudget bounds the look through the workspace after the run.
const scanBudget = 2 * time.Second

// files undoes what may not stay and lists what the host's own tools would
// run or read as configuration.
func (u *running) files() {
	if !u.guarded() {
		return
	}
	var found []workspace.Finding
	for i, s := range u.plan.spec.Shadows {
		if u.sandbox.Private == nil {
			break
		}
		rel := strconv.Itoa(i)
		if !s.Dir {
			rel = filepath.Join(rel, filepath.Base(s.Path))
		}
		seen := workspace.Observe(s, u.sandbox.Private, rel)
		s.Path = u.plan.open.onHost(s.Path)
		found = append(found, workspace.Compare(s, seen)...)
	}
	u.report(bailey.EventFileShadowed, "changed in the sandbox's own copy; the host's is as it was", found)
	right, open := workspace.Split(u.reverted)
	u.report(bailey.EventFileReverted, "set right after the run", right)
	u.report(bailey.EventFileOpen, "NOT set right: do not run git in this checkout before you have looked", open)
	u.report(bailey.EventFileGit, "objects of git that are forged, and set aside", u.objects.Forged)
	u.report(bailey.EventFileGit, "objects of git that were not verified; `git fsck` does", u.objects.Unverified)
	if !u.req.ReadOnly {
		u.workspaceFooter()
	}
	u.besideFooter()
	if changed := u.plan.place.Look().Since(u.plan.seen); changed != "" {
		u.warn("policy: " + changed)
	}
}

// workspaceFooter says what the run left in the workspace for others to act upon.
func (u *running) workspaceFooter() {
	repos, truncated := workspace.NewGitDirs(u.plan.guard, u.stamped, scanBudget, time.Now)
	u.report(bailey.EventFileGit, "do not run git there, nor in a checkout above, before you have looked", repos)
	if truncated {
		u.warn(fmt.Sprintf("not all of the workspace was looked through for new git folders: it took more than %v, or a folder could not be read", scanBudget))
	}
	u.reportRuns(workspace.HostRun(u.plan.guard, u.stamped))
}

// warn says that something works less well than it could.
func (u *running) warn(message string) {
	u.out.event(bailey.Event{Type: bailey.EventWarning, Message: message})
	u.out.say("%s", message)
}

func (u *running) report(kind bailey.EventType, title string, found []workspace.Finding) {
	const most = 20
	if len(found) == 0 {
		return
	}
	u.out.say("%s:", title)
	for i, f := range found {
		u.out.event(bailey.Event{Type: kind, Path: f.Path, Message: f.What})
		switch {
		case i < most:
			u.out.say("  %s: %s", f.Path, f.What)
		case i == most:
			u.out.say("  and %d more", len(found)-most)
		}
	}
}
