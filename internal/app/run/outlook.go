package run

import (
	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/local"
	"github.com/bailey-dev/bailey/internal/policy"
)

// Outlook is what a run would be: its plan, as far as others ask for it.
type Outlook struct {
	Workspace string
	Runtime   bailey.Runtime
	Policy    policy.Policy
	Limits    bailey.Limits // the command's own
	Skills    string        // where the folder of skills is inside; empty for none
	Unfit     string        // why the command would not start, where that is sure before there is a sandbox
	Hint      string        // what may mend that
}

// Look says what a run would be, and makes nothing.
func Look(h Host, r Request) (Outlook, error) {
	if h.Helper == nil {
		h.Helper = local.Launch(h.Caller())
	}
	defer h.Helper.Abandon()
	p, err := makePlan(h, &r)
	if err != nil {
		return Outlook{}, err
	}
	o := Outlook{Workspace: p.workspace, Runtime: p.spec.Runtime, Policy: p.policy, Limits: r.Limits.Limits(h.CPUs, h.Memory), Skills: p.open.skillsAt()}
	var code int
	if o.Unfit, code = p.unfit(); o.Unfit != "" {
		o.Hint = startHint(p.exec.Argv, code, false)
	}
	return o, p.environment.Close()
}
