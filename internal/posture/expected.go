package posture

import "slices"

// IDs are a user and a group.
type IDs struct{ UID, GID int }

// Config is what a run was asked to be, as far as its posture depends on it.
type Config struct {
	Caller   Posture  // of the bailey that holds the sandbox: what it had, its children may inherit
	Sandbox  IDs      // host ids of the sandbox's processes
	Proxy    IDs      // host ids of the proxy
	Gateway  IDs      // host ids of the model gateway
	Root     bool     // the caller is root
	Grouped  bool     // a cgroup holds the sandbox
	Writable []string // what the sandbox may write, as Reader.Source names it
	AllCaps  uint64   // every capability of this kernel, as Reader.AllCaps has it
	Debug    bool     // gVisor's logs are kept
	Proxied  bool     // there is a network, and so a proxy
	Modelled bool     // there is a model, and so a gateway
	Inside   IDs      // ids inside
	Cwd      string   // where the command runs
	Names    []string // of the variables that the command was given, beside Generated
	Own      []string // what the command may write, as it names it, beside the memory file systems
	Cgo      bool     // bailey is built with cgo
	Control  IDs      // host ids of a service's control
	Native   bool     // the sandbox has the host's kernel
	KeptRoot bool     // the command is user 0 of its own, over a throw-away layer
}

// WithCgo reports whether this program is built with cgo.
func WithCgo() bool { return withCgo }

// Generated are the names of the variables that a command always has.
func Generated() []string {
	return []string{
		"BAILEY_SANDBOX", "BROWSER", "GOTOOLCHAIN", "HOME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "PATH", "PWD", "SHELL",
		"TERM", "COLORTERM", "TMPDIR", "TZ", "USER",
	}
}

// Expected is what a process must be for its role. It is a table in code: each
// role starts from a process that has nothing and is given what it needs.
func Expected(role Role, c Config) Posture {
	switch role {
	case CLI:
		return c.cli()
	case Watchdog:
		return c.watchdog()
	case Proxy:
		p := c.outward(Proxy, c.Proxy)
		p.Env = []string{"GOMAXPROCS"} // gate.Env
		return p
	case Gateway:
		p := c.outward(Gateway, c.Gateway)
		p.Env = []string{"GOMAXPROCS"} // modelgate.Env
		// The day's ledger and, where content is recorded, its file: opened by
		// others.
		p.FDs = append(p.FDs, "host:*.jsonl")
		return p
	case Key:
		return c.key()
	case Signer:
		return c.signer()
	case Helper:
		return c.helper()
	case Runsc:
		return c.runsc()
	case Gofer:
		return c.gofer()
	case Sentry:
		return c.sentry()
	case Stub:
		p := c.sentry()
		p.Role = Stub
		return p
	case Native, Shared:
		return c.native(role)
	case First, Command:
		if c.Native {
			return c.insideNative(role)
		}
		return c.inside(role)
	case Launcher, Control, Runner, Git, Catalog:
		return c.ofTasks(role)
	case Unknown:
	}
	return Posture{Role: Unknown}
}

// ofTasks is Expected for the roles of `bailey serve`.
func (c Config) ofTasks(role Role) Posture {
	switch role { //nolint:exhaustive // the others are Expected's
	case Launcher:
		return c.launcher()
	case Control:
		return c.control()
	case Runner:
		return c.runner()
	case Git:
		return c.git()
	}
	return c.catalog()
}

// nothing is a process of these ids without any power, in namespaces of its
// own.
func nothing(role Role, id IDs) Posture {
	p := Posture{
		Role: role, UIDs: same(id.UID), GIDs: same(id.GID), Groups: []int{},
		NoNewPrivs: true, Dumpable: No, Namespaces: map[string]string{}, Cwd: "/",
		CoreBytes: "0", Uniform: true,
	}
	for _, kind := range kinds() {
		p.Namespaces[kind] = "own"
	}
	// Of a cgroup namespace nothing would be gained: no cgroup file system is
	// in sight of these processes.
	p.Namespaces["cgroup"] = "shared"
	return p
}

func same(id int) []int { return []int{id, id, id, id} }

// cli is the caller's own process: bailey takes nothing from it but the
// descriptors it would pass on.
func (c Config) cli() Posture {
	p := c.Caller
	p.Role = CLI
	p.FDs, p.Mounts, p.Env = []string{"*"}, []string{"*"}, []string{"*"}
	return p
}

