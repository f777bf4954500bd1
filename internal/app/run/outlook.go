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
}

// Look says what a run would be, and makes nothing.
func Look(h Host, r Request) (Outlook, error) {
	h.Helper = local.Launch(h.Caller())
	defer h.Helper.Abandon()
	p, err := makePlan(h, &r)
	if err != nil {
		return Outlook{}, err
	}
	return Outlook{Workspace: p.workspace, Runtime: p.spec.Runtime, Policy: p.policy, Limits: r.Limits.Limits(h.CPUs, h.Memory), Skills: p.open.skillsAt()}, p.environment.Close()
}
