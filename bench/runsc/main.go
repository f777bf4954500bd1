// Command runsc is gVisor's own command line, whole and unchanged, built from
// the module version that bailey links: what `make bench` compares with.
package main

import "gvisor.dev/gvisor/runsc/cli/maincli"

func main() { maincli.Main() }
