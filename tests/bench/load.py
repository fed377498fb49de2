"""Many clients at once. Each scenario starts its own daemon, has it worked on from several sides, and returns what the clients saw.

    load.py [matrix] [slow] [uploads]      all of them, judged; exit status 1 if one is out of bounds

The client must not be what is measured: one process with raw epoll makes the crowd, another one the probes, and both are paced.
LOAD_SECONDS (default 20) and LOAD_MIB (default 1024, for uploads) set the size. Bounds are of a machine with two processors."""

import contextlib
import dataclasses
import hashlib
import http.client
import json
import multiprocessing
import os
import pathlib
import resource
import select
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))

from support import Daemon, big_model, linear_model  # noqa: E402  (the path comes first)

# Nothing is imported anew, so a process starts at once; it is forked before there are threads.
FORK = multiprocessing.get_context("fork")

LIVEZ_P99_MS = 100
SMALL_GET_P99_MS = 100


@dataclasses.dataclass
class Seen:
    """What one kind of client saw: milliseconds of each answer that was right, and a word for each that was not."""
    times: list = dataclasses.field(default_factory=list)
    errors: list = dataclasses.field(default_factory=list)

    def quantile(self, q):
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("inf")

    def __str__(self):
        return (f"{len(self.times)} answers, p50 {self.quantile(0.5):.1f} ms, p99 {self.quantile(0.99):.1f} ms, "
                f"most {self.quantile(1):.1f} ms, {len(self.errors)} errors {sorted(set(self.errors))[:3] if self.errors else ''}")


# ---- the crowd: one thread, raw epoll ----

class Connection:
    def __init__(self, port, when):
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = when
        self.asked = None
        self.got = b""


class Crowd:
    """n connections that stay open; each asks again `pace` seconds after it asked last, or as soon as it has its answer if that is later."""

    def __init__(self, port, n, path, pace):
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        self.pace, self.seen = pace, Seen()
        begin = time.monotonic()
        # Spread over the first period, as independent clients would be.
        self.all = [Connection(port, begin + pace * i / n) for i in range(n)]
        self.epoll = select.epoll()
        self.by_fd = {connection.sock.fileno(): connection for connection in self.all}
        for fd in self.by_fd:
            self.epoll.register(fd, select.EPOLLIN)

    def run(self, seconds):
        waiting = sorted(self.all, key=lambda connection: connection.due)  # idle ones; a dropped one is in no list any more
        now = time.monotonic()
        end = now + seconds
        while now < end:
            while waiting and waiting[0].due <= now:
                self.ask(waiting.pop(0), now)
            step = min(max(0.001, waiting[0].due - now) if waiting else 0.05, 0.05)
            for fd, _ in self.epoll.poll(step):
                connection = self.by_fd[fd]
                if self.take(connection):
                    connection.due = max(time.monotonic(), connection.asked + self.pace)
                    waiting.append(connection)
            now = time.monotonic()
            if len(waiting) > 1 and waiting[-1].due < waiting[0].due:
                waiting.sort(key=lambda connection: connection.due)
        self.close()
        return self.seen

    def ask(self, connection, now):
        connection.asked = now
        connection.got = b""
        try:
            if connection.sock.send(self.request) != len(self.request):
                self.seen.errors.append("request cut")
        except OSError as error:
            self.drop(connection, type(error).__name__)

    def take(self, connection):
        """True when the answer is whole."""
        try:
            part = connection.sock.recv(1 << 18)
        except BlockingIOError:
            return False
        except OSError as error:
            self.drop(connection, type(error).__name__)
            return False
        if not part:
            self.drop(connection, "closed")
            return False
        connection.got += part
        head, separator, body = connection.got.partition(b"\r\n\r\n")
        if not separator:
            return False
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < length:
            return False
        self.seen.times.append((time.monotonic() - connection.asked) * 1000)
        if not head.startswith(b"HTTP/1.1 200"):
            self.seen.errors.append(head[9:12].decode())
        return True

    def drop(self, connection, why):
        self.seen.errors.append(why)
        connection.sock.close()  # and with it its place in epoll

    def close(self):
        for connection in self.all:
            connection.sock.close()
        self.epoll.close()


def crowd(port, n, path, pace, seconds):
    return Crowd(port, n, path, pace).run(seconds)


# ---- probes: a new connection each time, as an orchestrator makes them ----

