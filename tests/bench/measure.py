"""What all parts of the benchmark share: running processes, medians of runs in turns, the daemon, rows of the table."""

import os
import shutil
import socket
import statistics
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / os.environ.get("CKPTD_BUILD", "build")
BINARY, WORK = BUILD / "ckptd", BUILD / "bench"
MIB = int(os.environ.get("BENCH_MIB", "1024"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))


def warm(path):
    with open(path, "rb", buffering=0) as f:
        while f.read(1 << 24):
            pass


def remove(path):
    path = Path(path)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def run(command):
    """Seconds of one process that must succeed."""
    start = time.perf_counter()
    process = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))}\nended with {process.returncode}: {process.stderr.decode(errors='replace')}"
        )
    return seconds, process.stdout.decode()


def alternate(a, b, rounds=None):
    """Medians of two functions that give seconds, run in turns."""
    times = [], []
    for _ in range(rounds or ROUNDS):
        for function, seconds in zip((a, b), times):
            os.sync()
            seconds.append(function())
    return [statistics.median(t) for t in times]


@dataclass
class Row:
    what: str
    detail: str
    aim: str
    measured: str
    met: bool


class Daemon:
    """A daemon with a data directory of its own; flags are added to its command."""

    def __init__(self, *flags):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.host = f"127.0.0.1:{s.getsockname()[1]}"
        self.base = f"http://{self.host}"
        self.log = open(WORK / "log", "wb")
        command = [BINARY, "serve", "--listen", self.host, "--data", WORK / "data", *flags]
        self.process = subprocess.Popen([str(word) for word in command], stdout=self.log, stderr=self.log)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://{self.host}/readyz", timeout=2).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise SystemExit("the daemon did not start: " + (WORK / "log").read_text(errors="replace"))

    def convert(self, source, out):
        return run(["curl", "-sSf", "-o", out, "-T", source, f"{self.base}/v1/convert/mlx/?fresh=true"])[0]

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()
        remove(WORK / "data")
