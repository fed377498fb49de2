"""Shows what a conversion did to demo/digits.pt, and checks it by value. Python's standard library only.

    python3 demo/show.py demo/digits.pt digits.mlx.zip

Prints the table of report.json: each tensor before and after, what it was taken for and on what evidence. Then
compares every element of the result with the checkpoint: out[o][h][w][i] must be in[o][i][h][w] for the
convolutions, and all else must be the same bytes."""

import collections
import json
import pickle
import struct
import sys
import zipfile


class Weights(pickle.Unpickler):
    """Reads a torch state dict: names, shapes, strides and raw storages. Nothing but the few names it needs can be
    loaded."""

    def __init__(self, archive, root):
        super().__init__(archive.open(f"{root}/data.pkl"))
        self.archive, self.root = archive, root

    def find_class(self, module, name):
        known = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): lambda storage, offset, shape, stride, *_: (
                storage,
                offset,
                shape,
                stride,
            ),
            ("torch", "FloatStorage"): "f",
            ("torch", "LongStorage"): "q",
        }
        return known[module, name]

    def persistent_load(self, pid):
        _, letter, key, _, count = pid
        return letter, struct.unpack(f"<{count}{letter}", self.archive.read(f"{self.root}/data/{key}"))


def read_checkpoint(path):
    with zipfile.ZipFile(path) as archive:
        root = archive.namelist()[0].split("/")[0]
        return Weights(archive, root).load()


def read_result(path):
    """report.json, and the tensors of model.safetensors: name -> (dtype, shape, bytes)."""
    with zipfile.ZipFile(path) as archive:
        names = {name.split("/")[-1]: name for name in archive.namelist()}
        report = json.loads(archive.read(names["report.json"]))
        data = archive.read(names["model.safetensors"])
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = entry["dtype"], entry["shape"], data[begin:end]
    return report, tensors


def shape_text(shape):
    return "x".join(map(str, shape)) or "1 value"


def print_table(report):
    rows = [("tensor", "before", "after", "type", "taken for", "rule", "evidence")]
    for t in report["tensors"]:
        evidence = f"{t['evidence']['kind']}: {t['evidence'].get('detail', t['evidence']['why'])}"
        rows.append(
            (t["out"], shape_text(t["from_shape"]), shape_text(t["shape"]), t["dtype"], t["layer"], t["rule"], evidence)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[-1])
    for t in report["dropped"]:
        print(f"  {t['from']} is left out: {t['why']}")
    reasons = collections.defaultdict(list)
    for t in report["tensors"]:
        if t.get("left_alone") and t["out"].endswith(".weight"):
            reasons[t["left_alone"]].append(t["out"])
    for reason, names in reasons.items():
        print(f"  not quantized: {', '.join(names)} ({reason})")


def element_order(shape):
    """Indices into a contiguous torch tensor in the order in which MLX stores it: convolutions channels last, all
    else as it is."""
    if len(shape) != 4:
        count = 1
        for n in shape:
            count *= n
        return range(count)
    o, i, h, w = shape
    return [((a * i + d) * h + b) * w + c for a in range(o) for b in range(h) for c in range(w) for d in range(i)]


def check(checkpoint, tensors):
    """Compares all tensors that are not quantized; prints what was compared, fails on the first difference."""
    compared, convolutions, values = 0, 0, 0
    for name, ((letter, storage), offset, shape, _) in checkpoint.items():
        if name not in tensors or tensors[name][0] != "F32":
            continue
        expected = struct.pack(f"<{len(element_order(shape))}f", *[storage[offset + k] for k in element_order(shape)])
        if tensors[name][2] != expected:
            raise SystemExit(f"{name} has wrong values")
        compared, convolutions, values = compared + 1, convolutions + (len(shape) == 4), values + len(expected) // 4
    print(
        f"  checked by value: {values} numbers of {compared} tensors are where they belong, "
        f"{convolutions} convolutions among them"
    )


def check_quantized(checkpoint, tensors, bits=4, group=64):
    """code * scale + bias must give each weight back to within one step of its group."""
    for name, ((_, storage), offset, shape, _) in checkpoint.items():
        if name not in tensors or tensors[name][0] != "U32":
            continue
        base, codes, count = name[: -len("weight")], tensors[name][2], shape[0] * shape[1]
        scales = struct.unpack(f"<{count // group}f", tensors[base + "scales"][2])
        biases = struct.unpack(f"<{count // group}f", tensors[base + "biases"][2])
        worst = 0.0
        for i in range(count):
            code = codes[i * bits // 8] >> (i * bits % 8) & (1 << bits) - 1
            error = abs(code * scales[i // group] + biases[i // group] - storage[offset + i])
            worst = max(worst, error / abs(scales[i // group]))
        if worst > 1.01:
            raise SystemExit(f"{name} is {worst:.2f} steps away from the checkpoint")
        print(f"  {name} unpacked again: at most {worst:.2f} quantization steps from the checkpoint, in {bits} bits")


def main():
    checkpoint = read_checkpoint(sys.argv[1])
    report, tensors = read_result(sys.argv[2])
    print_table(report)
    check(checkpoint, tensors)
    check_quantized(checkpoint, tensors)


if __name__ == "__main__":
    main()
