"""Files in every form in which weights arrive, written by the real torch and numpy through their own options, and, where those no longer write a form,
by hand (synthesis.py). FIXTURES names them; each is a function that writes its path and says what must be read from it."""

import collections
import io
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.utils.prune
import torch.utils.serialization
from torch import nn

import synthesis as hand

FIXTURES = {}


@dataclass
class Expect:
    """weights: name to tensor; None: what torch.load(weights_only=False) gives below `root`, by path (judge).
    values: the tensors, whatever their names.
    odd: what a finding of the class structure says, where there must be one.
    refused: names of tensors that are no plain arrays, told from the rest and not written."""

    weights: dict = None
    values: list = None
    root: str = ""
    refused: list = field(default_factory=list)
    options: dict = field(default_factory=dict)
    form: str = "torch-zip"
    odd: str = ""


def fixture(function):
    FIXTURES[function.__name__] = function
    return function


def fixtures(names):
    """One fixture for each name: function(path, name)."""

    def add(function):
        for name in names:
            FIXTURES[f"{function.__name__}_{name}"] = lambda path, name=name: function(path, name)
        return function

    return add


def numbered(shape, dtype=torch.float32, start=1):
    count = int(np.prod(shape))
    return (torch.arange(start, start + count, dtype=torch.int64) % 100).reshape(shape).to(dtype)


def small():
    """A state dict with the usual things: ranks 0 to 4, a view, a tie, a buffer of integers."""
    state = collections.OrderedDict()
    state["conv.weight"] = numbered((4, 3, 2, 2))
    state["conv.bias"] = torch.randn(4, dtype=torch.float64)
    state["bn.num_batches_tracked"] = torch.tensor(7)
    state["fc.weight"] = torch.randn(6, 5).t()
    state["window"] = numbered((10, 10))[2:7:2, 3:9:3]
    state["tied"] = state["conv.weight"]
    state["half"] = torch.randn(3).half()
    state["empty"] = torch.empty(0, 4)
    return state


# ---- containers and protocols ----

LAYOUTS = [f"{form}_p{protocol}" for form in ("zip", "legacy") for protocol in (1, 2, 3, 4, 5)]


@fixtures(LAYOUTS)
def protocol(path, name):
    form, digit = name.split("_p")
    torch.save(small(), path, pickle_protocol=int(digit), _use_new_zipfile_serialization=form == "zip")
    return Expect(form="torch-" + form)


@fixtures(["zip", "legacy"])
def module_protocol_4(path, name):
    torch.save(nets(), path, pickle_protocol=4, _use_new_zipfile_serialization=name == "zip")
    return Expect(form="torch-" + name)


@fixtures(["1", "64", "4096"])
def alignment(path, name):
    with torch.utils.serialization.config.patch({"save.storage_alignment": int(name)}):
        torch.save(small(), path)
    return Expect()


@fixture
def without_crc(path):
    with torch.utils.serialization.config.patch({"save.compute_crc32": False}):
        torch.save(small(), path)
    return Expect()


@fixture
def from_a_buffer(path):
    buffer = io.BytesIO()
    torch.save(small(), buffer)
    path.write_bytes(buffer.getvalue())
    return Expect()


@fixture
def big_endian(path):
    state = small() | {"c": torch.randn(3, dtype=torch.complex64), "i": torch.arange(4, dtype=torch.int16)}
    torch.save(state, path)
    hand.swap_bytes(path, state)
    return Expect()


@fixtures(["deflated", "without_prefix", "with_folders", "macos"])
def zipped_again(path, name):
    torch.save(small(), path)
    hand.zip_again(path, name)
    # torch reads no deflated weights and no file without a prefix: the values are those before.
    return Expect(weights=small_again(), form="torch-zip")


def small_again():
    torch.manual_seed(0)
    return small()


# ---- dtypes and views ----

PLAIN = ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 uint16 uint32 uint64 "
         "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu").split()  # fmt: skip


@fixtures(["zip", "legacy"])
def dtypes(path, name):
    state = {}
    for word in (
        PLAIN if name == "zip" else PLAIN[:11]
    ):  # the later ones have no class of storage, which a legacy stream needs
        dtype = getattr(torch, word)
        data = torch.randint(0, 2 if word == "bool" else 256, (24 * 16,), dtype=torch.uint8)
        state[word] = data[: 24 * torch.empty(0, dtype=dtype).element_size()].view(dtype).reshape(4, 6)
    torch.save(state, path, _use_new_zipfile_serialization=name == "zip")
    return Expect(form="torch-" + name)


@fixture
def dtypes_without_equal(path):
    state = {
        "w": torch.ones(3),
        "wide": torch.randn(3, dtype=torch.complex128),
        "narrow": torch.randn(3, dtype=torch.complex32),
    }
    torch.save(state, path)
    return Expect(weights={"w": state["w"]}, refused=["wide", "narrow"])


def every_view():
    base = numbered((6, 8), start=0)
    return {
        "base": base, "transposed": base.t(), "column": base[:, 3], "rows": base[1:3], "stepped": base[::2, 1::3], "expanded": torch.arange(5.0)[:, None].expand(5, 7),
        "scalar_expanded": torch.tensor(3.0).expand(2, 2), "permuted": numbered((2, 3, 4, 5)).permute(3, 1, 0, 2), "scalar": base[2, 2], "empty": base[:0], "overlapping": torch.arange(10.0).unfold(0, 4, 2),
        "channels_last": numbered((2, 3, 4, 5)).to(memory_format=torch.channels_last), "channels_last_3d": numbered((2, 3, 2, 2, 2)).to(memory_format=torch.channels_last_3d),
        "ones": numbered((1, 4, 1)).as_strided((1, 4, 1), (99, 1, 77)), "diagonal": base.diagonal(), "real": torch.view_as_real(torch.randn(3, dtype=torch.complex64)), "bits": base.clone().view(torch.int32),
    }  # fmt: skip


