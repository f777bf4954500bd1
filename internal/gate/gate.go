// Package gate is what the starter of a proxy and the proxy agree on: its
// name, its descriptors and its settings. It is apart from the role itself so
// that a starter does not link what a proxy does.
package gate

import (
	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pki"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/upstream"
)

// Argv0 is the name under which the binary plays the proxy.
const Argv0 = role.Proxy

// Env is the environment that the role is started with: one processor, for
// which the runtime of an idle proxy needs a quarter less memory. At its first
// connection it takes all of them.
func Env() []string { return []string{"GOMAXPROCS=1"} }

// The descriptors the role is started with.
const (
	FDSettings = 3 // read: Settings as one JSON document, to its end
	FDPeer     = 4 // Unix stream socket: the listeners arrive here; its end is ours
	FDEvents   = 5 // write: events as JSON lines
	FDControl  = 6 // Unix stream socket: Message lines in, Reply lines out
	FDGit      = 7 // with Settings.Git: socket for packets, to whoever has the user's key
)

// MaxMessage bounds the settings and a message, in bytes.
const MaxMessage = 4 << 20

// Ports of the airlock's gateway at which programs inside may speak to the
// proxy as one. Each speaks HTTP and SOCKS5; there are two because people look
// for the protocols there (squid's port, and RFC 1928's).
const (
	ProxyPort = 3128
	SOCKSPort = 1080
)

// Settings is what the role has to know. The zero value is not valid.
type Settings struct {
	Sandbox  bailey.SandboxID `json:"sandbox"`
	Policy   policy.Policy    `json:"policy"`
	Root     *pki.Sealed      `json:"root,omitempty"` // with which TLS is opened; nil: none is
	Secrets  []Secret         `json:"secrets,omitempty"`
	Upstream *upstream.Proxy  `json:"upstream,omitempty"` // nil: hosts are dialled directly
	Extra    [][]byte         `json:"extra,omitempty"`    // certificates (DER) that hosts may be proved by, beside the machine's
	Git      []byte           `json:"git,omitempty"`      // the key that hosts of git over SSH show to the sandbox; empty: there are none
}

// Message is what a running proxy is told, as one JSON line: a policy to
// follow from now on, secrets to hold in place of all before, or an answer to
// what it asked. Each has a generation
// higher than that of the one before. What the proxy cannot read, or would not
// have started with, changes nothing.
type Message struct {
	Generation uint64         `json:"generation"`
	Policy     *policy.Policy `json:"policy,omitempty"`
	Answer     *Answer        `json:"answer,omitempty"`
	Secrets    *[]Secret      `json:"secrets,omitempty"`
}

// Answer is a person's about the connections that wait for it, and no others.
type Answer struct {
	Host  string `json:"host"` // a name, or an address
	Port  uint16 `json:"port"`
	Allow bool   `json:"allow"`
}

// Reply is what became of a message.
type Reply struct {
	Generation uint64 `json:"generation"`
	Error      string `json:"error,omitempty"` // why it was refused
	Cut        int    `json:"cut,omitempty"`   // connections that a policy ended
}
