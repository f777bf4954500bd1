# What a sandbox with the host's kernel is attacked by, beside what the tests for
# every runtime try. Prints NAME<TAB>ok or NAME<TAB>ERRNO. With "host" as its
# argument it is the twin, and attacks a process of its own.
import ctypes, errno, mmap, os, signal, socket, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
host = len(sys.argv) > 1 and sys.argv[1] == "host"
victim = 1
if host:
    victim = os.fork()
    if victim == 0:
        time.sleep(60)
        os._exit(0)


def call(nr, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        raise OSError(ctypes.get_errno(), "call")
    return r


def first(name):  # what /proc tells of the first process
    def do():
        path = "/proc/%d/%s" % (victim, name)
        if name in ("root", "cwd", "exe"):
            os.readlink(path)
            return os.stat(path)
        if name in ("fd", "map_files"):
            return os.listdir(path)
        with open(path, "rb") as f:
            if name == "mem":
                f.seek(0)
                return
            f.read(16)
    return do


def ptrace():
    call(101, 16, victim, 0, 0)  # PTRACE_ATTACH
    os.waitpid(victim, 0)
    call(101, 17, victim, 0, 0)


def sysctls():  # every one of them
    for top, _, names in os.walk("/proc/sys"):
        for n in names:
            try:
                os.close(os.open(os.path.join(top, n), os.O_WRONLY))
                return
            except OSError as e:
                last = e
    raise last


def own_cgroup():
    for top in ("/sys/fs/cgroup", "/cgroup", "/run/cgroup"):
        if os.path.exists(top + "/memory") or os.path.exists(top + "/cgroup.procs"):
            return
    raise OSError(errno.ENOENT, "no cgroup file system")


def devices():
    for kind in (0o020000, 0o060000):  # S_IFCHR, S_IFBLK
        path = "/var/tmp/node-%o" % kind
        os.mknod(path, kind | 0o600, os.makedev(1, 3))
        os.unlink(path)


def over_the_root():  # what is read-only is so for its owner too
    os.chmod("/etc" if not host else "/var/tmp", 0o1777)


def cores():
    pid = os.fork()
    if pid == 0:
        os.chdir("/var/tmp")
        os.kill(os.getpid(), signal.SIGSEGV)
    _, status = os.waitpid(pid, 0)
    if not os.WCOREDUMP(status):
        raise OSError(errno.EPERM, "no core")


def core_limit():  # a limit that can be raised again is none
    import resource
    if resource.getrlimit(resource.RLIMIT_CORE) == (1, 1):
        raise OSError(errno.EPERM, "bounded")


def raise_limit():
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard + 1 if hard > 0 else hard))


def adjust(score):
    def do():
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write(str(score))
    return do


def landlocked():  # a folder that the file system itself would let one write to
    path = "/proc/self/task/%d/comm" % threading.get_native_id()
    with open(path, "w") as f:
        f.write("x")


attacks = {
    "ptrace the first process": ptrace,
    "the first process's memory": first("mem"),
    "the first process's environment": first("environ"),
    "the first process's descriptors": first("fd"),
    "the first process's root": first("root"),
    "the first process's folder": first("cwd"),
    "the first process's program": first("exe"),
    "the first process's maps": first("maps"),
    "read the first process's memory": lambda: call(310, victim, 0, 0, 0, 0, 0),
    "write the first process's memory": lambda: call(311, victim, 0, 0, 0, 0, 0),
    "any sysctl": sysctls,
    "a cgroup file system": own_cgroup,
    "device nodes": devices,
    "modes of the system": over_the_root,
    "a limit raised": raise_limit,
    "killed last": adjust(-1000),
    "core dumps": core_limit,
    "netfilter": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12),
    "multicast of the kernel": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15),
    "multipath TCP": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262),
    "vmsplice": lambda: vmsplice(),
    "a mount's handle": lambda: call(457, 0, 0, 0, 0),
}

_page = mmap.mmap(-1, 4096)


def mmap_address():
    return ctypes.addressof(ctypes.c_char.from_buffer(_page))


def vmsplice():
    class iov(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    r, w = os.pipe()
    v = iov(mmap_address(), 8)
    call(278, w, ctypes.byref(v), 1, 0)


def threads():
    done = []
    ts = [threading.Thread(target=lambda: done.append(1)) for _ in range(8)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    assert len(done) == 8


def unix():
    path = "/tmp/unix-%d" % os.getpid()
    l = socket.socket(socket.AF_UNIX)
    l.bind(path)
    l.listen()
    c = socket.socket(socket.AF_UNIX)
    c.connect(path)
    os.unlink(path)


def rename():  # between folders of one file system
    os.makedirs("/tmp/a-%d" % os.getpid(), exist_ok=True)
    with open("/tmp/b-%d" % os.getpid(), "w"):
        pass
    os.rename("/tmp/b-%d" % os.getpid(), "/tmp/a-%d/b" % os.getpid())


def terminal():
    m, s = os.openpty()
    os.write(m, b"x\n")
    assert os.read(s, 2) == b"x\n"


def traced():
    pid = os.fork()
    if pid == 0:
        libc.ptrace(0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(7)
    os.waitpid(pid, 0)
    libc.ptrace(24, pid, 0, 0)  # PTRACE_SYSCALL, as strace does
    os.waitpid(pid, 0)
    libc.ptrace(7, pid, 0, 0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def memory():
    fd = os.memfd_create("x")
    os.write(fd, b"x")


works = {
    "threads": threads, "a Unix socket": unix, "rename between folders": rename, "a terminal": terminal, "a tracer of its own": traced,
    "a file in memory": memory, "a program": lambda: subprocess.run(["/bin/true"], check=True),
    "links": lambda: socket.if_nameindex(), "a semaphore": lambda: call(64, 0, 1, 0o600),
    "/dev/null": lambda: open("/dev/null", "w").write("x"), "/dev/full is full": lambda: full(), "its own name": landlocked,
    "killed sooner": adjust(1000),
}


def full():
    try:
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")
    except OSError as e:
        assert e.errno == errno.ENOSPC
        return
    raise OSError(errno.EIO, "it took something")


for kind, table in (("attack", attacks), ("work", works)):
    for name, do in table.items():
        try:
            do()
            got = "ok"
        except OSError as e:
            got = errno.errorcode.get(e.errno, str(e))
        except Exception as e:
            got = repr(e)
        print(kind, name, got, sep="\t")
if host:
    os.kill(victim, signal.SIGKILL)
