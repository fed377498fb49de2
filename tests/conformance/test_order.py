"""The order of a file's tensors is not always the order of the layers: other writers sort by name, and code registers
modules as it likes.

Whatever the order, a state dict is converted right or refused with a question. It is never converted wrong."""

import random
import tempfile
import unittest
from pathlib import Path

import torch

import ckptd
import zoo
from expected import Expected


def module_of(key):
    return key.rpartition(".")[0]


def orders(keys):
    """Names of orders and the keys in that order; a module's tensors stay together."""
    modules = list(dict.fromkeys(map(module_of, keys)))
    shuffled = modules[:]
    random.Random(len(modules)).shuffle(shuffled)
    yield "alphabetical", sorted(keys)
    children = list(dict.fromkeys(key.split(".")[0] for key in keys))
    yield "children reversed", sorted(keys, key=lambda key: -children.index(key.split(".")[0]))
    yield "shuffled", sorted(keys, key=lambda key: shuffled.index(module_of(key)))


class Order(unittest.TestCase):
    def check(self, name, state, keys, model, options):
        with tempfile.TemporaryDirectory() as folder:
            torch.save({key: state[key] for key in keys}, Path(folder) / "m.pt")
            result = ckptd.convert(Path(folder) / "m.pt", Path(folder) / "out", **options)
            if result.code:
                self.assertIn("ambiguous_layout", result.stderr)
                return
            self.assertEqual(ckptd.differences(result.tensors(), Expected(model, keys).tensors), [])


def add_tests():
    for name, entry in zoo.ZOO.items():

        def test(self, name=name, entry=entry):
            model = zoo.build(name)
            state = model.state_dict()
            for order, keys in orders(list(state)):
                with self.subTest(order=order):
                    self.check(name, state, keys, model, {"layers": entry.layers} if entry.layers else {})

        setattr(Order, f"test_{name}", test)


add_tests()