// hostSide is a role that stays in the host's namespaces.
func (c Config) hostSide(role Role, id IDs) Posture {
	p := nothing(role, id)
	for kind := range p.Namespaces {
		p.Namespaces[kind] = "shared"
	}
	p.Groups, p.Caps.Bounding = c.Caller.Groups, c.Caller.Caps.Bounding
	p.FDs = []string{"host:/dev/null", "pipe", "socket", "anon:eventpoll", "anon:eventfd"}
	return p
}

// WatchdogCaps is what root's watchdog keeps (capabilities(7)): KILL ends a
// sandbox, which runs as another id; DAC_OVERRIDE and FOWNER undo what it left
// in the workspace of somebody else; SYS_PTRACE reads how much memory it has
// where no cgroup counts that.
const WatchdogCaps = 1<<1 | 1<<3 | 1<<5 | 1<<19

func (c Config) watchdog() Posture {
	p := c.hostSide(Watchdog, IDs{c.Caller.UIDs[1], c.Caller.GIDs[1]})
	p.FDs = append(p.FDs, "anon:pidfd*", "host:*")
	if !c.Root {
		return p
	}
	// What the caller lacks nobody has.
	kept := WatchdogCaps & c.Caller.Caps.Permitted
	p.Caps.Permitted, p.Caps.Effective = kept, kept
	return p
}

// outward is a role that parses what comes from outside of the machine too.
func (c Config) outward(role Role, id IDs) Posture {
	p := c.hostSide(role, id)
	if c.Root {
		p.Groups = []int{}
	}
	p.Seccomp = 2
	return p
}

// key is the caller's own process once more, for the moment in which it opens
// the vault.
func (c Config) key() Posture {
	p := c.cli()
	p.Role, p.Cwd, p.Dumpable, p.CoreBytes = Key, "/", No, "0"
	return p
}

// signer is the caller's own id, which the agent answers, and may do nothing.
func (c Config) signer() Posture {
	p := c.hostSide(Signer, IDs{c.Caller.UIDs[1], c.Caller.GIDs[1]})
	p.Caps = c.Caller.Caps
	p.Seccomp, p.Env = 2, []string{"GOMAXPROCS"} // gate.Env
	return p
}

// sandboxed is a role on the far side of the namespaces. Without root the
// caller's supplementary groups cannot be given up there (user_namespaces(7):
// setgroups is denied).
func (c Config) sandboxed(role Role) Posture {
	p := nothing(role, c.Sandbox)
	if !c.Root {
		p.Groups = c.Caller.Groups
	}
	p.InGroup = c.Grouped
	p.CoreBytes = c.noDump()
	// A new user namespace begins with a whole one. It bounds what an exec
	// adds, which after no-new-privs is nothing (capabilities(7)).
	p.Caps.Bounding = c.AllCaps
	return p
}

// noDump is the limit that harden.NoDump sets: one byte, unless the caller has
// no way back to that.
func (c Config) noDump() string {
	if c.Caller.CoreBytes == "0" {
		return "0"
	}
	return "1"
}

func (c Config) helper() Posture {
	p := c.sandboxed(Helper)
	p.FDs = []string{"host:/dev/null", "pipe", "socket", "anon:eventpoll", "anon:eventfd", "anon:pidfd*", "sandbox"}
	p.Mounts = c.staged()
	return p
}

// staged is the helper's file system: its own tmpfs, what the sandbox may
// read, and what it may write.
func (c Config) staged() []string {
	list := []string{
		"/ own:/* rw", "/proc *:/ rw", "/netns *:net:* rw*", "/state/* *:net:* rw*",
		"/dev/null *:/null rw*", "/dev/zero *:/zero rw*", "/dev/urandom *:/urandom rw*", "/dev/random *:/random rw*",
		"/root/* ro", "/mnt/* ro", // never suid, never dev
		"/mnt/* own:/private/* rw", "/mnt/* own:/links/* rw", "/git/* own:/private/* rw", "/git/* own:/links/* rw",
	}
	for _, source := range c.Writable {
		for _, at := range []string{"/mnt/*", "/git/*"} {
			list = append(list, at+" "+source+" rw", at+" "+source+"/* rw")
		}
	}
	if c.Debug {
		list = append(list, "/debug *")
	}
	if c.Native {
		list = append(list, c.composed("/view")...)
		list = append(list, "/dev/full *:/full rw*", "/dev/tty *:/tty rw*")
	}
	return list
}

