"""What scripts/replay_dockerfile.py understands of a Dockerfile, and what it refuses."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts"))
import replay_dockerfile  # noqa: E402
import replay_words as words  # noqa: E402


class Reading(unittest.TestCase):
    def test_continued_lines_are_one_instruction_and_comments_between_them_none(self):
        text = "# first\nFROM a\n\nRUN one \\\n  # why\n && two\n  ENV A=b\n"
        self.assertEqual(list(words.read_instructions(text)), [(2, "FROM", "a"), (4, "RUN", "one  && two"), (7, "ENV", "A=b")])

    def test_an_instruction_that_does_not_end_is_an_error(self):
        with self.assertRaisesRegex(words.Trouble, "line 2"):
            list(words.read_instructions("FROM a\nRUN one \\\n"))

    def test_variables_defaults_and_escapes(self):
        values = {"A": "1", "EMPTY": ""}
        for text, expected in (("$A ${A}x", "1 1x"), ("${B:-2} ${EMPTY:-3} ${A:-4}", "2 3 1"), ("${A:+5}${B:+6}", "5"), (r"\$A", "$A"), ("$B", "")):
            self.assertEqual(words.expand(text, values), expected)

    def test_shell_form_goes_through_the_shell_and_exec_form_does_not(self):
        self.assertEqual(words.read_command("a b"), ["/bin/sh", "-c", "a b"])
        self.assertEqual(words.read_command('["a", "b c"]'), ["a", "b c"])

    def test_unknown_flags_are_refused(self):
        self.assertEqual(words.read_flags("--from=build /a /b", ("from",)), ({"from": "build"}, "/a /b"))
        with self.assertRaisesRegex(words.Trouble, "--link"):
            words.read_flags("--link=true /a /b", ("from",))

    def test_durations(self):
        self.assertEqual([words.seconds(text) for text in ("15s", "1m30s", "500ms", "0s")], [15, 90, 0.5, 0])


class Ignoring(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = self.folder.name

    def write(self, path, text=""):
        path = os.path.join(self.tree, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)

    def test_patterns_hold_from_the_top_for_whole_names_and_for_all_below(self):
        self.write(".dockerignore", "build\n**/cache\n*.md\n!keep.md\n")
        context = words.Context(self.tree)
        for path, ignored in (("build", True), ("build/a/b", True), ("builds", False), ("a/build", False), ("cache/x", True), ("a/b/cache", True),
                              ("README.md", True), ("docs/x.md", False), ("keep.md", False)):
            self.assertEqual(context.ignored(path), ignored, path)

    def test_only_what_is_not_ignored_is_copied(self):
        self.write(".dockerignore", "build\n!build/keep\n")
        for path in ("a/b", "build/x", "build/keep"):
            self.write(path)
        target = os.path.join(self.tree, "target")
        context = words.Context(self.tree)
        os.makedirs(target)
        context.rules.append((True, words.ignore_pattern("target")))
        context.copy_to(target)
        found = sorted(os.path.relpath(os.path.join(folder, name), target) for folder, _, names in os.walk(target) for name in names)
        self.assertEqual(found, [".dockerignore", "a/b", "build/keep"])


class Refusing(unittest.TestCase):
    def refuse(self, text, message):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "Dockerfile")
            with open(path, "w") as f:
                f.write(text)
            with self.assertRaisesRegex(words.Trouble, message):
                replay_dockerfile.Build(work, work, work, {}).run(path)

    def test_what_is_not_replayed_is_never_passed_over(self):
        self.refuse("ONBUILD RUN x\n", "Dockerfile:1: ONBUILD: this instruction is not replayed")
        self.refuse("RUN x\n", "no FROM yet")
        self.refuse("FROM alpine:3\n", "only Debian")

    def test_an_argument_that_the_dockerfile_does_not_take_is_an_error(self):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "Dockerfile")
            with open(path, "w") as f:
                f.write("ARG A=1\n")
            with self.assertRaisesRegex(words.Trouble, "B: the Dockerfile has no such ARG"):
                replay_dockerfile.Build(work, work, work, {"B": "2"}).run(path)


if __name__ == "__main__":
    unittest.main()
