// Command bailey runs untrusted agents in a sandbox with one guarded way out.
//
// The binary plays several roles. All but gVisor's own are run by package
// prelude before gVisor's packages are initialised (docs/adr/0007); what is
// left for main is gVisor.
package main

import (
	_ "github.com/bailey-dev/bailey/internal/prelude"
	"github.com/bailey-dev/bailey/internal/runsc/embedded"
)

func main() { embedded.Main() }
