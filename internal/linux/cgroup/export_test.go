package cgroup

// SetMakeDir lets a test fill the folders of a made-up cgroup file system as
// the kernel does.
func (g *Group) SetMakeDir(fn func(string) error) { g.makeDir = fn }
