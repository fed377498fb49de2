"""Runs the suite: all test_*.py beside this file, or the tests that the arguments choose. Prints each failure and a
summary."""

import argparse
import collections
import sys
import time
import unittest
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent


class Outcome(unittest.TextTestResult):
    """One line for each failure at the end instead of a wall of tracebacks; -v brings those back."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.per_class = collections.Counter()

    def stopTest(self, test):
        super().stopTest(test)
        self.per_class[type(test).__name__] += 1


def chosen(args):
    loader = unittest.TestLoader()
    if args.patterns:
        loader.testNamePatterns = [p if "*" in p else f"*{p}*" for p in args.patterns]
    if args.names:
        return loader.loadTestsFromNames(args.names)
    return loader.discover(str(HERE), "test_*.py", str(HERE))


def report(outcome, seconds):
    bad = outcome.failures + outcome.errors
    for name, count in sorted(outcome.per_class.items()):
        failed = sum(type(test).__name__ == name or name in str(test) for test, _ in bad)
        print(f"  {name:<16} {count - failed:>5} of {count} passed")
    print(f"conformance: {outcome.testsRun} tests in {seconds:.0f} s")
    skipped = len(outcome.skipped)
    print(f"{outcome.testsRun - len(bad) - skipped} passed, {len(bad)} failed, {skipped} skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", dest="patterns", action="append", help="only tests whose name holds this")
    parser.add_argument("-v", dest="verbosity", action="store_const", const=2, default=1)
    parser.add_argument("-f", dest="failfast", action="store_true", help="stop at the first failure")
    parser.add_argument("names", nargs="*", help="test_layout, test_layout.Layout.test_resnet18__whole__f16 ...")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE))
    torch.set_num_threads(2)
    start = time.monotonic()
    runner = unittest.TextTestRunner(
        stream=sys.stdout, verbosity=args.verbosity, failfast=args.failfast, resultclass=Outcome
    )
    outcome = runner.run(chosen(args))
    report(outcome, time.monotonic() - start)
    return 0 if outcome.wasSuccessful() and outcome.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
