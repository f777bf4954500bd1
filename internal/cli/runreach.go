package cli

import "github.com/bailey-dev/bailey/internal/app/run"

// reachFlags are those of `bailey run` about what is reached with the user's own
// rights, and how.
type reachFlags struct {
	Git []string `placeholder:"REPO[:rw]" sep:"none" help:"Let git in the sandbox fetch from this repository over SSH, such as git@example.com:owner/name.git, and with :rw push to it. Your key stays outside: no agent and no key file enters, and nothing else of the host can be asked for. Repeatable." group:"Network"`
}

func (c reachFlags) reach() run.Reach { return run.Reach{Git: c.Git} }
