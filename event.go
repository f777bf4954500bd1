package bailey

import "time"

// EventType names what happened. Dotted, noun first.
type EventType string

// The events of a run. docs/events.md describes the fields of each.
const (
	EventSandboxStarting EventType = "sandbox.starting"
	EventSandboxStarted  EventType = "sandbox.started"
	EventSandboxExited   EventType = "sandbox.exited"
	EventLimitReached    EventType = "limit.reached"
	EventNetDecision     EventType = "net.decision"
	EventNetOpen         EventType = "net.open"       // an allowed connection that goes on; its net.decision comes at its end
	EventNetAsk          EventType = "net.ask"        // a host waits for a person's answer
	EventNetAnswered     EventType = "net.answered"   // it was given, or nobody gave one in time
	EventNetFlow         EventType = "net.flow"       // how far an open connection is; for who follows
	EventNetProposal     EventType = "net.proposal"   // a policy that would be enough, as YAML; nothing holds for it
	EventNetPolicy       EventType = "net.policy"     // the rules were changed under the sandbox
	EventSecretUse       EventType = "secret.use"     // a request carried the value of a secret
	EventSecretChanged   EventType = "secret.changed" // secrets were rotated, changed or withdrawn under the sandbox
	EventModelCall       EventType = "model.call"     // a model call, at its end
	EventModelRefused    EventType = "model.refused"  // one that the gateway did not send, or that failed
	EventModelTotal      EventType = "model.total"    // what all calls of a run used
	EventFileShadowed    EventType = "file.shadowed"  // a private copy was changed inside
	EventFileReverted    EventType = "file.reverted"  // the host's was set right after the run
	EventFileOpen        EventType = "file.open"      // it was not set right, or not looked at
	EventFileTripped     EventType = "file.tripped"   // the sandbox was ended: the host's git would have acted for it
	EventFileGit         EventType = "file.git"       // a git folder was made
	EventFileRuns        EventType = "file.runs"      // the host would run it
	EventWarning         EventType = "warning"
	EventError           EventType = "error"
)

// Event is one line of `--json`: what happened to which sandbox. Fields that
// do not belong to the type are absent. No field ever holds the value of an
// environment variable, a secret or a request body.
type Event struct {
	Time    time.Time `json:"time"`
	Type    EventType `json:"type"`
	Sandbox SandboxID `json:"sandbox"`

	Name    string   `json:"name,omitempty"`    // of the sandbox
	Command []string `json:"command,omitempty"` // argv as given

	Protocol string `json:"protocol,omitempty"` // dns, tls, http, tcp
	Host     string `json:"host,omitempty"`     // as normalised
	Port     uint16 `json:"port,omitempty"`
	Address  string `json:"address,omitempty"`  // dialled, or asked for if denied
	Method   string `json:"method,omitempty"`   // of an HTTP request
	Verdict  string `json:"verdict,omitempty"`  // allow or deny
	Rule     string `json:"rule,omitempty"`     // as written
	Reason   string `json:"reason,omitempty"`   // one word
	BytesIn  int64  `json:"bytes_in,omitempty"` // upstream to sandbox
	BytesOut int64  `json:"bytes_out,omitempty"`

	DurationMS int64  `json:"duration_ms,omitempty"` // of the connection
	Program    string `json:"program,omitempty"`     // what the sandbox says that it is
	Connection uint64 `json:"connection,omitempty"`  // its number in the run, from 1

	Secret string `json:"secret,omitempty"` // id
	Status int    `json:"status,omitempty"` // of an HTTP answer; absent: there was none

	Model   string    `json:"model,omitempty"`   // as the operator calls it
	Removed []string  `json:"removed,omitempty"` // from a model call before it was sent
	Use     *ModelUse `json:"use,omitempty"`     // what it used

	Limit    string `json:"limit,omitempty"` // memory, disk, inodes, timeout
	Path     string `json:"path,omitempty"`  // of a file; of an HTTP request where rules judge it, without the query
	By       string `json:"by,omitempty"`    // what would run the file
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	Message  string `json:"message,omitempty"` // one sentence for a person
}

// What may be asked for beside an answer of a model.
const (
	AskedModels = "models" // which there are; the gateway answers that itself
	AskedCount  = "count"  // how many tokens a request has
)

// ModelUse is what model calls used, in tokens. The classes do not overlap:
// Input holds neither CacheRead nor CacheWrite.
type ModelUse struct {
	Requests   int64  `json:"requests,omitempty"` // of a sum
	Input      int64  `json:"input_tokens"`
	Output     int64  `json:"output_tokens"`
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	CostUSD    string `json:"cost_usd,omitempty"`   // a decimal number; absent without a price
	Estimated  bool   `json:"estimated,omitempty"`  // the provider did not say it
	Stream     bool   `json:"stream,omitempty"`     // the answer came as events
	Retried    bool   `json:"retried,omitempty"`    // it was sent twice
	FirstMS    int64  `json:"first_ms,omitempty"`   // until the answer began
	Asked      string `json:"asked,omitempty"`      // what was asked for, where that is no answer of a model
	Served     string `json:"served,omitempty"`     // the model that answered, by the provider's word, if another
	Odd        string `json:"odd,omitempty"`        // what was odd about the counts
	Limits     string `json:"limits,omitempty"`     // what the provider says of its rate limits
	Unrecorded int    `json:"unrecorded,omitempty"` // refusals that have no event, of a sum
}