def probe(port, paths, every, seconds):
    seen, begin, i = Seen(), time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        time.sleep(max(0, begin + i * every - time.monotonic()))
        asked = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", paths[i % len(paths)])
            response = connection.getresponse()
            response.read()
            if response.status == 200:
                seen.times.append((time.monotonic() - asked) * 1000)
            else:
                seen.errors.append(str(response.status))
        except (OSError, http.client.HTTPException) as error:
            seen.errors.append(type(error).__name__)
        finally:
            connection.close()
        i += 1
    return seen


class Apart:
    """A function in a process of its own; result() is what it returned or raised."""

    def __init__(self, function, *arguments):
        self.pipe, self.there = FORK.Pipe()
        self.process = FORK.Process(target=self.run, args=(function, arguments), daemon=True)
        self.process.start()

    def run(self, function, arguments):
        try:
            self.there.send(function(*arguments))
        except Exception as failure:
            self.there.send(failure)

    def result(self):
        value = self.pipe.recv()
        self.process.join()
        if isinstance(value, Exception):
            raise value
        return value


@contextlib.contextmanager
def serving(*flags):
    daemon = Daemon(*flags)
    try:
        yield daemon
        assert daemon.process.poll() is None, daemon.log_text()[-2000:]
    except BaseException:
        print(daemon.process.poll(), daemon.log_text()[-2000:], file=sys.stderr)
        raise
    finally:
        daemon.close()


# ---- the scenarios ----

def convert_all_along(daemon, digest, stop, seen):
    """Work for a worker, one job after the other and never from cache; without up- and downloads, which would measure this client."""
    spec = json.dumps({"to": "mlx", "quant": "q4", "fresh": True, "inputs": [{"name": "m.pt", "digest": digest}]})
    while not stop.is_set():
        begin = time.monotonic()
        status, headers, answer = daemon.request("POST", "/v1/jobs", spec, {"Content-Type": "application/json"})
        if status != 202:
            seen.errors.append(str(status))
            return
        state = "queued"
        while state in ("queued", "running") and not stop.is_set():
            state = json.loads(daemon.request("GET", headers["Location"] + "?wait=5")[2])["state"]
        if state == "succeeded":
            seen.times.append((time.monotonic() - begin) * 1000)
        elif state not in ("queued", "running"):
            seen.errors.append(state)


def matrix(connections, seconds, mebibytes, pace=1.0):
    """A crowd that reads the matrix while two conversions run: {"matrix", "livez", "conversions": Seen}."""
    need = connections * 2 + 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < need:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(need, hard), hard))
    stop, conversions = threading.Event(), Seen()
    with serving("--workers", 2, "--max-connections", connections + 200, "--access-log", "none") as daemon:
        status, _, blob = daemon.request("POST", "/v1/blobs", big_model(mebibytes))
        assert status == 201, blob
        digest = json.loads(blob)["digest"]
        # Forked before there are threads.
        probes = Apart(probe, daemon.port, ["/livez"], 0.02, seconds)
        readers = Apart(crowd, daemon.port, connections, "/v1/matrix", pace, seconds)
        work = [threading.Thread(target=convert_all_along, args=(daemon, digest, stop, conversions)) for _ in range(2)]
        for thread in work:
            thread.start()
        seen = {"matrix": readers.result(), "livez": probes.result(), "conversions": conversions}
        stop.set()
        for thread in work:
            thread.join()
    return seen


def drip(port, raw, n, silent, step, seconds):
    """n uploads, each `step` bytes a second, so many of which say nothing after the first step. Returns the statuses of
    both kinds; 0: still under way."""
    head = b"PUT /v1/convert/mlx/m.pt?fresh=true HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(raw)
    socks, statuses, sent = [], [0] * n, [0] * n
    for _ in range(n):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(head)
        sock.setblocking(False)
        socks.append(sock)
    begin, turn = time.monotonic(), 0
    while time.monotonic() < begin + seconds and 0 in statuses:
        for i, sock in enumerate(socks):
            if not statuses[i] and sent[i] < len(raw) and (i >= silent or turn == 0):
                with contextlib.suppress(OSError):
                    sent[i] += sock.send(raw[sent[i]:sent[i] + step])
        turn += 1
        while True:
            for i, sock in enumerate(socks):
                if not statuses[i]:
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        answer = sock.recv(64)
                        statuses[i] = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else -1
            if time.monotonic() >= begin + turn:
                break
            time.sleep(0.05)
    for sock in socks:
        sock.close()
    return statuses[:silent], statuses[silent:]


def normal_uploads(port, raw, seconds):
    seen, end = Seen(), time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("PUT", "/v1/convert/mlx/m.pt?fresh=true", raw)
            response = connection.getresponse()
            response.read()
            if response.status == 200:
                seen.times.append((time.monotonic() - begin) * 1000)
            else:
                seen.errors.append(str(response.status))
        except (OSError, http.client.HTTPException) as error:
            seen.errors.append(type(error).__name__)
        finally:
            connection.close()
    return seen


