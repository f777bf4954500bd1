package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/bailey-dev/bailey/internal/version"
)

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the versions of bailey and of the gVisor inside it.
func (c *versionCommand) Run(a *app) error {
	info, _ := debug.ReadBuildInfo()
	v := version.Read(info)
	if c.JSON {
		return printJSON(a.stdout, v)
	}
	_, _ = fmt.Fprintf(a.stdout, "bailey %s (gvisor %s, %s, %s)\n", v.Version, v.GVisor, v.Go, v.Platform)
	return nil
}
