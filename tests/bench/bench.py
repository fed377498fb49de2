"""Times ckptd against cp, mx.quantize, torch, openssl and nginx on the same files, in the same run, and prints one table of ratios.

Files are in the page cache before anything is timed. Runs of the two sides alternate, dirty pages are written out
between them (not timed), and the median counts. Every time is that of a whole process, file to file; only MLX is
given its import for free."""

import os
import sys
import threading
from pathlib import Path

import service
import torch
from measure import BINARY, MIB, ROUNDS, WORK, Daemon, Row, alternate, remove, run, warm
from safetensors.torch import save_file

# ---- the models


def linears(mib, width, block):
    """About mib MiB of bf16 Linear weights [width, width]; each begins elsewhere in the block: no two are equal."""
    out, n = {}, width * width
    for i in range(max(1, (mib << 20) // (2 * n))):
        out[f"layers.{i}.fc.weight"] = block.roll(i * 1237)[:n].view(width, width).clone()
    return out


def convolutions(mib, width, block):
    """About mib MiB of bf16 Conv2d 3x3 weights [width / 4, width / 8, 3, 3], with the BatchNorm behind each."""
    out, o, i = {}, width // 4, width // 8
    n = o * i * 9
    for layer in range(max(1, (mib << 20) // (2 * n))):
        out[f"features.{layer}.conv.weight"] = block.roll(layer * 7919)[:n].view(o, i, 3, 3).clone()
        for key in ["weight", "bias", "running_mean", "running_var"]:
            out[f"features.{layer}.bn.{key}"] = torch.rand(o).bfloat16()
        out[f"features.{layer}.bn.num_batches_tracked"] = torch.tensor(1)
    return out


def random_block(width):
    torch.manual_seed(1)
    return (torch.randn(width * width + 1) * 0.02).bfloat16()


def mixed_model(mib, width=4096):
    block = random_block(width)
    return convolutions(mib // 2, width, block) | linears(mib // 2, width, block)


def linear_model(mib, width=4096):
    return linears(mib, width, random_block(width))


# ---- measuring


def convert_seconds(source, *options):
    out = WORK / "out"
    remove(out)
    return run([BINARY, "convert", source, out, "--to", "mlx", *options])[0]


def cp_seconds(source):
    out = WORK / "copy"
    remove(out)
    return run(["cp", source, out])[0]


# ---- the parts


def against_cp(what, source, limit):
    warm(source)
    ours, cp = alternate(lambda: convert_seconds(source), lambda: cp_seconds(source))
    ratio = ours / cp
    yield Row(what, f"{ours:.2f} s, cp {cp:.2f} s", f"at most {limit:.1f} x cp", f"{ratio:.2f} x cp", ratio <= limit)
    remove(WORK / "out")
    remove(WORK / "copy")


def part_mixed():
    source = WORK / "mixed.pt"
    torch.save(mixed_model(MIB), source)
    yield from against_cp(f"convert, {MIB} MiB, half Conv2d 3x3, half Linear", source, 1.5)
    remove(source)


def part_linear():
    source = WORK / "linear.pt"
    torch.save(linear_model(MIB), source)
    yield from against_cp(f"convert, {MIB} MiB, all Linear", source, 1.0)
    remove(source)


QUANTIZE_BY_MLX = """
import sys, time
import mlx.core as mx
mx.set_default_device(mx.cpu)
start = time.perf_counter()
out = {}
for name, weight in mx.load(sys.argv[1]).items():
    base = name[:-len("weight")]
    out[name], out[base + "scales"], out[base + "biases"] = mx.quantize(weight, group_size=64, bits=4)
mx.save_safetensors(sys.argv[2], out)
print(time.perf_counter() - start)
"""

COMPARE_BY_MLX = """
import sys
import mlx.core as mx
a, b = mx.load(sys.argv[1]), mx.load(sys.argv[2])
assert set(a) == set(b), set(a) ^ set(b)
for name in a:
    x, y = a[name], b[name]
    assert x.dtype == y.dtype and x.shape == y.shape, name
    assert mx.array_equal(x.reshape(-1).view(mx.uint8), y.reshape(-1).view(mx.uint8)).item(), name
"""


def part_quantize():
    """MLX reads a safetensors file of the same tensors: it cannot read torch's, and so is spared the zip."""
    source, twin, theirs = WORK / "linear.pt", WORK / "linear.safetensors", WORK / "mlx.safetensors"
    model = linear_model(MIB)
    torch.save(model, source)
    save_file(model, twin)
    del model
    warm(source)
    warm(twin)

    def mlx_seconds():
        remove(theirs)
        return float(run([sys.executable, "-c", QUANTIZE_BY_MLX, twin, theirs])[1])

    convert_seconds(source, "--quant", "q4")
    mlx_seconds()
    run([sys.executable, "-c", COMPARE_BY_MLX, WORK / "out" / "model.safetensors", theirs])
    ours, mlx = alternate(lambda: convert_seconds(source, "--quant", "q4"), mlx_seconds, min(ROUNDS, 3))
    ratio = mlx / ours
    detail = f"{ours:.2f} s, MLX {mlx:.2f} s; equal bit for bit"
    yield Row(
        f"convert --quant q4, {MIB} MiB, all Linear",
        detail,
        "at least 5.0 x faster than mx.quantize",
        f"{ratio:.1f} x",
        ratio >= 5,
    )
    for path in [source, twin, theirs, WORK / "out"]:
        remove(path)


TORCH_TO_SAFETENSORS = """
import sys, torch
from safetensors.torch import save_file
save_file(torch.load(sys.argv[1], weights_only=True), sys.argv[2])
"""


def part_curl():
    source = WORK / "mixed.pt"
    torch.save(mixed_model(MIB), source)
    warm(source)
    daemon, zip_file, theirs = Daemon(), WORK / "answer.zip", WORK / "torch.safetensors"

    def curl_seconds():
        remove(zip_file)
        return daemon.convert(source, zip_file)

    def torch_seconds():
        remove(theirs)
        return run([sys.executable, "-c", TORCH_TO_SAFETENSORS, source, theirs])[0]

    try:
        ours, torch_time = alternate(curl_seconds, torch_seconds)
    finally:
        daemon.stop()
    ratio = ours / torch_time
    what = f"curl round trip, {MIB} MiB, half Conv2d, half Linear"
    detail = f"{ours:.2f} s, torch.load + save_file {torch_time:.2f} s"
    yield Row(what, detail, "no slower than torch + safetensors", f"{ratio:.2f} x", ratio <= 1)
    for path in [source, zip_file, theirs]:
        remove(path)


class PeakMemory:
    """Highest sum of anonymous memory (RssAnon) of a process and its descendants, looked at every 5 ms."""

    def __init__(self, pid):
        self.pid, self.peak, self.ended = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.ended.wait(0.005):
            self.peak = max(self.peak, sum(self.anonymous(pid) for pid in self.family()))

    def family(self):
        pids = [self.pid]
        for pid in pids:
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    pids += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
            except OSError:
                pass
        return pids

    @staticmethod
    def anonymous(pid):
        try:
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) / 1024
        except OSError:
            pass
        return 0

    def stop(self):
        self.ended.set()
        self.thread.join()
        return self.peak


def peak_of(mib, width):
    """MiB of anonymous memory of daemon and workers while one upload of about mib MiB is converted and sent back."""
    source = WORK / "mixed.pt"
    torch.save(mixed_model(mib, width), source)
    daemon = Daemon()
    watcher = PeakMemory(daemon.process.pid)
    try:
        daemon.convert(source, "/dev/null")
    finally:
        peak = watcher.stop()
        daemon.stop()
        remove(source)
    return peak


def part_memory():
    """The larger model is the same one, twice as wide: as many tensors, each four times the size."""
    small, large = peak_of(MIB, 4096), peak_of(4 * MIB, 8192)
    what = f"peak anonymous memory, daemon and worker, {MIB} MiB in"
    yield Row(what, f"{small:.0f} MiB", "at most 256 MiB", f"{small:.0f} MiB", small <= 256)
    what = f"the same, {4 * MIB} MiB in"
    yield Row(what, f"{large:.0f} MiB", "at most 256 MiB", f"{large:.0f} MiB", large <= 256)
    ratio = large / small if small else float("inf")
    yield Row("ratio of the two", "", "at most 1.10", f"{ratio:.2f}", ratio <= 1.1)


PARTS = {
    "mixed": part_mixed,
    "linear": part_linear,
    "quantize": part_quantize,
    "curl": part_curl,
    "memory": part_memory,
    **service.PARTS,
}


def print_table(rows):
    cells = [("what", "seconds", "aim", "measured", "")]
    cells += [(r.what, r.detail, r.aim, r.measured, "met" if r.met else "MISSED") for r in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(5)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    names = sys.argv[1:] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise SystemExit(f"no part {unknown[0]}; there are {', '.join(PARTS)}")
    remove(WORK)
    WORK.mkdir(parents=True)
    rows = []
    try:
        for name in names:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += PARTS[name]()
    finally:
        remove(WORK)
    print(f"{os.cpu_count()} cores; medians of {ROUNDS} runs in turns, page cache warm; MLX and memory fewer")
    print_table(rows)


if __name__ == "__main__":
    main()
