// Package embedded links gVisor's runtime into the binary and runs it. Only
// cmd/bailey imports it; it registers the commands that are used and no more,
// which keeps gVisor's embedded extra binaries out of ours.
package embedded

import (
	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

// Main runs gVisor's command line with the process's own arguments. It does
// not return. Boot, Gofer and Umount are started by gVisor itself.
func Main() {
	userNamespace()
	cli.Run(nil, map[util.SubCommand]string{
		new(cmd.Run):          "",
		new(cmd.Gofer):        "internal",
		new(sentrycmd.Boot):   "internal",
		new(sentrycmd.Umount): "internal",
	}, nil)
}
