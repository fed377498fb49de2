"""The words of a Dockerfile and of its .dockerignore, for scripts/replay_dockerfile.py."""
import collections
import json
import os
import re
import shlex
import shutil

Instruction = collections.namedtuple("Instruction", "line word rest")


class Trouble(Exception):
    pass


def read_instructions(text):
    pending, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("#") or (not stripped and not pending):
            continue
        start = start or number
        if stripped.endswith("\\"):
            pending += stripped[:-1] + " "
            continue
        word, _, rest = (pending + stripped).partition(" ")
        yield Instruction(start, word.upper(), rest.strip())
        pending, start = "", 0
    if pending:
        raise Trouble(f"line {start}: the last instruction does not end")


def expand(text, values):
    def value(match):
        if match.group(0) == "\\$":
            return "$"
        name, operator, word = match.group("plain") or match.group("name"), match.group("operator"), match.group("word")
        if operator == ":-":
            return values.get(name) or word
        if operator == ":+":
            return word if values.get(name) else ""
        return values.get(name, "")

    return re.sub(r"\\\$|\$(?P<plain>\w+)|\$\{(?P<name>\w+)(?:(?P<operator>:[-+])(?P<word>[^}]*))?\}", value, text)


def read_pairs(rest, values):
    for word in shlex.split(rest):
        name, equals, value = word.partition("=")
        if not equals:
            raise Trouble(f"NAME=VALUE is expected, not {word}")
        yield name, expand(value, values)


def read_flags(rest, known):
    """`--name=value ...` in front of an instruction's words."""
    flags = {}
    while match := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
        if match.group(1) not in known:
            raise Trouble(f"--{match.group(1)} is not replayed")
        flags[match.group(1)] = match.group(2)
        rest = rest[match.end():]
    return flags, rest


def read_command(rest):
    """The exec form as it is, the shell form through the shell."""
    if rest.startswith("["):
        return json.loads(rest)
    return ["/bin/sh", "-c", rest]


def seconds(text):
    return sum(float(n) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit] for n, unit in re.findall(r"([\d.]+)(ms|s|m|h)", text))


def ignore_pattern(pattern):
    out = ""
    for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern.strip("/")):
        out += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return re.compile(out + r"(?:/.*)?\Z")


class Context:
    """The files of the tree that the engine would be sent."""

    def __init__(self, tree):
        self.tree = tree
        self.rules = []
        path = os.path.join(tree, ".dockerignore")
        if not os.path.exists(path):
            return
        with open(path) as f:
            lines = [line.strip() for line in f]
        self.rules = [(not line.startswith("!"), ignore_pattern(line.lstrip("!"))) for line in lines if line and not line.startswith("#")]

    def ignored(self, path):
        verdict = False
        for ignore, pattern in self.rules:
            if pattern.match(path):
                verdict = ignore
        return verdict

    def copy_to(self, folder):
        for directory, names, files in os.walk(self.tree):
            relative = os.path.relpath(directory, self.tree)
            inside = "" if relative == "." else relative + "/"
            kept = any(not ignore for ignore, _ in self.rules)
            names[:] = [name for name in names if kept or not self.ignored(inside + name)]
            for name in files:
                if not self.ignored(inside + name):
                    os.makedirs(os.path.join(folder, inside), exist_ok=True)
                    shutil.copy2(os.path.join(directory, name), os.path.join(folder, inside + name), follow_symlinks=False)
