// Command bailey runs untrusted agents in a sandbox with one guarded way out.
//
// The binary plays several roles. All but gVisor's own are run by package
// prelude before gVisor's packages are initialised (docs/adr/0007); what is
// left for main is gVisor, and the proxy: what it is made of would be initialised
// after gVisor anyway.
package main

import (
	"os"

	"github.com/bailey-dev/bailey/internal/app/proxy"
	"github.com/bailey-dev/bailey/internal/gate"
	_ "github.com/bailey-dev/bailey/internal/prelude"
	"github.com/bailey-dev/bailey/internal/runsc/embedded"
)

func main() {
	if os.Args[0] == gate.Argv0 {
		os.Exit(proxy.Main(os.Args[1:]))
	}
	embedded.Main()
}
