"""Starts the image that scripts/replay_dockerfile.py built, as a careful operator would, and puts it to work."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile

from replay_words import Trouble

CONTAINER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "replay_container.py")
SIGNS_OF_LIFE_SECONDS = 60
MEMORY = 2 * 2**30  # of the container
MEMORY_GROUPS = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))  # version 2, version 1
NAMESPACES = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]


def passed(text):
    print(f"ok {text}", flush=True)


class Inside:
    """Starts commands in a root, through replay_container.py."""

    def __init__(self, work):
        self.work, self.n = work, 0

    def command(self, prefix, **spec):
        self.n += 1
        path = os.path.join(self.work, f"spec-{self.n}.json")
        with open(path, "w") as f:
            json.dump({"binds": [], "writable": [], "confined": False, "group": None, "uid": 0, "gid": 0, **spec}, f)
        return [*prefix, sys.executable, CONTAINER, path]

    def run(self, **spec):
        subprocess.run(self.command(NAMESPACES, mount="build", **spec), check=True, stdin=subprocess.DEVNULL)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def manifest(root):
    """Everything in the image, so that a write anywhere shows."""
    out = {}
    for folder, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            out[path] = (status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns, status.st_ino)
    return out


def make_memory_group():
    """A control group with a limit: its folder and where a container finds it. None where none can be made."""
    for top, limit in MEMORY_GROUPS:
        folder = tempfile.mkdtemp(prefix="ckptd-replay-", dir=top) if os.access(top, os.W_OK) else None
        if folder and os.path.exists(f"{folder}/{limit}"):
            with open(f"{folder}/{limit}", "w") as f:
                f.write(str(MEMORY))
            os.chmod(folder, 0o755)
            return folder, top
        if folder:
            os.rmdir(folder)
    return None


class Container:
    """The last stage, started."""

    def __init__(self, stage, work, volumes, port, environment, command=None, files=()):
        self.stage, self.inside, self.volumes = stage, Inside(work), volumes
        self.group = make_memory_group()
        # Joined before the namespace of groups is made: what the process is in then is the top that it sees.
        self.join = ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', self.group[0]] if self.group else []
        self.env = {"HOME": "/", **stage.env, "CKPTD_LISTEN": f"0.0.0.0:{port}", **environment}
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(os.path.join(work, f"log-{port}"), "w+b")
        self.process = subprocess.Popen(
            self.inside.command([*self.join, *NAMESPACES, "--cgroup"], mount="run", group=self.group, root=stage.root,
                                argv=stage.entrypoint + (command or stage.command), env=self.env,
                                cwd=stage.workdir, confined=True, binds=[*((folder, target) for target, folder in volumes.items()), *files],
                                writable=list(volumes), **stage.ids()),
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def pid(self):
        """Of the process that is number 1 inside."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            return int(f.read().split()[0])

    def exec(self, argv):
        """As `docker exec`: the same root, user, environment and confinement."""
        enter = ["nsenter", "--target", str(self.pid()), "--mount", "--pid", "--ipc", "--uts", "--cgroup"]
        return subprocess.run(self.inside.command([*self.join, *enter], mount="none", root=self.stage.root, argv=argv, env=self.env,
                                                  cwd=self.stage.workdir, confined=True, **self.stage.ids()),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def text(self):
        self.log.flush()
        with open(self.log.name, errors="replace") as f:
            return f.read()

    def wait_until_healthy(self):
        end = time.monotonic() + self.stage.health_start + SIGNS_OF_LIFE_SECONDS
        start = time.monotonic()
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Trouble(f"it ended by itself with exit code {self.process.returncode}:\n{self.text()}")
            try:
                if self.exec(self.stage.health).returncode == 0:
                    return time.monotonic() - start
            except (IndexError, FileNotFoundError):
                pass  # not started yet
            time.sleep(0.1)
        raise Trouble(f"HEALTHCHECK {self.stage.health} never succeeded: {self.exec(self.stage.health)}\n{self.text()}")

    def stop(self):
        os.kill(self.pid(), getattr(signal, self.stage.stop_signal))
        start = time.monotonic()
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            raise Trouble(f"still there 30 s after {self.stage.stop_signal}:\n{self.text()}") from None
        if code != 0:
            raise Trouble(f"exit code {code} after {self.stage.stop_signal}:\n{self.text()}")
        return time.monotonic() - start

    def end(self):
        if self.process.poll() is None:
            try:
                os.kill(self.pid(), signal.SIGKILL)  # unshare's --kill-child ends where the process changes its user
            except (IndexError, FileNotFoundError, ProcessLookupError):
                self.process.kill()
            self.process.wait()
        self.log.close()
        if self.group:
            for _ in range(50):  # until the kernel has taken leave of the last process
                try:
                    return os.rmdir(self.group[0])
                except OSError:
                    time.sleep(0.1)


def check_refusal(stage, work, volumes):
    container = Container(stage, work, volumes, free_port(), {})
    try:
        code = container.process.wait(timeout=20)
        if code == 0 or not re.search("key|insecure", container.text()):
            raise Trouble(f"without keys the image ended with exit code {code}:\n{container.text()}")
        passed(f"without keys and without CKPTD_INSECURE it refuses to start: exit code {code}: {container.text().strip()[-300:]}")
    except subprocess.TimeoutExpired:
        raise Trouble("the image serves every interface without a key") from None
    finally:
        container.end()


def check_confinement(container):
    with open(f"/proc/{container.pid()}/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    sets = {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    if any(int(value, 16) for value in sets.values()) or status["NoNewPrivs"] != "1" or status["Seccomp"] != "2":
        raise Trouble(f"not confined: {sets}, NoNewPrivs {status['NoNewPrivs']}, Seccomp {status['Seccomp']}")
    if status["NSpid"].split()[-1] != "1":
        raise Trouble("the daemon is not process 1")
    passed(f"process 1 runs as {status['Uid'].split()[0]}:{status['Gid'].split()[0]}, no capability, no new privileges, filtered")
    for path in ("/", "/tmp", "/var/tmp", "/run", "/dev", "/etc", "/usr/bin"):
        if container.exec(["/bin/sh", "-c", f": > {path}/replay-probe"]).returncode == 0:
            raise Trouble(f"{path} can be written")
    for volume in container.volumes:
        probe = container.exec(["/bin/sh", "-c", f": > {volume}/replay-probe && rm {volume}/replay-probe"])
        if probe.returncode:
            raise Trouble(f"{volume} cannot be written: {probe.stderr}")
    passed(f"only {' '.join(container.volumes)} can be written")


def check_memory(container):
    if not container.group:
        print("skipped the limit on memory: no control group can be made on this machine")
        return
    shown = container.exec([*container.stage.entrypoint, "serve", "--print-config"])
    budget = re.search(r"^memory_budget\s*=?\s*(\d+)([KMGT]?)", shown.stdout, re.MULTILINE)
    if not budget or int(budget.group(1)) * 1024 ** " KMGT".index(budget.group(2) or " ") != MEMORY * 3 // 4:
        raise Trouble(f"with a limit of {MEMORY} bytes --print-config says:\n{shown.stdout}{shown.stderr}")
    passed(f"the container's limit of {MEMORY} bytes is seen: {budget.group(0)}")


def curl(container, out, path, *arguments, key=None):
    headers = ["-H", f"Authorization: Bearer {key}"] if key else []
    done = subprocess.run(["curl", "-sS", "--max-time", "60", "-o", out, "-w", "%{http_code}", *headers, *arguments, container.url + path],
                          capture_output=True, text=True)
    if done.returncode:
        raise Trouble(f"curl {path}: {done.stderr}\n{container.text()}")
    return int(done.stdout)


def check_conversion(container, work, checkpoint, key=None):
    out = os.path.join(work, "out.zip")
    status = curl(container, out, "/v1/convert/mlx/q4/", "-T", checkpoint, key=key)
    if status != 200:
        with open(out, errors="replace") as f:
            raise Trouble(f"the conversion answers {status}: {f.read(2000)}\n{container.text()}")
    with zipfile.ZipFile(out) as archive:
        names = sorted(os.path.basename(name) for name in archive.namelist())
        if archive.testzip() or not {"model.safetensors", "report.json"} <= set(names):
            raise Trouble(f"the result is not whole: {names}")
    passed(f"{os.path.basename(checkpoint)} -> {os.path.getsize(out)} bytes of zip: {' '.join(names)}")


def check_keys(stage, work, volumes, checkpoint):
    """As with a mounted secret: the key is made by the image, then asked for."""
    inside = Container(stage, work, volumes, free_port(), {}, command=["key", "replay"])
    try:
        if inside.process.wait(timeout=20):
            raise Trouble(f"ckptd key: {inside.text()}")
        text = inside.text()
    finally:
        inside.end()
    line = re.search(r"^(replay [0-9a-f]{64}.*)$", text, re.MULTILINE)
    key = re.search(r"ckptd_[0-9a-f]{64}", text)
    if not line or not key:
        raise Trouble(f"ckptd key prints no line for the file or no key:\n{text}")
    keys = os.path.join(work, "keys")
    with open(keys, "w") as f:
        f.write(line.group(1) + "\n")
    os.chmod(keys, 0o440)
    os.chown(keys, 0, stage.ids()["gid"])
    target = "/run/keys"
    open(stage.root + target, "a").close()
    container = Container(stage, work, volumes, free_port(), {"CKPTD_KEYS_FILE": target}, files=[(keys, target)])
    try:
        container.wait_until_healthy()
        refused = curl(container, os.devnull, "/v1/convert/mlx/q4/", "-T", checkpoint)
        if refused != 401:
            raise Trouble(f"a conversion without a key answers {refused}, not 401")
        passed("with a keys file a conversion without a key is answered 401, health still without one")
        check_conversion(container, work, checkpoint, key.group(0))
        container.stop()
    finally:
        container.end()


def run_image(stage, work, checkpoint):
    if not stage.health:
        raise Trouble("the image has no HEALTHCHECK")
    volumes = {}
    for number, target in enumerate(stage.volumes):
        volumes[target] = os.path.join(work, f"volume-{number}")
        subprocess.run(["cp", "-a", stage.root + target, volumes[target]], check=True)  # a named volume begins as the image's folder
    check_refusal(stage, work, volumes)
    before = manifest(stage.root)
    for round_name in ("a new volume", "the same volume again"):
        container = Container(stage, work, volumes, free_port(), {"CKPTD_INSECURE": "yes"})
        try:
            passed(f"on {round_name}: healthy after {container.wait_until_healthy():.1f} s")
            check_confinement(container)
            check_memory(container)
            check_conversion(container, work, checkpoint)
            passed(f"{stage.stop_signal}: exit code 0 after {container.stop():.1f} s")
        finally:
            container.end()
    after = manifest(stage.root)
    changed = sorted(path[len(stage.root):] for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if changed:
        raise Trouble(f"written outside of the volumes: {changed}")
    passed(f"none of {len(before)} files and folders outside of {' '.join(volumes)} was touched")
    check_keys(stage, work, volumes, checkpoint)
