"""The service beside what people would put in its place: openssl and dd for durable uploads, nginx for downloads."""

import json
import os
import statistics
import subprocess
import time
import urllib.request

from measure import MIB, ROUNDS, WORK, Daemon, Row, alternate, remove, run, warm

NGINX = """
daemon off; pid {work}/nginx.pid; worker_processes auto; error_log {work}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; sendfile on; tcp_nopush on; types {{ }} default_type application/octet-stream;
    client_body_temp_path {work}/nginx-body; proxy_temp_path {work}/nginx-proxy; fastcgi_temp_path {work}/nginx-fcgi;
    uwsgi_temp_path {work}/nginx-uwsgi; scgi_temp_path {work}/nginx-scgi;
    server {{ listen 127.0.0.1:{port}; root {work}/www; }}
}}
"""


class Nginx:
    def __init__(self, port=18099):
        (WORK / "www").mkdir(exist_ok=True)
        config = WORK / "nginx.conf"
        user = "user root;" if os.getuid() == 0 else ""
        config.write_text(user + NGINX.format(work=WORK, port=port))
        self.base = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(["nginx", "-c", str(config), "-e", str(WORK / "nginx.log")])
        time.sleep(0.5)
        if self.process.poll() is not None:
            raise SystemExit("nginx did not start: " + (WORK / "nginx.log").read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        remove(WORK / "www")


def get_json(url):
    with urllib.request.urlopen(url, timeout=300) as answer:
        return json.load(answer)


def post_json(url, value):
    request = urllib.request.Request(url, json.dumps(value).encode(), {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def random_file(path, mib):
    with open(path, "wb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))
    return path


def upload_seconds(daemon, source):
    """A new file each time: a known one would be too easy."""
    with open(source, "r+b") as file:
        file.write(os.urandom(64))
    warm(source)
    seconds, answer = run(["curl", "-sSf", "-T", source, daemon.base + "/v1/blobs/"])
    run(["curl", "-sSf", "-X", "DELETE", f"{daemon.base}/v1/blobs/{json.loads(answer)['digest']}"])
    return seconds


def part_blobs():
    source, copy = random_file(WORK / "blob", MIB), WORK / "copy"

    def openssl():
        return run(["openssl", "dgst", "-sha256", source])[0]

    def openssl_and_dd():
        remove(copy)
        return openssl() + run(["dd", f"if={source}", f"of={copy}", "bs=1M", "conv=fdatasync", "status=none"])[0]

    for durability, other, name, limit in (
        ("full", openssl_and_dd, "openssl dgst + dd conv=fdatasync", 1.0),
        ("none", openssl, "openssl dgst", 1.1),
    ):
        daemon = Daemon("--durability", durability)
        try:
            ours, theirs = alternate(lambda d=daemon: upload_seconds(d, source), other)
        finally:
            daemon.stop()
        ratio = ours / theirs
        what = f"upload of {MIB} MiB to /v1/blobs, durability {durability}"
        yield Row(what, f"{ours:.2f} s, {name} {theirs:.2f} s", f"at most {limit} x", f"{ratio:.2f} x", ratio <= limit)
    remove(source)
    remove(copy)


def make_job(daemon, source, to="mlx"):
    blob = json.loads(run(["curl", "-sSf", "-T", source, daemon.base + "/v1/blobs/"])[1])
    job = post_json(daemon.base + "/v1/jobs", {"inputs": [{"digest": blob["digest"], "name": source.name}], "to": to})
    while job["state"] in ("queued", "running"):
        job = get_json(f"{daemon.base}/v1/jobs/{job['id']}?wait=60")
    if job["state"] != "succeeded":
        raise SystemExit(f"the job ended as {job['state']}: {job['error']}")
    return job


def download_seconds(url):
    return run(["curl", "-sSf", "-o", "/dev/null", url])[0]


def part_downloads():
    import torch
    from bench import linear_model

    source = WORK / "linear.pt"
    torch.save(linear_model(MIB), source)
    daemon, nginx = Daemon(), Nginx()
    try:
        job = make_job(daemon, source)
        name = job["results"][0]["name"]
        for what, href, file, limit in (
            (f"download of a {MIB} MiB result", job["results"][0]["href"], name, 1.2),
            (f"download of results.zip, {MIB} MiB", job["zip_href"], "results.zip", 1.5),
        ):
            run(["curl", "-sSf", "-o", WORK / "www" / file, daemon.base + href])
            warm(WORK / "www" / file)
            ours, theirs = alternate(lambda h=href: download_seconds(daemon.base + h), lambda f=file: download_seconds(f"{nginx.base}/{f}"))
            ratio = ours / theirs
            yield Row(what, f"{ours:.2f} s, nginx {theirs:.2f} s", f"at most {limit} x nginx", f"{ratio:.2f} x", ratio <= limit)
    finally:
        nginx.stop()
        daemon.stop()
    remove(source)


def requests_per_second(url):
    out = run(["wrk", "-t1", "-c64", "-d4", url])[1]
    if "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(out)
    return float(out.split("Requests/sec:")[1].split()[0])


def part_matrix():
    daemon, nginx = Daemon(), Nginx()
    try:
        run(["curl", "-sSf", "-o", WORK / "www" / "mlx", daemon.base + "/v1/matrix/mlx"])
        ours, theirs = alternate(
            lambda: requests_per_second(daemon.base + "/v1/matrix/mlx"), lambda: requests_per_second(nginx.base + "/mlx"), min(ROUNDS, 3)
        )
    finally:
        nginx.stop()
        daemon.stop()
    ratio = ours / theirs
    detail = f"{ours:.0f}/s, nginx {theirs:.0f}/s"
    yield Row("GET /v1/matrix/mlx, 64 connections", detail, "at least 0.5 x nginx", f"{ratio:.2f} x", ratio >= 0.5)


def tiny_model(seed):
    import torch

    torch.manual_seed(seed)
    path = WORK / f"tiny{seed}.pt"
    torch.save({"fc.weight": torch.randn(8, 64), "fc.bias": torch.randn(8)}, path)
    return path


def part_tiny():
    """Every model differs from every other: nothing comes from the cache."""
    daemon = Daemon()
    try:
        times = []
        for seed in range(60):
            source = tiny_model(seed)
            start = time.perf_counter()
            with open(source, "rb") as body:
                request = urllib.request.Request(f"{daemon.base}/v1/convert/mlx/{source.name}", body.read(), method="PUT")
            urllib.request.urlopen(request, timeout=60).read()
            times.append((time.perf_counter() - start) * 1000)
            remove(source)
    finally:
        daemon.stop()
    median = statistics.median(times)
    yield Row("one command, a tiny model, durable", f"worst of 60 {max(times):.0f} ms", "at most 30 ms median", f"{median:.0f} ms", median <= 30)


def part_queue():
    n = 1000
    daemon = Daemon("--workers", "1", "--queue", "2000")
    try:
        source = tiny_model(0)
        blob = json.loads(run(["curl", "-sSf", "-T", source, daemon.base + "/v1/blobs/"])[1])
        spec = {"inputs": [{"digest": blob["digest"], "name": "tiny.pt"}], "to": "mlx", "fresh": True}
        start = time.perf_counter()
        for _ in range(n):
            last = post_json(daemon.base + "/v1/jobs", spec)
        while last["state"] in ("queued", "running"):
            last = get_json(f"{daemon.base}/v1/jobs/{last['id']}?wait=60")
        seconds = time.perf_counter() - start
        remove(source)
    finally:
        daemon.stop()
    yield Row(f"{n} queued tiny jobs, one worker", f"{seconds:.1f} s", "at least 1000 a minute", f"{n / seconds * 60:.0f} a minute", seconds <= 60)


PARTS = {
    "blobs": part_blobs,
    "downloads": part_downloads,
    "matrix": part_matrix,
    "tiny": part_tiny,
    "queue": part_queue,
}
