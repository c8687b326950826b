"""A finding of any sort ends the fuzzer with an error and leaves a file that repeats it (`make sanitize` runs this)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="the fuzzer has its own environment, in which `make sanitize` runs this")

# One entry point has a fault in one of 32 calls, which depends on nothing but the bytes. No other one is called: what
# is wrong with those is for `make fuzz` to find.
FUZZ = """
import ctypes, dataclasses, sys
from fuzz import table

def wrong():
    raise AssertionError("planted")

def outside():
    ctypes.string_at(8)

def undefined():
    ctypes.CDLL(None).__ubsan_handle_builtin_unreachable(ctypes.create_string_buffer(64))

def without_end():
    while True:
        pass

def arguments(draw):
    if draw.integer(1, 32) == 7:
        globals()[FAULT]()
    return right(draw)

FAULT, name = sys.argv[1], "native.philox4x32"
right = table.ENTRIES[name].arguments
only = dataclasses.replace(table.ENTRIES[name], arguments=arguments)
table.ENTRIES.clear()
table.ENTRIES[name] = only
from fuzz import __main__ as fuzzer  # which reads the table's names
if FAULT == "without_end":
    fuzzer._LIMIT_SECONDS = 2
fuzzer.main(sys.argv[2:])
"""


def fuzz(*arguments):
    return subprocess.run(
        [sys.executable, "-c", FUZZ, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("fault", "words", "prefix"),
    [
        ("wrong", "planted", "crash-"),
        ("outside", "AddressSanitizer: SEGV", "crash-"),
        ("undefined", "unreachable", "crash-"),
        ("without_end", "imeout", "timeout-"),
    ],
)
def test_a_finding_leaves_a_file_that_repeats_it(fault, words, prefix, tmp_path):
    found = fuzz(fault, "--seconds", 120, "--output", tmp_path)
    assert found.returncode != 0
    assert words in found.stdout + found.stderr
    (file,) = tmp_path.glob(f"{prefix}*")
    again = fuzz(fault, "--output", tmp_path, file)
    assert again.returncode != 0
    assert words in again.stdout + again.stderr
