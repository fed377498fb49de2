#!/usr/bin/env python3
"""Builds and runs the image of the Dockerfile where no container engine is at hand: every instruction is carried out in
a debootstrap root, then the last stage is started as a careful operator would start it (read-only, no capability, no new
privileges, a filter like the engines' own, only /data writable) and put to work.

    scripts/replay_dockerfile.py [--tree DIR] [--build-arg NAME=VALUE] [--keep]

Needs root, debootstrap, curl, util-linux and libseccomp2. The mirror is the one that apt uses here. What is downloaded
stays in $CKPTD_CACHE (default .cache). Anything in the Dockerfile that is not understood is an error, never passed over.
Not replayed: networks, the engines' storage drivers, multi-platform builds.
"""
import argparse
import glob
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from replay_image import Inside, passed, run_image
from replay_words import Context, Trouble, expand, read_command, read_flags, read_instructions, read_pairs, seconds

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RELEASES = {"12": "bookworm", "13": "trixie"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def say(text):
    print(f"-- {text}", flush=True)


def apt_sources(codename):
    """What apt uses on this machine for a release: (uri, suite, component)."""
    out = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
                         check=True, capture_output=True, text=True).stdout
    rows = sorted({tuple(line.split()) for line in out.splitlines()}, key=lambda row: len(row[1]))
    rows = [row for row in rows if row[1] == codename or row[1].startswith(codename + "-")]
    if not rows or rows[0][1] != codename:
        raise Trouble(f"apt of this machine has no source for Debian {codename} (or apt-get update was never run)")
    return rows


def make_base(image, cache, root):
    match = re.fullmatch(r"debian:(\w+?)(?:\.\d+)?(?:-slim)?", image)
    if not match:
        raise Trouble(f"FROM {image}: only Debian's images and stages of the Dockerfile are replayed")
    codename = RELEASES.get(match.group(1), match.group(1))
    archive = os.path.join(cache, f"debian-{codename}-{platform.machine()}.tar")
    os.makedirs(root)
    if not os.path.exists(archive):
        say(f"debootstrap {codename} (once; remove {archive} to have it made anew)")
        rows = apt_sources(codename)
        subprocess.run(["debootstrap", "--variant=minbase", codename, root, rows[0][0]], check=True, stdout=subprocess.DEVNULL)
        with open(f"{root}/etc/apt/sources.list", "w") as f:
            f.writelines(f"deb {uri} {suite} {component}\n" for uri, suite, component in rows)
        # An image of Debian comes without package lists and archives.
        for path in glob.glob(f"{root}/var/lib/apt/lists/*") + glob.glob(f"{root}/var/cache/apt/archives/*.deb"):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        subprocess.run(["tar", "-C", root, "-cf", archive + ".part", "."], check=True)
        os.rename(archive + ".part", archive)
        return
    subprocess.run(["tar", "-C", root, "-xpf", archive], check=True)


class Stage:
    def __init__(self, image, name, root):
        self.image, self.name, self.root = image, name, root
        self.env, self.args, self.labels = {"PATH": PATH}, {}, {}
        self.user, self.workdir, self.stop_signal = "0", "/", "SIGTERM"
        self.volumes, self.entrypoint, self.command = [], [], []
        self.health, self.health_start = None, 0.0

    def values(self):
        return {**self.args, **self.env}

    def ids(self):
        user, _, group = self.user.partition(":")
        if not (user.isdigit() and (group or "0").isdigit()):
            raise Trouble(f"USER {self.user}: numbers are expected, for orchestrators that check for root")
        return {"uid": int(user), "gid": int(group or 0)}


