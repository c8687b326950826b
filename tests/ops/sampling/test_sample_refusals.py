"""What samplers refuse: bad frontiers, seeds, graphs, arguments and weights, and more picks than there is memory."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from headrace.ops import (
    BlockSampler,
    InputError,
    LaborRule,
    NeighborRule,
    check_weights,
    sample_hop,
)

from copies import run_program

TOO_MANY = """
import resource, torch
from headrace.ops import BlockSampler, InputError, NeighborRule

resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
sampler = BlockSampler(torch.arange(20_001), torch.zeros(20_000, dtype=torch.int32))
try:
    sampler.sample(torch.arange(20_000), [NeighborRule(2**20, replace=True)], [1])
except InputError:  # what getrusage tells begins with the peak of the process that has started this one
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory of a process")
def test_more_draws_than_memory_can_hold_are_refused_before_any():
    """Those of a row, or of all rows that are looked at together, would fit: 4 GB of 80, of which there are 16."""
    result = run_program(TOO_MANY)
    assert int(result.stdout) < 2**20, result.stderr  # KB


NOT_AN_INT: Any = 2.0
NO_EXPANSION: Any = "some"
INDPTR, INDICES = torch.tensor([0, 1, 2]), torch.tensor([1, 0])


@pytest.mark.parametrize(
    ("frontier", "message"),
    [
        (
            torch.tensor([0, 2]),
            r"sample_hop: frontier\[1\] = 2 is not a node of the graph: expected 0 <= id < num_nodes = 2",
        ),
        (torch.tensor([-1]), r"frontier\[0\] = -1"),
        (torch.tensor([0], dtype=torch.int32), "frontier to be .* int64, got int32"),
        (torch.tensor([[0]]), r"got int64\[1, 1\]"),
    ],
)
def test_refuses_a_bad_frontier(frontier, message):
    with pytest.raises(InputError, match=message):
        sample_hop(INDPTR, INDICES, frontier, NeighborRule(1), 0)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (torch.tensor([0, 1, 0]), r"seeds\[0\] and seeds\[2\] are both 0: expected unique seeds"),
        (torch.tensor([5]), r"BlockSampler.sample: seeds\[0\] = 5 is not a node"),
        (torch.tensor([0.0]), "seeds to be .* got float32"),
    ],
)
def test_refuses_bad_seeds_and_goes_on(seeds, message):
    sampler = BlockSampler(INDPTR, INDICES)
    with pytest.raises(InputError, match=message):
        sampler.sample(seeds, [NeighborRule(1)], [0])
    assert sampler.sample(torch.tensor([0]), [NeighborRule(1)], [0]).n_id.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 2, 1, 2], [0, 0], r"indptr\[1\] = 2 and indptr\[2\] = 1 do not bound a row"),
        ([0, 9, 2, 2], [0, 0], r"indptr\[0\] = 0 and indptr\[1\] = 9 do not bound a row"),
        ([0, -9, 2, 2], [0, 0], "do not bound a row"),
        ([0, 1, 2, 2], [7, 0], "indices hold 7, which is not a node id"),
        ([0, 1, 2, 2], [-7, 0], "indices hold -7, which is not a node id"),
        ([0, 1], [0, 0], "indptr to run from 0 to len.indices. = 2, got 0 to 1"),
        ([], [], "indptr to have num_nodes"),
    ],
)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_damaged_graphs_never_read_foreign_memory(indptr, indices, message, num_threads):
    with pytest.raises(InputError, match=message):
        BlockSampler(torch.tensor(indptr, dtype=torch.int64), torch.tensor(indices, dtype=torch.int32)).sample(
            torch.tensor([0, 1]), [NeighborRule(-1)], [0], num_threads=num_threads
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NeighborRule(-2), "NeighborRule: expected fanout to be an int of at least 0, or -1"),
        (lambda: LaborRule(NOT_AN_INT), "LaborRule: expected fanout to be an int"),
        (lambda: NeighborRule(fanout=True), "fanout to be an int"),
        (lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [], []), "at least one rule and one key per rule"),
        (lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [NeighborRule(1)], [1, 2]), "got 1 and 2"),
        (lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [NeighborRule(1)], [-1]), "key to be an int in"),
        (
            lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [NeighborRule(1)], [1], expand=NO_EXPANSION),
            "got 'some'",
        ),
        (lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [NeighborRule(1)], [1], num_threads=0), "num_threads"),
        (lambda: sample_hop(INDPTR, INDICES, INDICES, NeighborRule(1), 1, num_threads=10**6), "at most 4096"),
        (lambda: BlockSampler(INDPTR, INDICES, INDPTR), "edge_ids to have one entry per edge"),
    ],
)
def test_refuses_bad_arguments(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.tensor([1.0, float("nan")]), r"weights\[1\] = (-)?nan, in the row of node 1: expected finite weights"),
        (torch.tensor([-1.0, 1.0]), r"weights\[0\] = -1.0+, in the row of node 0"),
        (torch.tensor([1.0, float("inf")]), r"weights\[1\] = inf"),
        (torch.tensor([1.0]), r"weights to have one entry per edge \(2\), got 1"),
        (torch.tensor([1, 2]), "weights to be .* float32 or float64, got int64"),
    ],
)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_refuses_bad_weights(weights, message, num_threads):
    with pytest.raises(InputError, match=message):
        check_weights(INDPTR, weights, num_threads=num_threads)
    with pytest.raises(InputError, match=message):
        BlockSampler(INDPTR, INDICES, weights=weights)


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 3.5e-307])
def test_refuses_weights_too_small_to_compare(tiny):
    with pytest.raises(InputError, match=r"weights\[1\], in the row of node 0, is positive but below .*scale them up"):
        check_weights(torch.tensor([0, 2]), torch.tensor([1.0, tiny], dtype=torch.float64))
    check_weights(torch.tensor([0, 2]), torch.tensor([0.0, 3.6e-307], dtype=torch.float64))


@pytest.mark.parametrize("values", [[1e308, 1e308], [1e308, 1.0]], ids=["the sum", "a multiple"])
def test_refuses_weights_whose_sum_overflows(values):
    """Importance weights are computed with the sum times the number of edges: it has to be finite as well."""
    with pytest.raises(InputError, match="in-edges of node 0 sum to infinity"):
        check_weights(torch.tensor([0, 2]), torch.tensor(values, dtype=torch.float64))


@pytest.mark.parametrize("num_dst", [1, 2, 4, 5], ids=lambda n: f"{n} times 2**62")
def test_more_picks_than_memory_can_hold_is_an_error_not_a_crash(num_dst):
    """Four times 2**62 is 0 in 64 bits: the running sum of the picks must not wrap around."""
    with pytest.raises(InputError, match="more draws than memory can hold"):
        sample_hop(INDPTR, INDICES, torch.zeros(num_dst, dtype=torch.int64), NeighborRule(2**62, replace=True), 0)
