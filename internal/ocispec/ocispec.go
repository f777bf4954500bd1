package ocispec

import (
	"fmt"
	"sort"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Staged says where the helper has put what the specification names.
type Staged struct {
	Root      string   // the generated root file system
	Sources   []string // one for each of Spec.Mounts; empty if it is in Root already
	First     string   // the first process's binary
	Guarded   []bool   // one for each of Spec.Mounts: serve it as Bind.Guarded says; may be nil
	Binds     []Bind   // what the helper adds: private copies, guarded git directories
	NetworkNS string   // path of the network namespace; empty for none
	FileBytes int64    // RLIMIT_FSIZE; 0 leaves it out
}

// Bind is a mount that the helper has composed.
type Bind struct {
	Source   string
	Target   string
	Writable bool
	// Guarded serves the mount through gVisor's file server instead of direct
	// descriptors. Only then does the host's kernel see a mount point inside
	// it as one, and refuse to unlink or rename it (docs/adr/0005).
	Guarded bool
}

// Build returns the OCI specification of one sandbox.
func Build(s *sandbox.Spec, st Staged) (*specs.Spec, error) {
	if len(st.Sources) != len(s.Mounts) {
		return nil, fmt.Errorf("stage %d mounts: have %d sources", len(s.Mounts), len(st.Sources))
	}
	in := insideIDs(s)
	id := []specs.LinuxIDMapping{{ContainerID: in.UID, HostID: uint32(s.UID), Size: 1}}
	gid := []specs.LinuxIDMapping{{ContainerID: in.GID, HostID: uint32(s.GID), Size: 1}}
	return &specs.Spec{
		Version:     "1.1.0",
		Hostname:    s.Hostname,
		Process:     process(s, st),
		Root:        &specs.Root{Path: st.Root, Readonly: !s.Loose.Root},
		Mounts:      mounts(s, st),
		Annotations: hints(st),
		Linux: &specs.Linux{
			Namespaces:  namespaces(st),
			UIDMappings: id,
			GIDMappings: gid,
			Seccomp:     Seccomp(s.Loose.UserNamespaces),
		},
	}, nil
}

// insideIDs are those of the first process and of the memory file systems.
func insideIDs(s *sandbox.Spec) specs.User {
	if s.Loose.Root {
		return specs.User{UID: 0, GID: 0}
	}
	return specs.User{UID: uint32(s.UID), GID: uint32(s.GID)}
}

// capabilities are none, or for user 0 inside those over files and ids, which
// gVisor keeps to what is its own: on the host no process has any.
func capabilities(s *sandbox.Spec) []string {
	if !s.Loose.Root {
		return []string{}
	}
	return []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID"}
}

func process(s *sandbox.Spec, st Staged) *specs.Process {
	none, held := []string{}, capabilities(s)
	rlimits := []specs.POSIXRlimit{
		{Type: "RLIMIT_CORE", Hard: 0, Soft: 0},
		limit("RLIMIT_NPROC", s.Limits.Processes),
		limit("RLIMIT_NOFILE", s.Limits.OpenFiles),
	}
	if st.FileBytes > 0 {
		rlimits = append(rlimits, limit("RLIMIT_FSIZE", st.FileBytes))
	}
	return &specs.Process{
		User:            insideIDs(s),
		Args:            s.FirstArgs,
		Env:             FirstEnv(),
		Cwd:             "/",
		NoNewPrivileges: true,
		Capabilities: &specs.LinuxCapabilities{
			Bounding: held, Effective: held, Inheritable: none, Permitted: held, Ambient: none,
		},
		Rlimits: rlimits,
	}
}

func limit(name string, n int64) specs.POSIXRlimit {
	return specs.POSIXRlimit{Type: name, Hard: uint64(n), Soft: uint64(n)}
}

func namespaces(st Staged) []specs.LinuxNamespace {
	return []specs.LinuxNamespace{
		{Type: specs.PIDNamespace},
		{Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace},
		{Type: specs.MountNamespace},
		{Type: specs.UserNamespace},
		{Type: specs.NetworkNamespace, Path: st.NetworkNS},
	}
}

func mounts(s *sandbox.Spec, st Staged) []specs.Mount {
	ms := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
	}
	var own []specs.Mount
	for _, t := range s.Tmpfs {
		own = append(own, specs.Mount{
			Destination: t.Target, Type: "tmpfs", Source: "tmpfs",
			Options: []string{
				"nosuid", "nodev", fmt.Sprintf("mode=%04o", t.Mode.Perm()|sticky(t.Mode)),
				fmt.Sprintf("size=%d", t.Bytes), fmt.Sprintf("uid=%d", insideIDs(s).UID), fmt.Sprintf("gid=%d", insideIDs(s).GID),
			},
		})
	}
	for i, m := range s.Mounts {
		if st.Sources[i] == "" {
			continue
		}
		opts := bindOptions(m.Writable)
		if m.Dcache > 0 {
			opts = append(opts, fmt.Sprintf("dcache=%d", m.Dcache))
		}
		own = append(own, specs.Mount{Destination: m.Target, Type: "bind", Source: st.Sources[i], Options: opts})
	}
	for _, b := range st.Binds {
		own = append(own, specs.Mount{Destination: b.Target, Type: "bind", Source: b.Source, Options: bindOptions(b.Writable)})
	}
	// A mount must come after the one it lies in, whatever the caller's order.
	sort.SliceStable(own, func(i, j int) bool {
		return strings.Count(own[i].Destination, "/") < strings.Count(own[j].Destination, "/")
	})
	return append(ms, own...)
}

func bindOptions(writable bool) []string {
	if writable {
		return []string{"rbind", "nosuid", "nodev", "rw"}
	}
	return []string{"rbind", "nosuid", "nodev", "ro"}
}

// hints are gVisor's annotations on mounts (runsc/boot/mount_hints.go).
func hints(st Staged) map[string]string {
	h := map[string]string{}
	guard := func(source string) {
		prefix := fmt.Sprintf("dev.gvisor.spec.mount.guarded%d.", len(h)/4)
		h[prefix+"source"] = source
		h[prefix+"type"] = "bind"
		h[prefix+"share"] = "shared"
		h[prefix+"directfs"] = "off"
	}
	for i, guarded := range st.Guarded {
		if guarded {
			guard(st.Sources[i])
		}
	}
	for _, b := range st.Binds {
		if b.Guarded {
			guard(b.Source)
		}
	}
	return h
}

// FirstEnv is the environment of the sandbox's first process; the command's
// own travels over the wire and never stands in a file. It tunes the Go
// runtime for a user-space kernel, where every switch between threads is dear:
// one processor, and no collection before there is something to collect.
func FirstEnv() []string {
	return []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=64MiB", "GODEBUG=asyncpreemptoff=1"}
}