@fixtures(["zip", "legacy"])
def views(path, name):
    torch.save(every_view(), path, _use_new_zipfile_serialization=name == "zip")
    return Expect(form="torch-" + name)


@fixture
def lazy_bits(path):
    z = torch.randn(4, dtype=torch.complex64)
    state = {
        "conj": z.conj(),
        "imaginary": torch.randn(4, dtype=torch.complex64).conj().imag,
        "neg": torch._neg_view(torch.randn(3)),
        "plain": z,
    }
    torch.save(state, path)
    return Expect(weights={key: value.resolve_conj().resolve_neg() for key, value in state.items()})


@fixture
def tied(path):
    torch.save({"a": (t := torch.randn(3, 4)), "b": t, "c": t.t(), "d": t[1:], "e": t.clone()}, path)
    return Expect()


# ---- what is not a plain tensor ----


@fixtures(["dequantize", "keep"])
def quantized(path, name):
    x = torch.randn(6, 4)
    scales, zeros = torch.rand(6, dtype=torch.float64) + 0.1, torch.randint(0, 9, (6,))
    state = {
        "tensor_qint8": torch.quantize_per_tensor(x, 0.1, 3, torch.qint8), "tensor_quint8": torch.quantize_per_tensor(x, 0.05, 128, torch.quint8), "tensor_qint32": torch.quantize_per_tensor(x, 0.01, 0, torch.qint32),
        "channel_qint8": torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8), "channel_axis_1": torch.quantize_per_channel(x, scales[:4], zeros[:4], 1, torch.quint8),
        "float_params": torch.quantize_per_channel(x, scales.float(), zeros.float(), 0, torch.quint8), "transposed": torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).t(), "plain": x,
    }  # fmt: skip
    torch.save(state, path)
    if name == "dequantize":
        return Expect(weights={key: value.dequantize().contiguous() for key, value in state.items()})
    return Expect(weights=hand.codes(state), options={"quantized": "keep"})


@fixture
def subclasses(path):
    parameter = nn.Parameter(torch.randn(3, 2))
    parameter.note = "with state"
    state = {
        "parameter": nn.Parameter(torch.randn(2)),
        "with_state": parameter,
        "buffer": nn.Buffer(torch.randn(2)),
        "own": torch.randn(4).as_subclass(Own),
    }
    torch.save(state, path)
    return Expect()


class Own(torch.Tensor):
    pass


@fixture
def no_arrays(path):
    dense = torch.eye(4)
    state = {
        "w": torch.ones(3), "coo": dense.to_sparse(), "csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc(), "bsr": dense.to_sparse_bsr((2, 2)),
        "meta": torch.empty(3, device="meta"), "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    }  # fmt: skip
    torch.save(state, path)
    return Expect(weights={"w": state["w"]}, refused=[key for key in state if key != "w"])


# ---- whole modules ----


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding="same")
        self.bn = nn.BatchNorm2d(8)
        self.rnn = nn.LSTM(8, 5, 2, bidirectional=True)
        self.attention = nn.MultiheadAttention(8, 2)
        self.up = nn.ConvTranspose2d(8, 4, 2, groups=2)
        self.head = nn.ModuleDict(
            {"a": nn.Linear(4, 2), "b": nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 2))}
        )
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(2)), nn.Parameter(torch.randn(3))])
        self.named = nn.ParameterDict({"x": nn.Parameter(torch.randn(2))})
        self.register_buffer("kept", torch.arange(3))
        self.register_buffer("left", torch.arange(4), persistent=False)
        self.tied = nn.Linear(8, 3)
        self.tied.weight = nn.Parameter(torch.randn(3, 8))
        self.head2 = nn.Linear(8, 3, bias=False)
        self.head2.weight = self.tied.weight

    def forward(self, x):
        return self.up(self.bn(self.conv(x)))


def nets():
    return Net().eval()


def normed():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3), nn.Conv1d(2, 2, 3), nn.Linear(3, 2))
    nn.utils.weight_norm(model[0])
    nn.utils.spectral_norm(model[1])
    torch.nn.utils.parametrizations.weight_norm(model[2])
    torch.nn.utils.prune.l1_unstructured(model[3], "weight", amount=2)
    return model


WHOLE = {
    "net": nets, "data_parallel": lambda: nn.DataParallel(nn.Linear(3, 2)), "half": lambda: nets().half(), "channels_last": lambda: nets().to(memory_format=torch.channels_last),
    "transformer": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), "embedding": lambda: nn.ModuleList([nn.Embedding(5, 4, padding_idx=0), nn.EmbeddingBag(5, 4)]),
    "dynamic_quantized": lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2)), dtype=torch.qint8),
    "averaged": lambda: torch.optim.swa_utils.AveragedModel(nn.Linear(3, 2)),
}  # fmt: skip


@fixtures(WHOLE)
def whole(path, name):
    model = WHOLE[name]()
    torch.save(model, path)
    if name == "dynamic_quantized":
        unpacked = [tensor for layer in model for tensor in layer._weight_bias()]
        return Expect(values=[tensor.dequantize() for tensor in unpacked])
    return Expect()


@fixture
def whole_legacy(path):
    torch.save(nets(), path, _use_new_zipfile_serialization=False)
    return Expect(form="torch-legacy")


@fixture
def state_dict_of_normed(path):
    torch.save(normed().state_dict(), path)
    return Expect()


@fixture
def optimizer_beside(path):
    model = nets()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(1, 3, 4, 4)).sum().backward()
    optimizer.step()
    torch.save(
        {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()},
        path,
    )
    return Expect(root="model")
