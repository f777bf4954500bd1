// Package native is the role that becomes the first process of a sandbox that
// has the host's kernel (`--runtime native`). It is born in user, mount, PID and
// cgroup namespaces of the sandbox's own, below those of the helper. It mounts
// the one file system that has to be mounted from there, /proc; leaves the
// helper's file system for the sandbox's; gives up every capability, and the
// calls and files that a sandbox has no business with; and executes sandboxd.
//
// It parses nothing that a sandbox says, since nothing of one runs before its
// own end.
package native
