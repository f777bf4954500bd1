"""Tries to get at hidden files in every way there is. Each attack has a file of
its own, .env.NAME, with a canary in it. Prints NAME, a tab, and what came of
it: "got" and "no" with the error."""

import ctypes, mmap, os, shutil, socket, subprocess, sys, tarfile, threading, time

libc = ctypes.CDLL(None, use_errno=True)
CANARY = "canary-"


def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), "system call %d" % number)
    return True


def read(fd):
    try:
        return CANARY in os.read(fd, 4096).decode()
    finally:
        os.close(fd)


def openat(p):
    d = os.open("sub", os.O_RDONLY)
    return read(os.open("../" + p, os.O_RDONLY, dir_fd=d))


def opath(p):
    fd = os.open(p, os.O_PATH)
    return read(os.open("/proc/self/fd/%d" % fd, os.O_RDONLY))


def maps(p):
    with open(p, "r+b") as f:
        return CANARY.encode() in mmap.mmap(f.fileno(), 0)[:]


def link(p):
    os.link(p, "plain-link")
    return CANARY in open("plain-link").read()


def symlink(p):
    os.symlink(p, "plain-symlink")
    return CANARY in open("plain-symlink").read()


def chain(p):
    os.symlink(p, "sub/../plain-one")
    os.symlink("sub/../plain-one", "plain-two")
    return os.stat("plain-two").st_size > 0


def folderlink(p):
    os.symlink("..", "sub/up")
    return CANARY in open("sub/up/sub/up/" + p).read()


def rename(p):
    os.rename(p, "plain-renamed")
    return CANARY in open("plain-renamed").read()


def exchange(p):
    open("plain-exchange", "w").close()
    call(316, -100, p.encode(), -100, b"plain-exchange", 2)
    return CANARY in open("plain-exchange").read()


def exchanged(p):
    open("plain-exchanged", "w").close()
    call(316, -100, b"plain-exchanged", -100, p.encode(), 2)
    return CANARY in open("plain-exchanged").read()


def exchangedir(p):
    """With a slash behind the folder that it is exchanged with."""
    os.mkdir("plain-exchangedir")
    call(316, -100, p.encode(), -100, b"plain-exchangedir/", 2)
    return CANARY in open("plain-exchangedir").read()


def over(p):
    open("plain-over", "w").close()
    os.rename("plain-over", p)
    return True


def folder(p):
    """A folder whose name a rule speaks of, moved away as one."""
    os.rename("cloud/.aws", "cloud/aws")
    return CANARY in open("cloud/aws/credentials").read()


def folderexchange(p):
    os.mkdir("cloud2/other")
    call(316, -100, b"cloud2/.aws", -100, b"cloud2/other", 2)
    return CANARY in open("cloud2/other/credentials").read()


def kept(p):
    """A folder moved to where git has a file of the hidden one's name."""
    os.rename("tracked", "tracked-away")
    os.rename("secrets", "tracked")
    return CANARY in open("tracked/.env").read()


def keptparent(p):
    os.rename("deep", "deep-away")
    os.mkdir("deep-new")
    os.rename("secrets2", "deep-new/tracked")
    os.rename("deep-new", "deep")
    return CANARY in open("deep/tracked/.env").read()


def index(p):
    """A file that git is told to track is no more visible for that."""
    return "canary" in subprocess.run(["git", "cat-file", "-p", ":" + p], capture_output=True, text=True).stdout


def execve(p):
    return subprocess.run(["./" + p], capture_output=True).returncode == 7


def chdir(p):
    here = os.getcwd()
    try:
        os.chdir("vault")
        return True
    finally:
        os.chdir(here)


def below(p):
    return CANARY in open("vault/inner/plain.txt").read()


def create(p):
    fd = os.open(".env.created", os.O_CREAT | os.O_WRONLY)
    os.close(fd)
    return True


def dangling(p):
    os.symlink(".env.made-by-a-link", "plain-dangling")
    open("plain-dangling", "w").close()
    return True


def truncating(p):
    os.symlink(p, "plain-truncating")
    open("plain-truncating", "w").close()
    return True


def bind(p):
    s = socket.socket(socket.AF_UNIX)
    s.bind(".env.bound")
    return True


def watch(p):
    fd = libc.inotify_init1(0)
    if libc.inotify_add_watch(fd, p.encode(), 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), "watch")
    return True


def events(p):
    """What a watch of the folder tells of what happens to a hidden file."""
    fd = libc.inotify_init1(os.O_NONBLOCK)
    libc.inotify_add_watch(fd, b".", 0xFFF)
    try:
        open(p).close()
    except OSError:
        pass
    time.sleep(0.2)
    return p.encode() in os.read(fd, 65536)


