// Package role names the roles that a program of bailey can be started in: the
// argv[0] of each, and descriptors that more than one package must agree on.
package role

// The names.
const (
	Helper   = "bailey-helper"
	Native   = "bailey-native" // becomes the first process of a sandbox without gVisor
	Watchdog = "bailey-watchdog"
	Proxy    = "bailey-proxy"
	Gateway  = "bailey-gateway"
	Key      = "bailey-key"
	Signer   = "bailey-signer"
	Launcher = "bailey-launcher"
	Control  = "bailey-control"
	Runner   = "bailey-runner"
	Holder   = "bailey-holder" // the bailey run that holds a sandbox in the background
	Unit     = "bailey-unit"
	Catalog  = "bailey-catalog"
	Git      = "bailey-git"
	IDMap    = "bailey-idmap" // never runs: it holds a namespace at its first instruction
)

// HelperExeFD is the helper's descriptor of bailey's own binary, which it
// starts gVisor from.
const HelperExeFD = 5

// HelperNative tells a helper, as an argument, that it need not start gVisor
// before it has its settings. It decides nothing: they do.
const HelperNative = "native"
