package embedded

import (
	_ "unsafe" // for linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentry "gvisor.dev/gvisor/runsc/boot/filter"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

// gVisor keeps compiled seccomp filters in two maps, which its own release
// build fills and its Go module leaves empty.
var (
	//go:linkname sentryPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
	sentryPrograms map[string]precompiledseccomp.Program
	//go:linkname goferPrograms gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
	goferPrograms map[string]precompiledseccomp.Program
)

// useCompiledFilters gives gVisor the filters that gen compiled. A process
// that runs in another configuration does not find its filter there and
// compiles it, as before.
func useCompiledFilters() {
	sentry.ListPrecompiled() // makes the empty map, once
	sentryPrograms = sentryFilters()
	gofer.ListPrecompiled()
	goferPrograms = goferFilters()
}