def slow(n, seconds, silent=20, timeout=5, raw=None):
    """n uploads of 1 kB/s and some that fall silent, beside normal ones: {"alone", "beside": Seen, "silent", "slow": statuses}."""
    raw = raw or linear_model(rows=16, columns=max(64, 20 * seconds // 2))
    with serving("--workers", 1, "--upload-timeout", timeout, "--max-connections", n + 200, "--access-log", "none") as daemon:
        alone = Apart(normal_uploads, daemon.port, big_model(1), max(2, seconds // 4)).result()
        drips = Apart(drip, daemon.port, raw, n, silent, 1000, 3 * seconds + 60)
        time.sleep(1)
        beside = Apart(normal_uploads, daemon.port, big_model(1), max(2, seconds // 2)).result()
        quiet, slow_ones = drips.result()
    return {"alone": alone, "beside": beside, "silent": quiet, "slow": slow_ones}


def upload(port, mebibytes, number):
    """One blob whose bytes nobody else sends; the status."""
    block = hashlib.shake_256(bytes([number])).digest(1 << 20)
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(b"POST /v1/blobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
                 % (mebibytes << 20))
    for _ in range(mebibytes):
        sock.sendall(block)
    response = http.client.HTTPResponse(sock)
    response.begin()
    response.read()
    sock.close()
    return response.status


def uploads(n, mebibytes, *flags):
    """Small requests while n large uploads come in: {"small": Seen, "statuses", "seconds"}."""
    with serving("--access-log", "none", *flags) as daemon:
        begin = time.monotonic()
        stop = FORK.Event()
        probes = Apart(probe_until, daemon.port, ["/livez", "/v1/matrix", "/v1/jobs", "/version"], 0.01, stop)
        senders = [Apart(upload, daemon.port, mebibytes, i) for i in range(n)]
        statuses = [sender.result() for sender in senders]
        stop.set()
        return {"small": probes.result(), "statuses": statuses, "seconds": time.monotonic() - begin}


def probe_until(port, paths, every, stop):
    seen = Seen()
    while not stop.is_set():
        part = probe(port, paths, every, len(paths) * every)
        seen.times += part.times
        seen.errors += part.errors
    return seen


# ---- the judgements ----

def judge_matrix(seconds, _):
    seen = matrix(1000, seconds, 256)
    for name, kind in seen.items():
        print(f"  {name}: {kind}")
    ok = all(not kind.errors and kind.times for kind in seen.values()) and seen["livez"].quantile(0.99) <= LIVEZ_P99_MS
    return ok, f"no error, p99 of /livez at most {LIVEZ_P99_MS} ms"


def judge_slow(seconds, _):
    seen = slow(200, seconds)
    print(f"  normal uploads alone:  {seen['alone']}\n  normal uploads beside: {seen['beside']}")
    print(f"  silent: {sorted(set(seen['silent']))}, slow: {sorted(set(seen['slow']))}")
    ok = (not seen["beside"].errors and set(seen["silent"]) == {408} and set(seen["slow"]) == {200} and
          seen["beside"].quantile(0.5) <= 2 * seen["alone"].quantile(0.5) + 20)
    return ok, "normal uploads take at most twice as long, slow ones end well, silent ones with 408"


def judge_uploads(_, mebibytes):
    seen = uploads(4, mebibytes)
    print(f"  small: {seen['small']}\n  uploads: {seen['statuses']}, {4 * mebibytes / seen['seconds']:.0f} MiB/s")
    ok = not seen["small"].errors and set(seen["statuses"]) == {201} and seen["small"].quantile(0.99) <= SMALL_GET_P99_MS
    return ok, f"no error, p99 of small requests at most {SMALL_GET_P99_MS} ms"


JUDGEMENTS = {"matrix": judge_matrix, "slow": judge_slow, "uploads": judge_uploads}


def main(names):
    seconds, mebibytes = int(os.environ.get("LOAD_SECONDS", "20")), int(os.environ.get("LOAD_MIB", "1024"))
    failed = False
    for name in names or JUDGEMENTS:
        print(f"{name}: {JUDGEMENTS[name].__name__[6:]} under load", flush=True)
        ok, promise = JUDGEMENTS[name](seconds, mebibytes)
        print(f"  {'ok' if ok else 'NOT HELD'}: {promise}", flush=True)
        failed |= not ok
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
