package gate

import (
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/role"
)

// SignerArgv0 is the name under which the binary plays the process that speaks
// SSH to git's hosts with the user's key.
const SignerArgv0 = role.Signer

// The descriptors of that role.
const (
	FDSignerSettings = 3 // read: Signer as JSON, and after it each policy that holds from then on; its end is the role's
	FDSignerProxy    = 4 // socket for packets: commands with connections, from the proxy
)

// Signer is what that role has to know.
type Signer struct {
	Policy policy.Policy `json:"policy"`
	Known  []string      `json:"known"`           // files with the keys of hosts that the user knows
	Agent  string        `json:"agent,omitempty"` // socket of the user's agent; empty: there is none
	Key    string        `json:"key,omitempty"`   // file with the user's key; empty: all that the agent holds
}
