"""What Schemathesis sends where the schema says "bytes": real checkpoints, damaged ones, and nothing in particular."""

import os
import pathlib
import sys

import schemathesis
from hypothesis import strategies as st

sys.path.insert(0, str(pathlib.Path(os.environ["CKPTD_SOURCE"]) / "tests" / "http"))

import support

WHOLE = [
    support.linear_model(),
    support.torch_zip({"up.weight": ("float32", (3, 3, 3, 3), support.floats(81))}),
    support.torch_zip({"w": ("float64", (2, 2), bytes(32)), "n": ("int64", (1,), bytes(8))}),
]


@st.composite
def damaged(draw):
    whole = draw(st.sampled_from(WHOLE))
    at = draw(st.integers(0, len(whole) - 1))
    if draw(st.booleans()):
        return whole[:at]
    return whole[:at] + draw(st.binary(min_size=1, max_size=4)) + whole[at + 1:]


files = st.one_of(st.sampled_from(WHOLE), damaged(), st.binary(max_size=200))
schemathesis.openapi.media_type("application/octet-stream", files)
schemathesis.openapi.format("binary", files)