// runsc is gVisor's own parent of the next two. It keeps its capabilities in
// the helper's user namespace, which is what it could do anything to; nothing
// of the host is in there.
func (c Config) runsc() Posture {
	p := c.helper()
	p.Role, p.Dumpable = Runsc, Yes
	all := c.AllCaps
	p.Caps = Caps{Inheritable: all, Permitted: all, Effective: all, Bounding: all, Ambient: all}
	p.NoNewPrivs = false
	return p
}

// GoferCaps are what gVisor leaves its file server, in a user namespace of its
// own with one id: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID and
// SYS_CHROOT (runsc/cmd/gofer.go).
const GoferCaps = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<18

func (c Config) gofer() Posture {
	p := c.sandboxed(Gofer)
	p.Caps = Caps{Inheritable: GoferCaps, Permitted: GoferCaps, Effective: GoferCaps, Bounding: c.AllCaps, Ambient: GoferCaps}
	if c.Cgo {
		p.Caps.Bounding = GoferCaps
	}
	p.Seccomp, p.Dumpable = 2, Yes
	p.FDs = []string{
		"sandbox", "pipe", "socket", "anon:eventpoll", "anon:eventfd", "anon:io_uring", "memfd:flipcall_packet_windows",
	}
	p.Mounts = []string{"/ own:/* *", "/* ro", "/.bailey/private own:/private rw", "/* own:/private/* rw", "/* own:/links/* rw", "/* own:/git/* rw"}
	for _, source := range c.Writable {
		p.Mounts = append(p.Mounts, "/* "+source+" rw", "/* "+source+"/* rw")
	}
	p.Env, p.Cwd = []string{"RUNSC_START_TIME_NANOS"}, "/root" // of the helper's file system
	return p
}

// SentryCaps are what gVisor leaves its kernel, in a user namespace of its own
// with one id, to open files by itself: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH,
// FOWNER and FSETID (runsc/cmd/sentry/sentrycmd/boot.go). With one id mapped
// they reach no file but that id's own.
const SentryCaps = 0x1f

func (c Config) sentry() Posture {
	p := c.sandboxed(Sentry)
	p.Caps.Permitted, p.Caps.Effective = SentryCaps, SentryCaps
	p.Seccomp, p.Dumpable = 2, Yes
	p.FDs = []string{
		"sandbox", "pipe", "socket", "anon:eventpoll", "anon:eventfd", "anon:seccomp", "anon:seccomp notify", "memfd:*",
		"anon:pidfd of nobody", // of the child that unmounted /proc, until Go collects it
	}
	p.Mounts = []string{"/ own:/* *"}
	p.Env = []string{"RUNSC_START_TIME_NANOS"}
	if c.Cgo {
		p.Caps = Caps{Bounding: SentryCaps}
		p.Env = append(p.Env, "GLIBC_TUNABLES", "glibc.malloc.arena_max") // glibc cuts the one in two
	}
	return p
}

// KeptRootCaps are what --insecure-keep-root leaves a command, of gVisor's
// capabilities and over what is gVisor's: CHOWN, DAC_OVERRIDE, FOWNER, SETGID
// and SETUID.
const KeptRootCaps = 0xcb

