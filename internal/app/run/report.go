package run

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
	"github.com/bailey-dev/bailey/internal/session"
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
		fmt.Sprintf("sandbox %s: %s, workspace %s (%s)", p.name, Runtime, p.workspace, access),
		u.netLine(),
	}
	for _, m := range p.mounted {
		lines = append(lines, fmt.Sprintf("mounted read-only: %s (%s)", m.Source, m.Why))
	}
	lines = append(lines, p.notes...)
	for _, s := range u.limits.watched() {
		switch s.Limit {
		case cgroup.Tasks: // RLIMIT_NPROC inside holds it; the cgroup only backs it up
		case cgroup.CPU:
			lines = append(lines, "limit cpus is not enforced: "+s.Why)
		default:
			lines = append(lines, fmt.Sprintf("limit %s is watched, not enforced: %s", s.Limit, s.Why))
		}
	}
	return lines
}

func (u *running) netLine() string {
	switch u.plan.policy.Mode {
	case bailey.NetNone:
		return "network: none (--allow HOST lets it reach one)"
	case bailey.NetOpen:
		line := "network: open: any public address"
		if n := len(u.plan.policy.Deny); n > 0 {
			line += fmt.Sprintf(" but %d denied", n)
		}
		return line
	case bailey.NetAllow:
	}
	const most = 6
	var rules []string
	for i, r := range u.plan.policy.Allow {
		if i == most {
			rules = append(rules, fmt.Sprintf("and %d more", len(u.plan.policy.Allow)-most))
			break
		}
		rules = append(rules, r.String())
	}
	return "network: " + strings.Join(rules, ", ")
}

// footer says, after the command ended, what a person should know before they
// touch the workspace.
func (u *running) footer(r session.Result) {
	u.netFooter()
	if n := r.Dropped.Total(); n > 0 {
		var parts []string
		for name, count := range r.Dropped.Named() {
			parts = append(parts, fmt.Sprintf("%s %d", name, count))
		}
		u.out.say("filtered from the terminal: %s", strings.Join(parts, ", "))
	}
	u.files()
}

func (u *running) netFooter() {
	u.mu.Lock()
	list, more, flags := u.denied.list(), u.denied.more, u.denied.flags()
	u.mu.Unlock()
	if len(list) == 0 {
		return
	}
	const most = 12
	u.out.say("the network refused:")
	for i, d := range list {
		if i == most {
			u.out.say("  and %d more", len(list)-most+more)
			break
		}
		line := "  " + d.target + " (" + d.reason
		if d.count > 1 {
			line += ", " + strconv.Itoa(d.count) + " times"
		}
		line += ")"
		if flags := d.allow(); flags != "" {
			line += "   " + flags
		}
		u.out.say("%s", line)
	}
	if flags != "" && len(list) > 1 {
		u.out.say("to allow them all: %s", flags)
	}
}

// scanBudget bounds the look through the workspace after the run.
const scanBudget = 2 * time.Second

// files undoes what may not stay and lists what the host's own tools would
// run or read as configuration.
func (u *running) files() {
	if u.req.ReadOnly {
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
		found = append(found, workspace.Compare(s, workspace.Observe(s, u.sandbox.Private, rel))...)
	}
	u.report(bailey.EventFileShadowed, "changed in the sandbox's own copy; the host's is as it was", found)
	u.report(bailey.EventFileReverted, "set right after the run", u.held.Revert(u.started))
	repos, truncated := workspace.NewGitDirs(u.plan.guard, u.started, scanBudget, time.Now)
	u.report(bailey.EventFileGit, "look before you use git there", repos)
	if truncated {
		u.warn(fmt.Sprintf("the workspace is large: the look for new git folders stopped after %v", scanBudget))
	}
	u.report(bailey.EventFileRuns, "would run on the host", workspace.HostRun(u.plan.guard, u.started))
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
