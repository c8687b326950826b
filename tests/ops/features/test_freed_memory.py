"""Pages that the C library keeps need not be made again."""

from __future__ import annotations

import sys
from ctypes.util import find_library

import pytest

from copies import run_program

# Two tensors at a time, as of layers, of which each is some per cent larger or smaller than those before it.
FAULTS = """
import resource, sys
import torch
from headrace import ops

keeps = ops.keep_freed_memory() if sys.argv[1] == "keep" else False
for number in range(24):
    both = [torch.ones((8 << 20) + ((number * 7 + i * 3) % 11 << 16)) for i in range(2)]
    del both
    if number == 7:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(keeps, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults_of(how: str) -> tuple[str, int]:
    """Whether memory is kept, and how often pages were made for 1 GB, in a process of its own."""
    keeps, faults = run_program(FAULTS, how).stdout.split()
    return keeps, int(faults)


@pytest.mark.slow
@pytest.mark.uninstrumented  # another allocator
@pytest.mark.skipif(not sys.platform.startswith("linux") or "musl" in str(find_library("c")), reason="needs glibc")
def test_tensors_take_pages_that_others_have_left():
    (keeps, few), (_, many) = faults_of("keep"), faults_of("leave")
    assert keeps == "True"
    assert few * 10 < many
