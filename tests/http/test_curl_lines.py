"""Every curl line that README.md and GET / show is run as it stands, against a daemon of its own. New lines are found by themselves; one that
cannot be run fails. Placeholders: files after -T, @ and in $FILE are made; $ID, ID and the like stand for a job and a blob that are there."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import PATIENCE, ROOT, Daemon, linear_model

MODEL = linear_model()
ADDRESS = re.compile(r"(https?://)?\b(127\.0\.0\.1|localhost|HOST)(:(\d+|PORT))?(?=/)")
SENT = re.compile(r"(?:-\w*T\s*|@)([\w./-]+\.(?:pt|pth|bin|safetensors))\b")

# For machines without jq: jq [-r] .a.b
JQ = """#!%s
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[-1].strip(".").split("."):
    value = value[key] if key else value
print(value if isinstance(value, str) else json.dumps(value))
""" % sys.executable


def blocks_of(markdown):
    """The code blocks, indented or fenced, as lists of lines."""
    blocks, block, fenced = [], [], False
    for line in markdown.splitlines() + [""]:
        fence = line.lstrip().startswith("```")
        if fence or not (fenced or line.startswith("    ") or line.startswith("  curl")):
            if block and not (line == "" and not fenced):
                blocks.append(block)
                block = []
        else:
            block.append(line.strip())
        fenced ^= fence
    return blocks + ([block] if block else [])


def curl_lines(block):
    """The commands that call curl, with continued lines joined, without comments."""
    text = "\n".join(block).replace("\\\n", " ")
    lines = [re.sub(r"\s{2,}(#|->|what |a job instead|how far|an input).*$", "", re.sub(r"\s#\s.*$", "", line)).strip() for line in text.splitlines()]
    return [line for line in lines if re.search(r"(^|[\s(|;&])curl\s", line) and not line.startswith(("#", "apt", "sudo"))]


class CurlLinesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", 2)
        cls.addClassCleanup(cls.daemon.close)
        digest = cls.daemon.store(MODEL)
        cls.values = {"DIGEST": digest, "HEX": digest[7:], "KEY": "unused", "FILE": "model.pt", "NAME": "report.json"}
        cls.new_job()

    @classmethod
    def new_job(cls):
        cls.values["ID"] = cls.daemon.ended(cls.daemon.submit(MODEL, name="model.pt", quant="q4")["id"])["id"]

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ckptd-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.tools = os.path.join(self.folder, ".tools")
        os.mkdir(self.tools)
        pathlib.Path(self.tools, ".curlrc").write_text('write-out = "%{stderr}\\nSTATUS %{http_code}\\n"\n')
        if not shutil.which("jq"):
            jq = pathlib.Path(self.tools, "jq")
            jq.write_text(JQ)
            jq.chmod(0o755)

    def prepared(self, line):
        """The line with what it needs."""
        line = ADDRESS.sub(self.daemon.base, line)
        line = re.sub(r"(?<![\w$={.-])(%s)(?![\w=.])" % "|".join(self.values), lambda match: self.values[match[0]], line)
        for name in SENT.findall(line) + [self.values["FILE"]]:
            path = pathlib.Path(self.folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(MODEL)
        return line

    def run_lines(self, lines):
        """One shell for a block: a line may use what one before it has set. What -OJ saved is cleared away between them."""
        script = ["set -o pipefail"]
        for line in lines:
            script += [f"{self.prepared(line)}\nstatus=$?", "rm -f *.zip *.json *.safetensors",
                       f"if [ $status -ne 0 ]; then echo \"exit $status\" >&2; exit $status; fi"]
        environment = os.environ | self.values | {"CURL_HOME": self.tools, "PATH": self.tools + os.pathsep + os.environ["PATH"]}
        done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=self.folder, env=environment, capture_output=True, timeout=2 * PATIENCE,
                              text=True, errors="replace")
        self.assertEqual(0, done.returncode, "\n".join(lines) + "\n" + done.stdout[-2000:] + done.stderr[-2000:])
        # Of the job that is there nothing is left to cancel or to retry; everything else must be answered well, with or without -f.
        allowed = {409} if any(re.search("/(cancel|retry)", line) for line in lines) else set()
        statuses = [int(status) for status in re.findall(r"^STATUS (\d+)$", done.stderr, re.MULTILINE)]
        self.assertGreaterEqual(len(statuses), len(lines), done.stderr)
        self.assertEqual([], [status for status in statuses if status >= 400 and status not in allowed],
                         "\n".join(lines) + "\n" + done.stdout[-4000:] + done.stderr[-2000:])

    def run_document(self, text):
        """The number of lines that were run."""
        count = 0
        for block in blocks_of(text):
            lines = curl_lines(block)
            if not lines:
                continue
            with self.subTest(lines[0]):
                self.new_job()
                self.run_lines(lines)
            count += len(lines)
        return count

    def test_every_line_of_the_readme_works(self):
        self.assertGreaterEqual(self.run_document((ROOT / "README.md").read_text()), 3)

    def test_every_line_of_the_help_works(self):
        text = self.daemon.request("GET", "/")[2].decode()
        self.assertGreaterEqual(self.run_document(text), 7)

    def test_the_lines_are_found(self):
        text = "Intro with curl in it.\n\n    curl -fOJT a.pt http://localhost:8080/x   # -> a.zip\n    make run\n\n```sh\nID=$(curl -s \\\n  HOST:8080/y | jq -r .id)\n```\n"
        self.assertEqual([["curl -fOJT a.pt http://localhost:8080/x"], ["ID=$(curl -s  HOST:8080/y | jq -r .id)"]],
                         [curl_lines(block) for block in blocks_of(text)])


if __name__ == "__main__":
    unittest.main()
