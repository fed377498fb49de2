"""Every model of the zoo, in every form and dtype: names, dtypes, shapes and bytes of the output are those that
torch's own module demands."""

import tempfile
import unittest
from pathlib import Path

import mlx.core as mx

import ckptd
import zoo
from expected import Expected


class Layout(unittest.TestCase):
    def check(self, name, form, dtype):
        model, entry = zoo.build(name, dtype), zoo.ZOO[name]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / ("model.safetensors" if form == "safetensors" else "model.pt")
            present = zoo.FORMS[form](model, source)
            options = {"layers": entry.layers} if entry.layers and form not in zoo.TYPED else {}
            result = ckptd.convert(source, Path(folder) / "out", **options)
            self.assertEqual(result.code, 0, result.stderr)
            expected = Expected(model, present)
            said = ckptd.differences(result.tensors(), expected.tensors)
            self.assertEqual(said, [])
            self.assertEqual(result.metadata()["format"], "mlx")
            self.assertEqual(set(mx.load(str(result.files[0]))), set(expected.tensors), "mx.load sees other names")
            self.check_aliases(result.report, expected.aliases)

    def check_aliases(self, report, aliases):
        """Every name that is not written because its tensor is tied stands in the report, with the name that is."""
        self.assertEqual({alias["name"]: alias["of"] for alias in report["aliases"]}, aliases)


def add_tests():
    for name in zoo.ZOO:
        for form in zoo.FORMS:
            for dtype in zoo.DTYPES:

                def test(self, name=name, form=form, dtype=dtype):
                    self.check(name, form, dtype)

                setattr(Layout, f"test_{name}__{form}__{dtype}", test)


add_tests()
