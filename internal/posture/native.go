package posture

import "slices"

// memories are the memory file systems of every sandbox.
func memories() []string { return []string{"/dev/shm", "/home/agent", "/run", "/tmp", "/var/tmp"} }

// composed is the file system of a sandbox with the host's kernel, which lies
// below a folder: nothing is suid, and devices are only where they belong.
func (c Config) composed(below string) []string {
	list := []string{
		below + "/* ro", below + " own:/root ro", below + "/dev/pts *:/ rw,dev", // pseudo terminals of its own
		below + "/.bailey/private own:/private rw", below + "/* own:/private/* rw", below + "/* own:/links/* rw",
	}
	for _, name := range []string{"full", "null", "random", "tty", "urandom", "zero"} {
		list = append(list, below+"/dev/"+name+" *:/"+name+" rw,dev")
	}
	for _, at := range memories() {
		list = append(list, below+at+" *:/ rw")
	}
	for _, source := range c.Writable {
		list = append(list, below+"/* "+source+" rw", below+"/* "+source+"/* rw")
	}
	return list
}

// native is a process of such a sandbox as the host's kernel shows it.
func (c Config) native(role Role) Posture {
	p := c.sandboxed(role)
	p.Caps, p.Seccomp = Caps{}, 2
	p.Namespaces["cgroup"] = "own"
	p.Mounts = append(c.composed(""), "/ own:/root ro", "/proc *:/ rw")
	if role == Shared {
		p.FDs, p.Env = []string{"*"}, []string{"*"}
		return p
	}
	p.FDs = []string{"sandbox", "pipe", "socket", "anon:eventpoll", "anon:eventfd", "anon:pidfd*"}
	p.Env = firstEnv()
	return p
}

// firstEnv are the names of the first process's variables.
func firstEnv() []string { return []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG"} }

// overflow is how the kernel shows a group that is not mapped (user_namespaces(7)).
const overflow = 65534

// insideNative is a process of the sandbox as it sees itself there.
func (c Config) insideNative(role Role) Posture {
	p := c.inside(role)
	p.CoreBytes = c.noDump()
	p.Namespaces["cgroup"] = "shared"
	if !c.Root { // they cannot be given up without root
		for _, g := range c.Caller.Groups {
			if g != c.Inside.GID {
				g = overflow
			}
			p.Groups = append(p.Groups, g)
		}
		slices.Sort(p.Groups)
	}
	p.Mounts = append(c.composed(""), "/ *:/root ro", "/proc *:/ rw", "/.bailey/private * rw")
	for _, at := range c.Own {
		p.Mounts = append(p.Mounts, at+" * rw")
	}
	return p
}
