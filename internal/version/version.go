// Package version knows which bailey this is: its release, and the version of
// gVisor that is linked into it.
package version

import (
	"runtime"
	"runtime/debug"
)

// Number is the release. It is changed by hand, with the changelog.
const Number = "0.1.0-dev"

// Info is what `bailey version --json` prints.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // empty when the build did not know
	GVisor   string `json:"gvisor"`           // module version
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read takes the facts out of the program's build information, which may be
// nil.
func Read(b *debug.BuildInfo) Info {
	v := Info{Version: Number, GVisor: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b == nil {
		return v
	}
	for _, m := range b.Deps {
		if m.Path == "gvisor.dev/gvisor" {
			v.GVisor = m.Version
		}
	}
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