// inside is a process of the sandbox as gVisor's kernel shows it.
func (c Config) inside(role Role) Posture {
	p := nothing(role, c.Inside)
	root := "/* ro*"
	if c.KeptRoot {
		p = nothing(role, IDs{})
		p.Caps = Caps{Permitted: KeptRootCaps, Effective: KeptRootCaps, Bounding: KeptRootCaps}
		root = "/ own:/ rw*"
	}
	p.Seccomp = 2
	p.Namespaces = map[string]string{} // its own are all that there are
	for _, kind := range []string{"ipc", "mnt", "net", "pid", "user", "uts"} {
		p.Namespaces[kind] = "shared"
	}
	p.FDs = []string{"pipe", "host:/dev/null", "host:/dev/pts/*", "anon:eventpoll", "anon:eventfd"}
	p.Mounts = []string{"/* ro*", root}
	for _, at := range slices.Concat([]string{
		"/dev", "/dev/pts", "/dev/shm", "/home/agent", "/proc", "/run", "/tmp", "/var/tmp", "/.bailey/private",
	}, c.Own) {
		p.Mounts = append(p.Mounts, at+" * rw*")
	}
	p.Env = slices.Concat(Generated(), c.Names)
	if c.Proxied {
		p.Env = append(p.Env, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
	}
	if role == First {
		p.Env = firstEnv()
		return p
	}
	p.Dumpable, p.Cwd = Yes, c.Cwd
	return p
}

// launcher has the rights of the person whose service it is, and nothing of
// their environment. It takes no no-new-privileges: a runner may need
// newuidmap(1), and would inherit it.
func (c Config) launcher() Posture {
	p := c.hostSide(Launcher, IDs{c.Caller.UIDs[1], c.Caller.GIDs[1]})
	p.Caps, p.NoNewPrivs, p.Seccomp = c.Caller.Caps, c.Caller.NoNewPrivs, c.Caller.Seccomp
	p.CoreBytes = c.noDump()
	p.Mounts = []string{"*"} // the host's: it is what the others are compared with
	p.FDs = append(p.FDs,
		"anon:pidfd*", "memfd:*", "host:*/serve.lock", "host:*/serve.log", "host:*/engine", "host:*/engine/*", "host:*/state/bailey/control")
	return p
}

// control faces people, planners and what agents print, and may do nothing.
func (c Config) control() Posture {
	p := c.outward(Control, c.Control)
	p.FDs = append(p.FDs, "host:*/control", "host:*/control/*") // its own folder
	// What sandboxes said, and what was collected: opened by the launcher, to be
	// read.
	for _, name := range []string{"output.log", "errors.log", "events.log", "collected"} {
		p.FDs = append(p.FDs, "host:*/engine/*/"+name)
	}
	return p
}

// runner is the same person's, with the environment that their vault and agents
// are found by. Like `bailey run` it makes a sandbox, and can be looked into by
// its own user until it does.
func (c Config) runner() Posture {
	p := c.launcher()
	p.Role, p.Dumpable = Runner, Yes
	p.FDs = []string{"*"}
	p.Env = []string{
		"HOME", "PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_*", "DBUS_SESSION_BUS_ADDRESS", "BAILEY_*",
	}
	return p
}

// catalog reads what the same person has, and may be looked into by nobody.
func (c Config) catalog() Posture {
	p := c.runner()
	p.Role, p.Dumpable, p.NoNewPrivs, p.CoreBytes = Catalog, No, true, "0"
	return p
}

// git has the id of the repository's owner, which is the caller's here, no
// capability, and no network, in namespaces of its own.
func (c Config) git() Posture {
	p := nothing(Git, IDs{c.Caller.UIDs[1], c.Caller.GIDs[1]})
	if !c.Root {
		p.Groups = c.Caller.Groups
	}
	p.Caps.Bounding = c.AllCaps
	p.FDs, p.Mounts = []string{"*"}, []string{"*"}
	p.Env = []string{"*"} // of git: none of it is the caller's
	return p
}

// Judge compares the processes of a run with what they must be.
func Judge(list []Posture, c Config) []Deviation {
	var found []Deviation
	for _, p := range list {
		if p.Role == Unknown {
			found = append(found, Deviation{Role: Unknown, PID: p.PID, Field: "Role", Got: "a process that belongs to no role", Want: "none"})
			continue
		}
		want := Expected(p.Role, c)
		if p.Role == Shared { // what a command makes of itself is its own affair
			want.Cwd, want.Dumpable = p.Cwd, p.Dumpable
		}
		found = append(found, Diff(p, want)...)
	}
	for _, role := range c.roles() {
		if !slices.ContainsFunc(list, func(p Posture) bool { return p.Role == role }) {
			found = append(found, Deviation{Role: role, Field: "Role", Got: "no process", Want: "one"})
		}
	}
	return found
}

func (c Config) roles() []Role {
	list := []Role{CLI, Watchdog, Helper}
	if c.Native {
		list = append(list, Native)
	} else {
		list = append(list, Runsc, Gofer, Sentry)
	}
	if c.Proxied {
		list = append(list, Proxy)
	}
	if c.Modelled {
		list = append(list, Gateway)
	}
	return list
}
