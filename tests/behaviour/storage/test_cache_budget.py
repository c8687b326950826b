"""Caches keep within their bytes, with what finds their rows."""

from __future__ import annotations

import sys

import pytest
import torch
from caches import POLICIES, cached_bytes

import headrace as hr

from copies import Process

_MEASURE = """
import sys
import torch
import headrace as hr

class Zeros:
    num_rows, row_bytes, dtype, shape = 10_000_000, 8, torch.int64, (10_000_000,)

    def read(self, ids, *, num_threads=1, to=None):
        return hr.Rows(torch.zeros(len(ids), dtype=self.dtype), {})

    def content_digest(self):
        return "zeros"

def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024

def read_all(cache, num_rows):
    for first in range(0, num_rows, 10_000):
        cache.read(torch.arange(first, first + 10_000))

policy, budget = sys.argv[1], int(sys.argv[2])
kept = {"ids": torch.arange(2_000_000)} if policy == "static" else {}
read_all(hr.CachedFeature(Zeros(), policy, bytes=budget // 100, **kept), 100_000)  # what is loaded once is not charged
before = resident()
cache = hr.CachedFeature(Zeros(), policy, bytes=budget, **kept)
read_all(cache, 2 * cache.capacity)
print((resident() - before) / budget)
"""


@pytest.mark.slow
@pytest.mark.combinations(2)
@pytest.mark.uninstrumented
@pytest.mark.parametrize("policy", POLICIES)
def test_resident_memory_is_within_the_bytes(policy):
    """Of a process whose cache of 64 MB has taken all the rows it can: nine tenths are what finds rows."""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    run = Process(_MEASURE, policy, 1 << 26)
    output, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    assert 0.6 < float(output) < 1.1


def test_rows_of_a_budget_count_what_finds_them():
    source = torch.zeros(100, 5)
    for policy in ("lru", "look-ahead"):
        cost = cached_bytes(20, policy)
        assert 20 < cost <= 20 + 128
        assert hr.CachedFeature(source, policy, bytes=7 * cost).capacity == 7
        assert hr.CachedFeature(source, policy, bytes=7 * cost - 1).capacity == 6
