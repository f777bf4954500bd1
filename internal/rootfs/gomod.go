package rootfs

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// goModules lets a go that was named with --tool find the modules that the
// caller has downloaded: the folder with their archives, read-only, as the
// first place that go asks (GOPROXY takes a folder by a URL of its own). The
// sums of go.sum are compared as with any other, and what is not there is
// asked for over the network as ever.
//
// It is not there unasked: the modules of all the caller's projects lie in it,
// private ones too, and a workspace may say of itself that it is one of Go's.
func (s *search) goModules(why string) {
	i := slices.IndexFunc(s.tools, func(t Tool) bool { return filepath.Base(t.File) == "go" && !s.inWorkspace(t.File) })
	if i < 0 || s.Home == "" {
		return
	}
	tool := &s.tools[i]
	dir := s.real(filepath.Join(s.moduleCache(), "cache/download"))
	if !s.tree.isDir(dir) || s.inWorkspace(dir) || !s.harmless(dir) || strings.ContainsAny(dir, ",|") { // these separate GOPROXY's places
		tool.Notes = append(tool.Notes, why+": there are no downloaded modules to show in "+dir+" (go mod download, outside, fetches them)")
		return
	}
	s.mount(tool, dir, why+": downloaded modules")
	from := url.URL{Scheme: "file", Path: dir}
	tool.Env = append(tool.Env, "GOPROXY="+from.String()+",direct")
}

// moduleCache is where go keeps modules (go help environment: GOMODCACHE,
// GOPATH).
func (s *search) moduleCache() string {
	if dir := s.Env("GOMODCACHE"); filepath.IsAbs(dir) {
		return dir
	}
	if list := filepath.SplitList(s.Env("GOPATH")); len(list) > 0 && filepath.IsAbs(list[0]) {
		return filepath.Join(list[0], "pkg/mod")
	}
	return filepath.Join(s.Home, "go/pkg/mod")
}
