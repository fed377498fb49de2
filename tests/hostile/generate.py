#!/usr/bin/env python3
"""Hostile files, made of our own bytes: what the samples of picklescan, fickling and modelscan do, the advisories about them, and the bombs that
readers of checkpoints fell for. Standard library only; nothing is pickled or unpickled.

Usage: generate.py DIRECTORY [COMMAND]   writes one file per sample; COMMAND is what the payloads would run (default: true)

samples(command) yields (name, bytes, expectations); every expectation must hold for the file:

    dangerous               a finding of that class; dangerous:MODULE.NAME: with this name
    structure               a finding of that class
    called:MODULE.NAME      a finding of any class with this name that is called
    refused                 analysis or conversion ends with an error; refused:CODE: of this code
    A|B                     one of them
    clean                   no finding of the classes dangerous and structure: what is honest is not called hostile
    bounded                 nothing but what holds for all: no crash, little memory, little time, valid JSON, nothing executed
"""

import sys
from pathlib import Path

import archives
import formats
import gadgets
import pickles


def samples(command):
    for room in (gadgets, pickles, archives, formats):
        yield from room.samples(command)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data, _ in samples(sys.argv[2] if len(sys.argv) > 2 else "true"):
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
