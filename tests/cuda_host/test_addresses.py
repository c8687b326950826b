"""Rows wherever tables begin, and however far they reach: words that addresses allow, and offsets of 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headrace import ops
from headrace.cuda import cached_rows
from headrace.cuda.backend import stand_in

from cuda_host.stand_in import StandIn

NUM_ROWS = 40
#: More bytes than 32 bits count, with a sign or without.
FAR = 5 << 30


@pytest.fixture(autouse=True)
def gpu():
    """Let the CPU stand in for a GPU, and check at each access that a GPU could do it."""
    with stand_in(StandIn()):
        yield


def beginning_at(skew: int, num_rows: int, width: int) -> torch.Tensor:
    """Rows of bytes that begin so many bytes behind a multiple of 16."""
    memory = torch.randint(256, (num_rows * width + 32,), dtype=torch.uint8)
    first = (skew - memory.data_ptr()) % 16
    return memory[first : first + num_rows * width].view(num_rows, width)


def drawn(num_rows: int) -> torch.Tensor:
    return torch.randint(num_rows, (30,))


#: Lengths are multiples of every word, so that addresses alone decide; a thread copies a word, or a warp a row.
@pytest.mark.parametrize("width", [16, 512])
@pytest.mark.parametrize(("source_at", "out_at"), [(0, 0), (8, 0), (4, 0), (2, 0), (1, 0), (0, 8), (0, 1), (4, 2)])
def test_tables_and_outputs_begin_anywhere(source_at, out_at, width):
    source, ids = beginning_at(source_at, NUM_ROWS, width), drawn(NUM_ROWS)
    out = beginning_at(out_at, len(ids), width)
    assert torch.equal(ops.gather_rows(source, ids, out=out), source[ids])
    other = beginning_at(0, NUM_ROWS, width)
    table, row = torch.arange(len(ids), dtype=torch.int32) % 2, drawn(NUM_ROWS)
    ops.gather_tables([other, source], table, row, out)
    assert torch.equal(out, torch.stack([other, source])[table.long(), row])


@pytest.mark.parametrize("width", [16, 512])
@pytest.mark.parametrize(("cache_at", "source_at", "out_at"), [(0, 0, 0), (8, 0, 0), (0, 4, 0), (0, 0, 2), (1, 0, 0)])
def test_caches_begin_anywhere(cache_at, source_at, out_at, width):
    cache, source = beginning_at(cache_at, NUM_ROWS, width), beginning_at(source_at, NUM_ROWS, width)
    ids = drawn(NUM_ROWS)
    slots = torch.where(torch.arange(len(ids)) % 3 == 0, -1, drawn(NUM_ROWS))
    out = beginning_at(out_at, len(ids), width)
    cached_rows.gather_cached(cache, slots, source, ids, out)
    expected = torch.where((slots < 0)[:, None], source[ids], cache[slots])
    assert torch.equal(out, expected)
    fills = torch.randperm(NUM_ROWS)[: len(ids)]
    cached_rows.fill_cache(cache, fills, out)
    assert torch.equal(cache[fills], expected)


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """More bytes than there need be memory for: those that nobody writes take none."""
    return np.memmap(tmp_path_factory.mktemp("far") / "rows", np.uint8, "w+", shape=(FAR,))


#: Odd, so that words are bytes: no longer word reaches beyond 32 bits with fewer bytes.
@pytest.mark.parametrize("width", [7, 257])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_beyond_four_gigabytes(dtype, width, far):
    table = torch.from_numpy(far)[: FAR // width * width].view(-1, width)
    # Around where products of 32 bits change their sign, and begin anew.
    ids = torch.cat([torch.arange(3) + edge // width for edge in (0, 1 << 31, 1 << 32, FAR - 3 * width)])
    rows = torch.randint(1, 256, (len(ids), width), dtype=torch.uint8)
    places, wanted = ids.clone(), ids.to(dtype)
    nobody = torch.zeros_like(table[:1])
    ops.gather_rows(rows, torch.arange(len(ids)), out=table, places=places)
    assert torch.equal(table[ids], rows)
    assert torch.equal(ops.gather_rows(table, wanted), rows)
    out = torch.zeros_like(rows)
    ops.gather_tables([nobody, table], torch.ones(len(ids), dtype=torch.int32), ids, out)
    assert torch.equal(out, rows)
    absent = torch.full_like(ids, -1)
    for cache, slots, source, asked in (
        (table, ids, nobody, torch.zeros_like(wanted)),
        (nobody, absent, table, wanted),
    ):
        out.zero_()
        cached_rows.gather_cached(cache, slots, source, asked, out)
        assert torch.equal(out, rows)
    cached_rows.fill_cache(table, ids, rows.flip(0))
    assert torch.equal(table[ids], rows.flip(0))