class Build:
    def __init__(self, tree, cache, work, arguments):
        self.context, self.cache, self.work, self.arguments = Context(tree), cache, work, arguments
        self.inside, self.stages, self.args = Inside(work), [], {}
        self.unused = set(arguments)

    def run(self, dockerfile):
        with open(dockerfile) as f:
            text = f.read()
        for instruction in read_instructions(text):
            handler = getattr(self, "do_" + instruction.word.lower(), None)
            try:
                if not handler:
                    raise Trouble("this instruction is not replayed")
                if not self.stages and instruction.word not in ("ARG", "FROM"):
                    raise Trouble("no FROM yet")
                say(f"{instruction.word} {instruction.rest}")
                handler(instruction.rest)
            except (Trouble, OSError, ValueError, subprocess.CalledProcessError) as error:
                raise Trouble(f"{dockerfile}:{instruction.line}: {instruction.word}: {error}") from error
        if self.unused:
            raise Trouble(f"--build-arg {', '.join(sorted(self.unused))}: the Dockerfile has no such ARG")
        return self.stages[-1]

    @property
    def stage(self):
        return self.stages[-1]

    def do_arg(self, rest):
        name, equals, default = rest.partition("=")
        self.unused.discard(name)
        if not self.stages:
            self.args[name] = self.arguments.get(name, expand(shlex.split(default)[0] if default else "", self.args))
            return
        value = self.arguments.get(name)
        if value is None and equals:
            value = expand("".join(shlex.split(default)), self.stage.values())
        if value is None:
            value = self.args.get(name)
        if value is not None:
            self.stage.args[name] = value

    def do_from(self, rest):
        match = re.fullmatch(r"(\S+)(?:\s+(?:AS|as)\s+(\S+))?", rest)
        if not match or rest.startswith("--"):
            raise Trouble("FROM IMAGE [AS NAME] is expected")
        image, name = expand(match.group(1), self.args), match.group(2)
        root = os.path.join(self.work, f"stage-{len(self.stages)}")
        earlier = self.find_stage(image)
        if earlier:
            subprocess.run(["cp", "-a", earlier.root, root], check=True)
        else:
            make_base(image, self.cache, root)
        self.stages.append(Stage(image, name, root))

    def find_stage(self, name):
        for index, stage in enumerate(self.stages):
            if name in (stage.name, str(index)):
                return stage
        return None

    def do_env(self, rest):
        self.stage.env.update(read_pairs(rest, self.stage.values()))

    def do_label(self, rest):
        self.stage.labels.update(read_pairs(rest, self.stage.values()))

    def do_run(self, rest):
        if rest.startswith("--"):
            raise Trouble("flags of RUN are not replayed")
        archives = os.path.join(self.cache, "archives")
        os.makedirs(archives, exist_ok=True)
        environment = {name: os.environ[name] for name in PROXIES if name in os.environ}
        self.inside.run(root=self.stage.root, argv=read_command(rest), cwd=self.stage.workdir,
                        env={"HOME": "/root", **environment, **self.stage.args, **self.stage.env}, **self.stage.ids(),
                        binds=[["/etc/resolv.conf", "/etc/resolv.conf"], [archives, "/var/cache/apt/archives"]],
                        writable=["/var/cache/apt/archives"])

    def do_copy(self, rest):
        flags, rest = read_flags(rest, ("from", "chown", "chmod"))
        *sources, target = [expand(word, self.stage.values()) for word in (json.loads(rest) if rest.startswith("[") else rest.split())]
        if "from" in flags:
            stage = self.find_stage(flags["from"])
            if not stage:
                raise Trouble(f"--from={flags['from']}: no such stage")
            top = stage.root
        else:
            top = os.path.join(self.work, "context")
            if not os.path.exists(top):
                self.context.copy_to(top)
        found = [path for source in sources for path in sorted(glob.glob(os.path.normpath(f"{top}/{source}")))]
        if len(found) < len(sources):
            raise Trouble("a source does not exist (or .dockerignore leaves it out)")
        into = target.endswith("/") or len(found) > 1
        target = self.stage.root + os.path.normpath(os.path.join(self.stage.workdir, target))
        for path in found:
            self.copy_one(path, target, into, flags)

    @staticmethod
    def copy_one(path, target, into, flags):
        if os.path.isdir(path):
            source, place = path + "/.", target
            os.makedirs(target, exist_ok=True)
        else:
            source = path
            place = os.path.join(target, os.path.basename(path)) if into or os.path.isdir(target) else target
            os.makedirs(os.path.dirname(place), exist_ok=True)
        copied = [os.path.join(place, os.path.relpath(os.path.join(folder, name), path))
                  for folder, names, files in os.walk(path) for name in names + files] or [place]
        subprocess.run(["cp", "-a", source, place], check=True)
        for name in copied:
            subprocess.run(["chown", "-h", flags.get("chown", "0:0"), name], check=True)
            if "chmod" in flags:
                os.chmod(name, int(flags["chmod"], 8))

    def do_user(self, rest):
        self.stage.user = expand(rest, self.stage.values())

    def do_workdir(self, rest):
        self.stage.workdir = os.path.normpath(os.path.join(self.stage.workdir, expand(rest, self.stage.values())))
        os.makedirs(self.stage.root + self.stage.workdir, exist_ok=True)

    def do_volume(self, rest):
        self.stage.volumes += json.loads(rest) if rest.startswith("[") else expand(rest, self.stage.values()).split()

    def do_expose(self, rest):
        if not re.fullmatch(r"(\d+(/(tcp|udp))?\s*)+", expand(rest, self.stage.values())):
            raise Trouble("ports are expected")

    def do_stopsignal(self, rest):
        self.stage.stop_signal = expand(rest, self.stage.values())

    def do_entrypoint(self, rest):
        self.stage.entrypoint, self.stage.command = read_command(rest), []

    def do_cmd(self, rest):
        self.stage.command = read_command(rest)

    def do_healthcheck(self, rest):
        flags, rest = read_flags(rest, ("interval", "timeout", "start-period", "start-interval", "retries"))
        word, _, command = rest.partition(" ")
        if word != "CMD":
            raise Trouble("CMD is expected")
        self.stage.health = read_command(command.strip())
        self.stage.health_start = seconds(flags.get("start-period", "0s"))


def folder_bytes(path):
    return int(subprocess.run(["du", "-sb", path], check=True, capture_output=True, text=True).stdout.split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", default=REPOSITORY, help="build context (default: this repository)")
    parser.add_argument("--file", help="Dockerfile (default: that of the tree)")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--keep", action="store_true", help="leave the stages' folders and name them")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("run this as root: it makes root folders, mounts and namespaces")
    for tool in ("debootstrap", "curl", "unshare", "nsenter", "apt-get"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing: apt-get install debootstrap curl util-linux")
    cache = os.path.abspath(os.environ.get("CKPTD_CACHE", os.path.join(REPOSITORY, ".cache")))
    os.makedirs(cache, exist_ok=True)
    tree = os.path.abspath(arguments.tree)
    work = tempfile.mkdtemp(prefix="replay-", dir=cache)
    os.chmod(work, 0o755)  # the image's user walks through it
    try:
        start = time.monotonic()
        build = Build(tree, cache, work, dict(pair.split("=", 1) for pair in arguments.build_arg))
        stage = build.run(arguments.file or os.path.join(tree, "Dockerfile"))
        passed(f"built in {time.monotonic() - start:.0f} s; the last stage holds {folder_bytes(stage.root) / 2**20:.0f} MiB, labels {stage.labels}")
        run_image(stage, work, os.path.join(tree, "demo/digits.pt"))
    except Trouble as error:
        sys.exit(f"FAILED {error}")
    finally:
        if arguments.keep:
            say(f"left in {work}")
        else:
            shutil.rmtree(work)
    print("image: all checks passed")


if __name__ == "__main__":
    main()
