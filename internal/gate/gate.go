// Package gate is what the starter of a proxy and the proxy agree on: its
// name, its descriptors and its settings. It is apart from the role itself so
// that a starter does not link what a proxy does.
package gate

import (
	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pki"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/role"
)

// Argv0 is the name under which the binary plays the proxy.
const Argv0 = role.Proxy

// The descriptors the role is started with.
const (
	FDSettings = 3 // read: Settings as one JSON document, to its end
	FDPeer     = 4 // Unix stream socket: the listeners arrive here; its end is ours
	FDEvents   = 5 // write: events as JSON lines
)

// Ports of the airlock's gateway at which programs inside may speak to the
// proxy as one. Each speaks HTTP and SOCKS5; there are two because people look
// for the protocols there (squid's port, and RFC 1928's).
const (
	ProxyPort = 3128
	SOCKSPort = 1080
)

// Settings is what the role has to know. The zero value is not valid.
type Settings struct {
	Sandbox bailey.SandboxID `json:"sandbox"`
	Policy  policy.Policy    `json:"policy"`
	Root    *pki.Sealed      `json:"root,omitempty"` // with which TLS is opened; nil: none is
}