def race(p):
    """A name that is a link to something else at every moment."""
    os.symlink("sub/plain", "racing")
    stop, got = [], []

    def turn():
        n = 0
        while not stop:
            n += 1
            os.symlink(p if n % 2 else "sub/plain", "racing-next")
            os.rename("racing-next", "racing")

    t = threading.Thread(target=turn)
    t.start()
    end = time.time() + 3
    while time.time() < end and not got:
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
            try:
                fd = os.open("racing", flags)
                if flags == os.O_WRONLY | os.O_CREAT | os.O_TRUNC:
                    if os.path.basename(os.readlink("/proc/self/fd/%d" % fd)) == p:
                        got.append(flags)
                    os.close(fd)
                elif read(fd):
                    got.append(flags)
            except OSError:
                pass
    stop.append(1)
    t.join()
    return bool(got)


def run(*args):
    return subprocess.run(args, capture_output=True, text=True)


def tar(p):
    run("tar", "cf", "/tmp/all.tar", ".")
    return "./" + p in tarfile.open("/tmp/all.tar").getnames()


def copy(p):
    run("cp", "-r", ".", "/tmp/all")
    return os.path.exists("/tmp/all/" + p)


def seek(p):
    """An entry that a position in the folder would lead to."""
    names, d = [], os.open(".", os.O_RDONLY)
    buf = ctypes.create_string_buffer(65536)
    for at in range(0, 200):
        os.lseek(d, at, os.SEEK_SET)
        n = libc.syscall(217, d, buf, 280)
        if n > 0:
            names.append(buf.raw[:n])
    return any(p.encode() in b for b in names)


def prctl(p):
    """The first process's own call, from another."""
    path, rules = os.getcwd().encode(), b"+*\0"
    if libc.prctl(0x62616C79, path, len(path), rules, len(rules)) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    return True


ATTACKS = {
    "open": lambda p: CANARY in open(p).read(),
    "openat": openat,
    "absolute": lambda p: CANARY in open(os.path.abspath(p)).read(),
    "dots": lambda p: CANARY in open("sub/../sub/./../" + p).read(),
    "proccwd": lambda p: CANARY in open("/proc/self/cwd/" + p).read(),
    "procroot": lambda p: CANARY in open("/proc/self/root" + os.path.abspath(p)).read(),
    "opath": opath,
    "stat": lambda p: os.stat(p).st_size > 0,
    "lstat": lambda p: os.lstat(p).st_size > 0,
    "access": lambda p: os.access(p, os.F_OK),
    "readlink": lambda p: os.readlink(p) == "sub/plain",
    "statvfs": lambda p: os.statvfs(p).f_bsize > 0,
    "chmod": lambda p: os.chmod(p, 0o644) is None,
    "utime": lambda p: os.utime(p) is None,
    "truncate": lambda p: os.truncate(p, 0) is None,
    "listxattr": lambda p: os.listxattr(p) is not None,
    "unlink": lambda p: os.unlink(p) is None,
    "mmap": maps,
    "link": link,
    "symlink": symlink,
    "chain": chain,
    "folderlink": folderlink,
    "rename": rename,
    "exchange": exchange,
    "exchanged": exchanged,
    "exchangedir": exchangedir,
    "over": over,
    "folder": folder,
    "folderexchange": folderexchange,
    "kept": kept,
    "keptparent": keptparent,
    "execve": execve,
    "chdir": chdir,
    "below": below,
    "create": create,
    "dangling": dangling,
    "truncating": truncating,
    "bind": bind,
    "mknod": lambda p: os.mkfifo(".env.fifo") is None,
    "makelink": lambda p: os.symlink("sub/plain", ".env.madelink") is None,
    "watch": watch,
    "events": events,
    "race": race,
    "getdents": lambda p: p in os.listdir("."),
    "scandir": lambda p: p in [e.name for e in os.scandir(os.open(".", os.O_RDONLY))],
    "seek": seek,
    "find": lambda p: p in run("find", ".").stdout,
    "grep": lambda p: "canary-" + p in run("grep", "-rh", CANARY + p, ".").stdout,
    "tar": tar,
    "copy": copy,
    "gitadd": lambda p: p in (run("git", "add", "-fA").stdout + run("git", "ls-files").stdout),
    "gitindex": lambda p: run("git", "add", "-f", p).returncode == 0 and index(p),
    "gitstash": lambda p: p in run("git", "stash", "-a").stdout + run("git", "show", "--name-only", "stash^3").stdout,
    "prctl": prctl,
    "gitclean": lambda p: p in run("git", "clean", "-xfd").stdout,
}

for name in sys.argv[1].split(","):
    try:
        print(name, "got" if ATTACKS[name](".env." + name) else "no\t-", sep="\t", flush=True)
    except OSError as e:
        print(name, "no", e.strerror, sep="\t")
