// Package modelgate is what the starter of a model gateway and the gateway
// agree on: its name, its descriptors and its settings. It is apart from the
// role itself so that a starter does not link what a gateway does.
package modelgate

import (
	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/upstream"
)

// The names under which the binary plays the gateway, and carries a key to it.
const (
	Argv0    = role.Gateway
	KeyArgv0 = role.Key
)

// Env is the environment that the gateway is started with: one processor. A call
// goes through the hands of several goroutines, and to wake another processor
// for each costs more than what they do.
func Env() []string { return []string{"GOMAXPROCS=1"} }

// The descriptors the gateway is started with.
const (
	FDSettings = 3 // read: Settings as one JSON document, to its end
	FDWire     = 4 // the host's end of the wire for calls; its end is ours
	FDEvents   = 5 // write: events as JSON lines
	FDDays     = 6 // Unix stream socket: a Day line out, the day's ledger in
	FDKeys     = 7 // read: the provider's key, as Key lines; the last one holds
	FDRecord   = 8 // write: Exchange lines, where content is recorded; else the null device
)

// MaxMessage bounds the settings, in bytes, and MaxKey a line with a key.
const (
	MaxMessage = 1 << 20
	MaxKey     = 64 << 10
)

// Settings is what the role has to know. The zero value is not valid.
type Settings struct {
	Sandbox  bailey.SandboxID `json:"sandbox"`
	Task     string           `json:"task,omitempty"` // id of the task whose agent asks; empty: it is a run of its own
	Pin      gateway.Pin      `json:"pin"`
	Provider models.Provider  `json:"provider"`
	Price    *pricing.Price   `json:"price,omitempty"` // nil: there is none
	Limits   budget.Limits    `json:"limits"`
	Token    []byte           `json:"token"`              // SHA-256 of what the sandbox has to say
	Record   bool             `json:"record,omitempty"`   // content is recorded
	Upstream *upstream.Proxy  `json:"upstream,omitempty"` // nil: the provider is dialled directly
	Extra    [][]byte         `json:"extra,omitempty"`    // certificates (DER) that are trusted beside the machine's
}

// Key is a provider's key on its way to the gateway, through a pipe and nothing
// else. An empty value takes it back.
type Key struct {
	Value []byte `json:"value"`
}

// String keeps the value from being printed.
func (Key) String() string { return "[secret]" }

// GoString keeps %#v from printing it.
func (k Key) GoString() string { return k.String() }

// KeyTask is what the carrier of a key is told, on its standard input.
type KeyTask struct {
	Secret   string `json:"secret"`
	Provider string `json:"provider"` // whose key it is, by name
	Changed  bool   `json:"changed"`  // the key is known already: nobody is asked for anything
	Config   string `json:"config"`   // bailey's folders
	Data     string `json:"data"`
	State    string `json:"state"`
}

// Exchange is a line of what is recorded with --record: one call, and what was
// said in it. Ask is the request as it was sent to the provider, Answer what the
// sandbox got: JSON, or the events of a stream.
type Exchange struct {
	Time     string   `json:"time"`
	Model    string   `json:"model"`
	Status   int      `json:"status"`
	Code     string   `json:"code,omitempty"`
	Removed  []string `json:"removed,omitempty"`
	Request  string   `json:"request"`
	Response string   `json:"response"`
}

// Day is a packet of FDDays: the starter's says which day's file comes with it,
// or why none does; the gateway's asks for the one after a day.
type Day struct {
	Day   budget.Day `json:"day,omitempty"`
	Error string     `json:"error,omitempty"`
}
