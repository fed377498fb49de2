"""The scenarios of tests/bench/load.py, short and small: nothing fails under load. How fast it is, that judges."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import load  # noqa: E402  (the path comes first)


class LoadTest(unittest.TestCase):
    def assert_fine(self, seen):
        self.assertEqual([], seen.errors)
        self.assertTrue(seen.times)

    def test_a_crowd_reads_while_jobs_run(self):
        for kind in load.matrix(300, 4, 16).values():
            self.assert_fine(kind)

    def test_slow_uploads_end_well_and_only_silent_ones_are_cut(self):
        seen = load.slow(200, 6, silent=20, timeout=3)
        self.assert_fine(seen["beside"])
        self.assertEqual([408] * 20, seen["silent"])
        self.assertEqual([200] * 180, seen["slow"])

    def test_small_requests_are_served_beside_uploads_that_outrun_the_hasher(self):
        """The first upload that was held back for the hasher took the daemon with it: suspend() was handed the wrong context."""
        seen = load.uploads(4, 160, "--hash-threads", 1)
        self.assert_fine(seen["small"])
        self.assertEqual([201] * 4, seen["statuses"])


if __name__ == "__main__":
    unittest.main()
