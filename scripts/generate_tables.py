#!/usr/bin/env python3
"""Fills the parts of the documentation that repeat facts of the code, from what `ckptd tables` prints.

usage: scripts/generate_tables.py [--check] [--binary build/ckptd]

In Markdown files (README.md, docs/*.md) a part lies between `<!-- generated: NAME -->` and `<!-- end -->`; in YAML files
(openapi.yaml) between the comments `# generated: NAME` and `# end`, and takes the indentation of the first. With --check nothing is
written, and the exit status is 1 when a file is out of date."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = ((1 << 40, " TiB"), (1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB"))
# YAML 1.1 readers take these for something else than text.
NO_TEXT = re.compile(r"^(|~|null|true|false|yes|no|on|off|y|n|[-+.0-9].*)$", re.IGNORECASE)


class Trouble(Exception):
    pass


# ---- Markdown ----

def cell(text):
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def code(text):
    return "`" + str(text).replace("|", "\\|") + "`" if str(text) else ""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + [re.sub(r" +", " ", "| " + " | ".join(row) + " |") for row in rows]


def size(value):
    for unit, name in UNITS:
        if value >= unit and value % unit == 0:
            return f"{value // unit}{name}"
    return str(value)


def values_of(setting):
    kind = setting["type"]
    if kind == "choice":
        return ", ".join(code(word) for word in setting["argument"].split(","))
    if kind == "switch":
        return "`yes`, `no`"
    if kind == "text":
        return cell(setting["argument"])
    form = size if kind == "size" else str
    unit = " s" if kind == "seconds" else ""
    least, most = setting["least"], setting["most"]
    if most == 2**63 - 1:
        return f"{form(least)} or more"
    return f"{form(least)} to {form(most)}{unit}"


def errors(tables):
    return table(["code", "status", "class", "try again", "what it means", "what to do"],
                 [[code(e["name"]), str(e["status"]), e["class"], "yes" if e["retryable"] else "no", cell(e["title"]), cell(e["hint"])]
                  for e in tables["errors"]])


def settings(tables):
    return table(["flag", "variable", "default", "values", "what"],
                 [[code(s["flag"]), code(s["variable"]), code(s["default"]), values_of(s), cell(s["what"])] for s in tables["settings"]])


def limits(tables):
    return table(["flag", "variable", "default", "what it bounds"],
                 [[code(s["flag"]), code(s["variable"]), str(s["default"]), cell(s["what"])] for s in tables["limits"]])


def option_values(option):
    if option["type"] == "choice":
        return ", ".join(code(word) for word in option["values"].split(","))
    return code(option["values"])


def options(tables):
    return table(["option", "values", "default", "for", "what"],
                 [[code(o["name"]), option_values(o), code(o["default"]), code(o["target"]) or "all", cell(o["what"])]
                  for o in tables["options"]])


def targets(tables):
    return table(["target", "quantizations"],
                 [[code(t["name"]), ", ".join(code(q) for q in t["quants"])] for t in tables["targets"]])


def metrics(tables):
    return table(["metric", "type", "labels", "what"],
                 [[code(m["name"]), m["type"], ", ".join(code(x) for x in m["labels"].split(",") if x), cell(m["what"])]
                  for m in tables["metrics"]])


def routes(tables):
    return table(["method", "path", "operation", "scope", "what"],
                 [[r["method"], code(r["pattern"]), code(r["operation"]), code(r["scope"] or "") or "none", cell(r["what"])]
                  for r in tables["routes"]])


def scopes(tables):
    return table(["scope", "allows to"], [[code(s["name"]), cell(s["what"])] for s in tables["scopes"]])


MARKDOWN = {f.__name__: f for f in (errors, settings, limits, options, targets, metrics, routes, scopes)}


# ---- YAML: items of a sequence ----

def scalar(text):
    return json.dumps(text) if NO_TEXT.match(text) or re.search(r"[^\w./-]", text) else text


def yaml_words(name, tables):
    if name in ("errors", "options", "targets", "scopes"):
        return [row["name"] for row in tables[name]]
    if name == "quants":
        return list(dict.fromkeys(q for t in tables["targets"] for q in t["quants"]))
    if name == "operations":
        return [row["operation"] for row in tables["routes"]]
    for row in tables["options"]:
        if name == "option:" + row["name"] and row["type"] == "choice":
            return row["values"].split(",")
    return None


def markdown_part(name, _indent, tables):
    return MARKDOWN[name](tables) if name in MARKDOWN else None


def yaml_part(name, indent, tables):
    words = yaml_words(name, tables)
    return words and [f"{indent}- {scalar(word)}" for word in words]


# ---- files ----

FORMS = {".md": (re.compile(r"^()<!-- generated: (\S+) -->$"), re.compile(r"^<!-- end -->$"), markdown_part),
         ".yaml": (re.compile(r"^( *)# generated: (\S+)$"), re.compile(r"^ *# end$"), yaml_part)}


def filled(text, path, tables):
    begin, end, part = FORMS[path.suffix]
    out, inside = [], None
    for number, line in enumerate(text.splitlines(), 1):
        start = begin.match(line)
        if start and inside:
            raise Trouble(f"{path.name}:{number}: the part that begins in line {inside} has no end")
        if inside and not end.match(line):
            continue
        inside = None
        out.append(line)
        if start:
            inside = number
            lines = part(start[2], start[1], tables)
            if not lines:
                raise Trouble(f"{path.name}:{number}: there is no table {start[2]}")
            out += lines
    if inside:
        raise Trouble(f"{path.name}: the part that begins in line {inside} has no end")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description="fills the generated parts of the documentation")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is out of date")
    parser.add_argument("--binary", default=ROOT / os.environ.get("CKPTD_BUILD", "build") / "ckptd")
    arguments = parser.parse_args()
    tables = json.loads(subprocess.run([arguments.binary, "tables"], check=True, capture_output=True).stdout)
    stale = 0
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.yaml")]):
        text = path.read_text(encoding="utf-8")
        wanted = filled(text, path, tables)
        if wanted == text or (not text.endswith("\n") and wanted == text + "\n"):
            continue
        stale += 1
        name = path.relative_to(ROOT)
        if arguments.check:
            print(f"{name} is out of date; run scripts/generate_tables.py", file=sys.stderr)
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Trouble, OSError, subprocess.CalledProcessError) as trouble:
        sys.exit(f"generate_tables: {trouble}")
