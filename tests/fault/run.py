"""Runs the fault tests: each file in a process of its own, some at the same time, because most of their time is waiting. Arguments choose files
(kills store); FAULT_JOBS is how many run at once."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def failed(path):
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "unittest", path.stem], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"== {path.stem}: {time.monotonic() - begin:.0f} s\n{done.stdout.rstrip()}", flush=True)
    return done.returncode != 0


def main(names):
    paths = [HERE / f"test_{name}.py" for name in names] or sorted(HERE.glob("test_*.py"))
    # The load would stretch the times that the others watch.
    alone = [path for path in paths if path.stem == "test_load"]
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("FAULT_JOBS", "3"))) as pool:
        ended = list(pool.map(failed, [path for path in paths if path not in alone]))
    ended += [failed(path) for path in alone]
    return 1 if any(ended) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
