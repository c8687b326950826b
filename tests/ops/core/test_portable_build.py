"""Code for the instruction sets of x86-64 is compiled by one condition, which `-DHEADRACE_PORTABLE` switches off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[3] / "ops/native"

#: Of the files that ask for the processor: where the condition is defined, and instructions that every x86-64 has.
MAY_ASK = {"instruction_set.hpp", "prefetch.hpp"}

pytestmark = pytest.mark.kernel


def test_one_condition():
    asking, left = set(), {}
    for path in NATIVE.rglob("*.?pp"):
        text = path.read_text()
        if "__x86_64__" in text:
            asking.add(path.name)
        portable = re.sub(r"^#ifdef HEADRACE_X86$.*?^#(else|endif)\b", "", text, flags=re.MULTILINE | re.DOTALL)
        if names := re.findall(r"HEADRACE_AVX\w+|_mm\d+_\w+|immintrin", portable):
            left[path.name] = names
    assert asking == MAY_ASK, "ask for HEADRACE_X86"
    assert left == {}
