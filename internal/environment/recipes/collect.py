"""Installs what a project's tests need, and takes the project itself out again."""
import json
import os
import re
import subprocess
import sys
import sysconfig
from importlib import metadata
from urllib.parse import unquote

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

src, repo, packages = os.path.realpath(sys.argv[1]), sys.argv[2], sys.argv[3:]
FILES = re.compile(r"^(requirements|reqs)([-_.](dev|devel|develop|development|test|tests|testing|ci|all))?\.txt$|^(dev|test|tests|testing)[-_.](requirements|reqs)\.txt$")
PARTS = re.compile(r"^(requirements|base|main|dev|test|tests|ci)[^/]*\.txt$")
WANTED = re.compile(r"test|dev", re.I)


def listed(folder, pattern):
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, n) for n in names if pattern.search(n) and os.path.isfile(os.path.join(folder, n))]


def pyproject():
    try:
        with open(os.path.join(src, "pyproject.toml"), "rb") as f:
            return tomllib.load(f)
    except OSError:
        return {}


def group(groups, name, seen=()):
    out = []
    for item in groups.get(name, []) if name not in seen else []:
        if isinstance(item, str):
            out.append(item)
        elif isinstance(item, dict) and "include-group" in item:
            out += group(groups, item["include-group"], seen + (name,))
    return out


def poetry(name, wanted):
    """One dependency as Poetry writes it, as pip reads it."""
    if isinstance(wanted, dict):
        wanted = wanted.get("version", "*") if not {"path", "git", "url"} & set(wanted) else None
    if not isinstance(wanted, str) or name.lower() == "python":
        return []
    out = []
    for part in wanted.split(","):
        part = part.strip()
        m = re.match(r"^([\^~])\s*(\d+(?:\.\d+)*)$", part)
        if m:
            low = [int(x) for x in m.group(2).split(".")]
            if m.group(1) == "~":
                at = min(1, len(low) - 1)
            else:
                at = next((i for i, x in enumerate(low) if x), len(low) - 1)
            high = low[:at] + [low[at] + 1]
            out.append(">=%s,<%s" % (m.group(2), ".".join(map(str, high))))
        elif re.match(r"^\d", part):
            out.append("==" + part)
        elif part != "*":
            out.append(part)
    return [name + ",".join(out)]


def groups_of(p):
    found = []
    for name in p.get("dependency-groups", {}):
        if WANTED.search(name):
            found += group(p["dependency-groups"], name)
    tool = p.get("tool", {})
    found += tool.get("uv", {}).get("dev-dependencies", [])
    for name, items in tool.get("pdm", {}).get("dev-dependencies", {}).items():
        found += [i for i in items if WANTED.search(name) and not i.startswith("-e")]
    old = tool.get("poetry", {})
    tables = [old.get("dev-dependencies", {})]
    tables += [g.get("dependencies", {}) for n, g in old.get("group", {}).items() if WANTED.search(n)]
    for table in tables:
        for name, wanted in table.items():
            found += poetry(name, wanted)
    return found


def install(args):
    print("pip install " + " ".join(args), flush=True)
    return subprocess.run([sys.executable, "-m", "pip", "install", *args]).returncode


def main():
    p = pyproject()
    args = ["pytest", *packages]
    for f in listed(src, FILES) + listed(os.path.join(src, "requirements"), PARTS):
        args += ["-r", os.path.relpath(f, src)]
    args += groups_of(p)
    project = p.get("project", {})
    optional = project.get("optional-dependencies", {})
    extras = [n for n in optional if WANTED.search(n)]
    built = "project" in p or "build-system" in p or "poetry" in p.get("tool", {}) or any(
        os.path.isfile(os.path.join(src, f)) for f in ("setup.py", "setup.cfg"))
    if built:
        code = install(args + [src + ("[%s]" % ",".join(extras) if extras else "")])
        if code:
            print("the project itself does not install: its packages are taken from pyproject.toml alone", flush=True)
            args += project.get("dependencies", []) + [d for n in extras for d in optional[n]]
    if not built or code:
        code = install(args)
    if code:
        return code
    take_out()
    return 0


def take_out():
    """Leaves of what was installed out of the repository its metadata and its
    programs, and has Python look for the rest where the repository is."""
    site = sysconfig.get_paths()["purelib"]
    paths = []
    for d in list(metadata.distributions(path=[site])):
        url = json.loads(d.read_text("direct_url.json") or "{}").get("url", "")
        at = os.path.realpath(unquote(url[len("file://"):])) if url.startswith("file://") else ""
        if at != src and not at.startswith(src + os.sep):
            continue
        rel, kept = os.path.relpath(at, src), []
        for f in d.files or []:
            path = os.path.normpath(str(d.locate_file(f)))
            inside = path.startswith(site + os.sep)
            if inside and ".dist-info" + os.sep not in path:
                if os.path.lexists(path):
                    os.unlink(path)
            else:
                kept.append("%s,," % f)
        info = str(d._path)
        with open(os.path.join(info, "RECORD"), "w") as f:
            f.write("\n".join(kept) + "\n")
        with open(os.path.join(info, "direct_url.json"), "w") as f:
            json.dump({"url": "file://" + os.path.normpath(os.path.join(repo, rel)), "dir_info": {"editable": True}}, f)
        if rel != ".":
            paths += [os.path.normpath(os.path.join(repo, rel, "src") if os.path.isdir(os.path.join(at, "src")) else os.path.join(repo, rel))]
    for folder, _, _ in sorted(os.walk(site), reverse=True):
        if folder != site and not os.listdir(folder):
            os.rmdir(folder)
    if paths:
        with open(os.path.join(site, "bailey-repo.pth"), "w") as f:
            f.write("\n".join(paths) + "\n")


sys.exit(main())
