"""Rows and reads as long as the constants of kernels, one less and one more: bits as on the CPU."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from headrace import ops
from headrace.cuda.backend import stand_in
from headrace.cuda.faults import Faults
from headrace.cuda.sizes import Sizes, TooSmallError, with_more
from headrace.ops.reference.set_cache import SetCache

from cuda_host.stand_in import StandIn

CPU = torch.device("cpu")
#: Edges for a sum, for one thread at once, lanes, a block, a block of ordered sums, and a row of a block of threads.
CONSTANTS = (4, 8, 32, 128, 256, 512, 2048)
LENGTHS = [0, *(size + more for size in CONSTANTS for more in (-1, 0, 1))]
SCHEDULES = range(3)


@cache
def csc():
    """Rows of these lengths, long ones beside short ones, from sources of which several share some."""
    order = torch.randperm(len(LENGTHS), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor(LENGTHS)[order]
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return indptr, torch.randint(5000, (int(lengths.sum()),), generator=torch.Generator().manual_seed(1))


def hop(rule, *, weighted):
    indptr, indices = csc()
    padded = torch.cat([indptr, indptr[-1:].expand(5000 - len(LENGTHS))])
    weights = torch.rand(len(indices), generator=torch.Generator().manual_seed(2)) if weighted else None
    picked = ops.sample_hop(padded, indices, torch.arange(len(LENGTHS)), rule, 7, weights=weights)
    return [one for one in picked if isinstance(one, torch.Tensor)]


@cache
def short_csc():
    """Rows around the edges of a thread and of a segment."""
    lengths = torch.tensor([length for length in LENGTHS if length <= 33] + [63, 64, 65])
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return indptr, torch.randint(40, (int(lengths.sum()),), generator=torch.Generator().manual_seed(3))


def normal(*size):
    return torch.randn(*size, generator=torch.Generator().manual_seed(4)).requires_grad_()


def attended(heads):
    indptr, indices = short_csc()
    inputs = normal(40, heads, 3), normal(40, heads), normal(len(indptr) - 1, heads), normal(len(indices), heads)
    scores = ops.AttentionScores(*inputs[1:], None, dropout=ops.AttentionDropout(0.3, 5))
    result = ops.attend_with_grad(indptr, indices, inputs[0], scores)
    return [result, *torch.autograd.grad((result * result.detach()).sum(), inputs)]


def reduced(reduce):
    indptr, indices = short_csc()
    x, weight = normal(40, 2, 3), normal(len(indices), 2)
    result = ops.aggregate_with_grad(indptr, indices, x, reduce=reduce, weight=weight)
    return [result, *torch.autograd.grad((result * result.detach()).sum(), [x, weight])]


def added():
    indptr, _ = short_csc()
    ids = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
    return [ops.scatter_add_rows(torch.zeros(len(indptr), 3), ids, normal(len(ids), 3).detach())]


CASES = {
    "uniform": lambda: hop(ops.NeighborRule(40), weighted=False),
    "as many as a row has": lambda: hop(ops.NeighborRule(2048), weighted=False),
    "replacement": lambda: hop(ops.NeighborRule(9, replace=True), weighted=True),
    "by weight": lambda: hop(ops.NeighborRule(40), weighted=True),
    "most by weight": lambda: hop(ops.NeighborRule(2047), weighted=True),
    "labor": lambda: hop(ops.LaborRule(8), weighted=False),
    "labor by weight": lambda: hop(ops.LaborRule(8), weighted=True),
    "poisson": lambda: hop(ops.LaborRule(8, exact=False), weighted=False),
    "importance": lambda: hop(ops.LaborImportanceRule(8, 2), weighted=False),
    "importance by weight": lambda: hop(ops.LaborImportanceRule(8, "*"), weighted=True),
    **{f"attention of {heads}": lambda heads=heads: attended(heads) for heads in (1, 3, 4, 5, 8)},
    **{reduce: lambda reduce=reduce: reduced(reduce) for reduce in ("sum", "mean", "max")},
    "rows that are added": added,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rows_around_the_constants(name):
    expected = CASES[name]()
    for schedule in SCHEDULES:
        with stand_in(StandIn(seed=schedule)):
            found = CASES[name]()
        assert len(found) == len(expected)
        assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("num_rows", [1, 2, 127, 128, 129, 300])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_rows_that_fit_to_the_last_one(more, num_rows):
    """As many edges as there is room for, all or some of them in the last row."""
    taken = 1000
    degrees = torch.ones(num_rows, dtype=torch.int64)
    degrees[-1] = with_more(taken) + more - (num_rows - 1)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    with stand_in(StandIn()):
        faults = Faults((), CPU, num_sizes=1)
        sizes = Sizes(faults, (taken,))
        fitted, starts, room = sizes.fit(degrees, indptr)
        read = faults.check()
    torch.use_deterministic_algorithms(False)
    assert room == with_more(taken)
    assert torch.equal(fitted, degrees if more <= 0 else torch.zeros_like(degrees))
    assert torch.equal(starts, indptr if more <= 0 else torch.zeros_like(indptr))
    assert read == [room + more]
    if more <= 0:
        assert sizes.wanted(read) == read
    else:
        with pytest.raises(TooSmallError):
            sizes.wanted(read)


@pytest.mark.parametrize("num_rows", [1, 3, 127, 128, 129])
@pytest.mark.parametrize("width", [63, 64, 65, 127, 128, 129])
def test_copies_of_rows_around_words_and_blocks(width, num_rows):
    """Rows of up to 256 bytes are for a thread each word, longer ones for a warp."""
    x = torch.arange(140 * width, dtype=torch.int32).view(140, width)
    ids = torch.randint(140, (num_rows,))
    with stand_in(StandIn()):
        assert torch.equal(ops.gather_rows(x, ids), x[ids])


@pytest.mark.parametrize("num_missing", [31, 32, 33, 127, 128, 129])
def test_ids_that_miss_in_one_set_up_to_the_last_one_that_counts(num_missing):
    """The last ones are those that are expected, and take the slots of others."""
    ids = torch.arange(100, 100 + num_missing)
    expected = [ids[-2:], ids[:9]]
    oracle = SetCache(32)
    with stand_in(StandIn()):
        index = ops.SetIndex(32, CPU)
        for read, coming in ((ids, expected), (ids, expected[1:]), (ids.flip(0), expected)):
            found = index.look_up(read, coming)
            slots, fills = oracle.look_up(read.tolist(), [one.tolist() for one in coming])
            assert found.slots.tolist() == slots
            assert found.fills.tolist() == fills
