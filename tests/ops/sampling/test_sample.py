"""One hop, and the fused sampler of several, against the reference: bit for bit, whatever the threads."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import (
    BlockSampler,
    GraphError,
    InputError,
    ItemsError,
    LaborImportanceRule,
    LaborRule,
    LadiesRule,
    NeighborRule,
    _native,
    check_weights,
    compact,
    gather_rows,
    reference,
    sample_hop,
)

from strategies import csc_graphs, edge_weights, expands, keys, nodes_of, rules, thread_counts

BIG_RULES = [
    NeighborRule(10),
    NeighborRule(10, replace=True),
    NeighborRule(100),
    NeighborRule(-1),
    LaborRule(10),
    LaborRule(100),
    LaborRule(10, exact=False),
    LaborImportanceRule(10, 1),
    LaborImportanceRule(10),
    LadiesRule(3_000),
    LadiesRule(3_000, poisson=True),
]


FIELDS = ("indptr", "indices", "edge_ids", "weights")


def same(one, other):
    """Equal tensors, or both None."""
    return one is other if one is None or other is None else torch.equal(one, other)


def numpy_of(tensor):
    return None if tensor is None else tensor.numpy()


def assert_same(got, expected):
    assert (got is None) == (expected is None)
    if expected is not None:
        assert np.array_equal(got.numpy(), expected)


def assert_same_sample(got, expected):
    assert_same(got.n_id, expected.n_id)
    assert got.num_sampled_nodes == expected.num_sampled_nodes
    assert got.num_sampled_edges == expected.num_sampled_edges
    assert len(got.hops) == len(expected.hops)
    for hop, oracle in zip(got.hops, expected.hops, strict=True):
        for field in FIELDS:
            assert_same(getattr(hop, field), getattr(oracle, field))
        assert (hop.num_dst, hop.num_src) == (oracle.num_dst, oracle.num_src)


@pytest.fixture(scope="module")
def skewed():
    """5,000 nodes, 100,000 edges, in-degrees up to some thousands, int32 indices."""
    random = np.random.default_rng(1)
    src = random.integers(0, 5_000, 100_000)
    dst = (5_000 * random.random(100_000) ** 6).astype(np.int64)
    indptr, indices, edge_ids = reference.coo_to_csc(src, dst, 5_000)
    return torch.from_numpy(indptr), torch.from_numpy(indices).int(), torch.from_numpy(edge_ids)


# --- equality ---------------------------------------------------------------------------------------------------------


@given(csc_graphs(), rules(), keys, thread_counts, st.booleans(), st.data())
def test_hop_equals_reference(graph, rule, key, num_threads, weighted, data):
    frontier = data.draw(nodes_of(graph, unique=False))
    weights = data.draw(edge_weights(graph)) if weighted else None
    hop = sample_hop(graph.indptr, graph.indices, frontier, rule, key, weights=weights, num_threads=num_threads)
    oracle = reference.sample_hop(
        graph.indptr.numpy(), graph.indices.numpy(), frontier.numpy(), rule, key, weights=numpy_of(weights)
    )
    assert hop.neighbors.dtype == graph.indices.dtype
    for field in ("indptr", "neighbors", "positions", "weights"):
        assert_same(getattr(hop, field), getattr(oracle, field))


@given(csc_graphs(), st.lists(st.tuples(rules(), keys), min_size=1, max_size=3), expands, thread_counts, st.data())
def test_fused_equals_reference(graph, hops, expand, num_threads, data):
    seeds = data.draw(nodes_of(graph))
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))
    hop_rules, hop_keys = zip(*hops, strict=True)
    sampler = BlockSampler(graph.indptr, graph.indices, graph.edge_ids, weights)
    oracle = reference.sample_blocks(
        graph.indptr.numpy(),
        graph.indices.numpy(),
        seeds.numpy(),
        hop_rules,
        hop_keys,
        expand=expand,
        edge_ids=numpy_of(graph.edge_ids),
        weights=numpy_of(weights),
    )
    for _ in range(2):  # the second call finds the vertex map used
        sampled = sampler.sample(seeds, hop_rules, hop_keys, expand=expand, num_threads=num_threads)
        assert_same_sample(sampled, oracle)
    assert sampled.hops[0].indices.dtype == graph.indices.dtype
    assert sampled.hops[0].edge_ids is not None
    assert sampled.hops[0].edge_ids.dtype == torch.int64


@pytest.mark.parametrize("rule", BIG_RULES, ids=str)
@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_fused_equals_hop_and_compact(skewed, rule, expand, weighted):
    """On a graph large enough for several tasks per thread and for hubs; 2 hops in steps against 2 hops at once.

    By weight, a hop in steps makes the sums of its rows, hops at once read those of the graph.
    """
    indptr, indices, edge_ids = skewed
    weights = torch.rand(len(indices), generator=torch.Generator().manual_seed(1)) if weighted else None
    n_id, first, parts = torch.arange(0, 5_000, 10), 0, []
    for key in (3, 4):
        hop = sample_hop(indptr, indices, n_id[first:], rule, key, weights=weights, num_threads=2)
        compacted = compact(n_id, hop.neighbors)
        parts.append((hop.indptr, compacted.indices, edge_ids[hop.positions]))
        first = len(n_id) if expand == "new" else 0
        n_id = compacted.ids
    sampled = BlockSampler(indptr, indices, edge_ids, weights).sample(
        torch.arange(0, 5_000, 10), [rule, rule], [3, 4], expand=expand
    )
    assert torch.equal(sampled.n_id, n_id)
    if expand == "all":
        got = [(hop.indptr, hop.indices, hop.edge_ids) for hop in sampled.hops]
    else:
        (shared,) = sampled.hops
        got = [(shared.indptr, shared.indices, shared.edge_ids)]
        degrees = torch.cat([part[0].diff() for part in parts])
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
        parts = [(starts, torch.cat([part[1] for part in parts]), torch.cat([part[2] for part in parts]))]
    for one, other in zip(got, parts, strict=True):
        assert all(same(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
@pytest.mark.parametrize("rule", BIG_RULES, ids=str)
def test_threads_do_not_change_a_bit(skewed, rule, weighted):
    """Frontier of 5,000 vertices: ten stretches, on one thread one after the other."""
    indptr, indices, edge_ids = skewed
    weights = torch.rand(len(indices), generator=torch.Generator().manual_seed(0)) if weighted else None
    sampler = BlockSampler(indptr, indices, edge_ids, weights)
    one, *others = [sampler.sample(torch.arange(5_000), [rule, rule], [1, 2], num_threads=n) for n in (1, 2, 4)]
    for other in others:
        assert torch.equal(one.n_id, other.n_id)
        for a, b in zip(one.hops, other.hops, strict=True):
            assert all(same(getattr(a, field), getattr(b, field)) for field in FIELDS)
    for threads in (1, 2):
        bare = sampler.sample(torch.arange(5_000), [rule, rule], [1, 2], edge_ids=False, num_threads=threads)
        assert torch.equal(one.n_id, bare.n_id)
        for a, b in zip(one.hops, bare.hops, strict=True):
            assert b.edge_ids is None
            assert all(same(getattr(a, field), getattr(b, field)) for field in FIELDS if field != "edge_ids")


def test_concurrent_calls_do_not_disturb_each_other(skewed):
    sampler = BlockSampler(*skewed)

    def sample(seed):
        seeds = torch.arange(seed, 5_000, 2)  # so many that calls start threads of their own
        return sampler.sample(seeds, [NeighborRule(10), LaborRule(10)], [seed, seed + 1], num_threads=1 + seed % 2)

    expected = [sample(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for one, other in zip(expected, pool.map(sample, range(12)), strict=True):
                assert torch.equal(one.n_id, other.n_id)
                assert torch.equal(one.hops[1].indices, other.hops[1].indices)


@pytest.mark.parametrize("num_threads", [1, 2, 4])
@pytest.mark.parametrize("degrees", [(1, 39), (60, 1), (0, 0)], ids=str)
def test_what_is_reached_may_outgrow_its_room_again_and_again(degrees, num_threads):
    """The first rows say little of those that follow; and the ids that are still to be looked up are moved.

    The picks of a stretch of 39 edges a row are as large as the ids were, and would come to lie where these were.
    """
    random = np.random.default_rng(0)
    num_seeds, num_nodes = 20_000, 300_000
    degree = np.repeat([*degrees, 0], [15_000, num_seeds - 15_000, num_nodes - num_seeds])
    indptr = np.concatenate([[0], np.cumsum(degree)])
    indices = random.integers(0, num_nodes, indptr[-1]).astype(np.int32)
    sampler = BlockSampler(indptr, indices)
    seeds = np.arange(num_seeds)
    sampled = sampler.sample(seeds, [NeighborRule(-1)], [3], num_threads=num_threads)
    (hop,) = sampled.hops
    assert torch.equal(hop.indptr, torch.from_numpy(indptr[: num_seeds + 1]))
    assert torch.equal(sampled.n_id[hop.indices.long()], torch.from_numpy(indices).long())
    assert torch.equal(hop.edge_ids, torch.arange(len(indices)))
    assert sampled.n_id.tolist() == list(dict.fromkeys([*range(num_seeds), *indices.tolist()]))


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_later_hop_may_outgrow_its_room_too(num_threads):
    """Its frontier is the end of what grows: 300 seeds, then 9,000 vertices, the last of which have many edges."""
    random = np.random.default_rng(0)
    num_nodes = 400_000
    degree = np.repeat([30, 1, 39, 0], [300, 6_000, 3_000, num_nodes - 9_300])
    indptr = np.concatenate([[0], np.cumsum(degree)])
    indices = np.concatenate([300 + np.arange(9_000), random.integers(0, num_nodes, indptr[-1] - 9_000)])
    sampler = BlockSampler(indptr, indices)
    rules = [NeighborRule(-1), NeighborRule(-1)]
    sampled = sampler.sample(np.arange(300), rules, [1, 2], expand="new", num_threads=num_threads)
    (shared,) = sampled.hops
    assert torch.equal(sampled.n_id[shared.indices], torch.from_numpy(indices))
    assert torch.equal(shared.indptr, torch.from_numpy(indptr[:9_301]))


TOO_MANY = """
import resource, torch
from headrace.ops import BlockSampler, InputError, NeighborRule

resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
sampler = BlockSampler(torch.arange(20_001), torch.zeros(20_000, dtype=torch.int32))
try:
    sampler.sample(torch.arange(20_000), [NeighborRule(2**20, replace=True)], [1])
except InputError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory of a process")
def test_more_draws_than_memory_can_hold_are_refused_before_any():
    """Those of a row, or of all rows that are looked at together, would fit: 4 GB of 80, of which there are 16."""
    result = subprocess.run([sys.executable, "-c", TOO_MANY], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 2**20  # KB


@pytest.mark.parametrize("damage", ["late row", "neighbor", "both"])
def test_threads_meet_the_same_error_first(damage):
    indptr, indices = np.arange(0, 40_004, 4), np.arange(40_000) % 10_000
    if damage != "neighbor":
        indptr[9_001] = 1 << 40
    if damage != "late row":
        indices[20_000:30_000:999] = -3 - np.arange(11)
    seeds = torch.arange(10_000)
    messages = []
    for threads in (1, 2, 4):
        sampler = BlockSampler(indptr, indices)
        with pytest.raises(GraphError) as caught:
            sampler.sample(seeds, [NeighborRule(2)], [0], num_threads=threads)
        messages.append(str(caught.value))
        assert len(sampler.sample(torch.arange(10), [NeighborRule(2)], [0], num_threads=threads).n_id) >= 10
    assert len(set(messages)) == 1


def test_threads_leave_the_callers_cores_alone(skewed):
    """Helpers are kept off their caller's core; the caller must not be moved or pinned for it."""
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system does not tell which cores a thread may use")
    before = os.sched_getaffinity(0)
    x, ids = torch.zeros(1, 1, dtype=torch.uint8), torch.zeros(8_200, dtype=torch.int64)
    for _ in range(300):
        gather_rows(x, ids, num_threads=8)
    assert os.sched_getaffinity(0) == before


NO_HELPERS = """
import resource, threading, torch
from headrace.ops import BlockSampler, NeighborRule

sampler = BlockSampler(torch.arange(0, 120_001, 3), torch.arange(120_000) * 7 % 40_000)
seeds, rules = torch.arange(10_000), [NeighborRule(2), NeighborRule(2)]
expected = sampler.sample(seeds, rules, [1, 2], num_threads=1)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 2**29, now + 2**29))
try:
    threading.Thread(target=print).start()
except RuntimeError:
    sampled = sampler.sample(seeds, rules, [1, 2], num_threads=4)
    print(torch.equal(sampled.n_id, expected.n_id))
"""


@pytest.mark.uninstrumented
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory of a process")
def test_a_process_that_may_start_no_threads_samples_alone():
    """The stack of each would be a gigabyte, of which there is half a one left."""
    resource = pytest.importorskip("resource")
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard != resource.RLIM_INFINITY and hard < 2**30:
        pytest.skip("this system limits stacks to less than a gigabyte")
    command = ["sh", "-c", 'ulimit -s 1048576 && exec "$@"', "sh", sys.executable, "-c", NO_HELPERS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize("first_number", [2**31 - 5, 2**31])
@pytest.mark.parametrize("most_slots", [0, 3])
def test_the_vertex_map_starts_over(first_number, most_slots):
    """When its running numbers are used up it is cleared, and must not take an old number for a new one."""
    indptr, indices = np.array([0, 2, 4, 6]), np.array([1, 2, 0, 2, 0, 1])
    fresh = _native.FusedSampler(indptr, indices, None, None)
    old = _native.FusedSampler(indptr, indices, None, None, first_number, most_slots)
    for seed in (0, 1, 2, 0, 1, 2):
        arguments = (np.array([seed]), [_native.RuleKind.NEIGHBOR], [-1], [0], [0], False, True, 1)
        one, other = fresh.sample(*arguments), old.sample(*arguments)
        assert one[0].tolist() == other[0].tolist()
        assert one[1][0][1].tolist() == other[1][0][1].tolist()


def test_a_table_of_the_minibatch_serves_as_vertex_map(skewed):
    """As for graphs of more than 2**27 vertices; it grows in the midst of a batch and is used again for the next."""
    arrays = [array.numpy() for array in skewed[:2]]
    slots, table = _native.FusedSampler(*arrays, None, None), _native.FusedSampler(*arrays, None, None, 1, 0)
    for seed in range(6):
        seeds = np.random.default_rng(seed).choice(2_000, 10 + 100 * seed, replace=False)
        arguments = (seeds, [_native.RuleKind.NEIGHBOR] * 3, [10] * 3, [0] * 3, [seed, 1, 2], False, True, 2)
        one, other = slots.sample(*arguments), table.sample(*arguments)
        assert np.array_equal(one[0], other[0])
        for block, same in zip(one[1], other[1], strict=True):
            assert np.array_equal(block[1], same[1])
    assert slots.scratch_bytes() == 4 * (len(arrays[0]) - 1)
    assert 16 * len(one[0]) <= table.scratch_bytes() <= 64 * len(one[0])


# --- what a rule promises ---------------------------------------------------------------------------------------------


@given(csc_graphs(), keys, st.integers(0, 70), st.data())
def test_without_replacement_edges_are_distinct(graph, key, fanout, data):
    frontier = data.draw(nodes_of(graph))
    degrees = graph.indptr.diff()[frontier]
    for rule in (NeighborRule(fanout), LaborRule(fanout)):
        hop = sample_hop(graph.indptr, graph.indices, frontier, rule, key)
        assert torch.equal(hop.indptr.diff(), degrees.clamp(max=fanout))
        assert hop.positions.unique().numel() == hop.positions.numel()


@pytest.mark.parametrize("fanout", [32, 33, 64, 100, 999])
def test_large_fanouts_use_another_duplicate_check(fanout):
    """Around the switch from a scan of the picks to a hash table, on a row of 1,000 edges."""
    indptr, indices = torch.tensor([0, 1_000]), torch.zeros(1_000, dtype=torch.int64)
    hop = sample_hop(indptr, indices, torch.tensor([0]), NeighborRule(fanout), 5)
    assert hop.positions.tolist() == reference.pick_uniform(0, 1_000, fanout, 5, replace=False)


def test_a_destination_listed_twice_repeats_its_picks(skewed):
    indptr, indices, _ = skewed
    hop = sample_hop(indptr, indices, torch.tensor([1, 0, 1]), NeighborRule(5), 8)
    assert hop.positions[:5].tolist() == hop.positions[10:].tolist()


@given(csc_graphs(min_nodes=2), keys, st.integers(1, 6), st.booleans())
def test_labor_variates_are_shared(graph, key, fanout, exact):
    """Of two destinations the one with more in-edges keeps, of those that they share, a subset.

    Holds for Poisson picks always (a smaller threshold), for exact picks when all variates of the smaller neighbourhood
    are among those of the larger one; so one destination is given the other's in-neighbours and more.
    """
    small, large = graph.indices[: graph.num_edges // 2], graph.indices
    indptr = torch.tensor([0, len(small), len(small) + len(large)])
    num_nodes = max(2, graph.num_nodes)
    padded = torch.cat([indptr, indptr[-1:].expand(num_nodes - 2)])
    hop = sample_hop(padded, torch.cat([small, large]), torch.tensor([0, 1]), LaborRule(fanout, exact), key)
    of_small = set(hop.positions[: hop.indptr[1]].tolist())
    of_large = set((hop.positions[hop.indptr[1] :] - len(small)).tolist())
    assert of_large & set(range(len(small))) <= of_small


@given(csc_graphs(min_nodes=2), keys, st.integers(1, 6), st.booleans())
def test_labor_picks_of_equal_neighbourhoods_agree(graph, key, fanout, exact):
    degree = graph.num_edges
    indptr = torch.tensor([0, degree, 2 * degree] + [2 * degree] * (graph.num_nodes - 2))
    hop = sample_hop(indptr, graph.indices.repeat(2), torch.tensor([0, 1]), LaborRule(fanout, exact), key)
    first, second = hop.positions.split(hop.indptr.diff().tolist())
    assert torch.equal(first, second - degree)


def test_labor_touches_fewer_vertices(skewed):
    indptr, indices, _ = skewed
    sampler, seeds = BlockSampler(indptr, indices), torch.arange(2_000)
    counts = [len(sampler.sample(seeds, [rule], [1]).n_id) for rule in (LaborRule(5), NeighborRule(5))]
    assert counts[0] < 0.9 * counts[1]


def test_ids_beyond_32_bits_take_part_in_the_variate():
    """A frontier and sources above 2**32 would need a graph of 32 GB; the variate itself is checked instead."""
    vertices = np.array([2**32, 2**32 + 1, 2**40 + 3])
    everything = (9, 2**32 - 1, len(vertices), _native.InstructionSet.PORTABLE)
    high, _, _ = _native.labor_scan(vertices, *everything)
    assert high.tolist() == [reference.labor_variate(9, int(vertex)) >> 32 for vertex in vertices]
    assert not np.isin(high, _native.labor_scan(vertices % 2**32, *everything)[0]).any()


def test_without_edge_ids(skewed):
    sampled = BlockSampler(*skewed).sample(torch.tensor([3]), [NeighborRule(5)], [1], edge_ids=False)
    assert sampled.hops[0].edge_ids is None


def test_results_outlive_the_sampler(skewed):
    sampled = BlockSampler(*(part.clone() for part in skewed)).sample(torch.tensor([3]), [NeighborRule(5)], [1])
    sampled.n_id.add_(0)
    assert sampled.hops[0].indptr.tolist() == [0, 5]


def test_expand_new_without_common_weights_has_none():
    indptr, indices, weights = torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.ones(2)
    sampler = BlockSampler(indptr, indices, weights=weights)
    mixed = sampler.sample(torch.tensor([0]), [LaborRule(1), NeighborRule(1)], [1, 2], expand="new")
    assert mixed.hops[0].weights is None
    blocks = sampler.sample(torch.tensor([0]), [LaborRule(1), NeighborRule(1)], [1, 2])
    assert same(blocks.hops[0].weights, torch.ones(1))
    assert blocks.hops[1].weights is None


# --- bad input --------------------------------------------------------------------------------------------------------

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
        (torch.tensor([0], dtype=torch.int32), "frontier must be .* int64, got int32"),
        (torch.tensor([[0]]), r"got int64\[1, 1\]"),
    ],
)
def test_refuses_a_bad_frontier(frontier, message):
    with pytest.raises(ItemsError, match=message):
        sample_hop(INDPTR, INDICES, frontier, NeighborRule(1), 0)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (torch.tensor([0, 1, 0]), r"seeds\[0\] and seeds\[2\] are both 0: expected unique seeds"),
        (torch.tensor([5]), r"BlockSampler.sample: seeds\[0\] = 5 is not a node"),
        (torch.tensor([0.0]), "seeds must be .* got float32"),
    ],
)
def test_refuses_bad_seeds_and_goes_on(seeds, message):
    sampler = BlockSampler(INDPTR, INDICES)
    with pytest.raises(ItemsError, match=message):
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
        ([0, 1], [0, 0], "indptr must run from 0 to len.indices. = 2, got 0 to 1"),
        ([], [], "indptr must have num_nodes"),
    ],
)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_damaged_graphs_never_read_foreign_memory(indptr, indices, message, num_threads):
    with pytest.raises(GraphError, match=message):
        BlockSampler(torch.tensor(indptr, dtype=torch.int64), torch.tensor(indices, dtype=torch.int32)).sample(
            torch.tensor([0, 1]), [NeighborRule(-1)], [0], num_threads=num_threads
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NeighborRule(-2), "NeighborRule: fanout must be an int of at least 0, or -1"),
        (lambda: LaborRule(NOT_AN_INT), "LaborRule: fanout must be an int"),
        (lambda: NeighborRule(fanout=True), "fanout must be an int"),
        (lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [], []), "at least one rule and one key per rule"),
        (lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [NeighborRule(1)], [1, 2]), "got 1 and 2"),
        (lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [NeighborRule(1)], [-1]), "key must be an int in"),
        (
            lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [NeighborRule(1)], [1], expand=NO_EXPANSION),
            "got 'some'",
        ),
        (lambda: BlockSampler(INDPTR, INDICES).sample(INDICES, [NeighborRule(1)], [1], num_threads=0), "num_threads"),
        (lambda: sample_hop(INDPTR, INDICES, INDICES, NeighborRule(1), 1, num_threads=10**6), "at most 4096"),
        (lambda: BlockSampler(INDPTR, INDICES, INDPTR), "edge_ids must have one entry per edge"),
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
        (torch.tensor([1.0]), r"weights must have one entry per edge \(2\), got 1"),
        (torch.tensor([1, 2]), "weights must be .* float32 or float64, got int64"),
    ],
)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_refuses_bad_weights(weights, message, num_threads):
    with pytest.raises(GraphError, match=message):
        check_weights(INDPTR, weights, num_threads=num_threads)
    with pytest.raises(GraphError, match=message):
        BlockSampler(INDPTR, INDICES, weights=weights)


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 3.5e-307])
def test_refuses_weights_too_small_to_compare(tiny):
    with pytest.raises(GraphError, match=r"weights\[1\], in the row of node 0, is positive but below .*scale them up"):
        check_weights(torch.tensor([0, 2]), torch.tensor([1.0, tiny], dtype=torch.float64))
    check_weights(torch.tensor([0, 2]), torch.tensor([0.0, 3.6e-307], dtype=torch.float64))


@pytest.mark.parametrize("values", [[1e308, 1e308], [1e308, 1.0]], ids=["the sum", "a multiple"])
def test_refuses_weights_whose_sum_overflows(values):
    """Importance weights are computed with the sum times the number of edges: it has to be finite as well."""
    with pytest.raises(GraphError, match="in-edges of node 0 sum to infinity"):
        check_weights(torch.tensor([0, 2]), torch.tensor(values, dtype=torch.float64))


@pytest.mark.parametrize("num_dst", [1, 2, 4, 5], ids=lambda n: f"{n} times 2**62")
def test_more_picks_than_memory_can_hold_is_an_error_not_a_crash(num_dst):
    """Four times 2**62 is 0 in 64 bits: the running sum of the picks must not wrap around."""
    with pytest.raises(InputError, match="more draws than memory can hold"):
        sample_hop(INDPTR, INDICES, torch.zeros(num_dst, dtype=torch.int64), NeighborRule(2**62, replace=True), 0)


def test_edges_of_weight_zero_are_not_drawn_among_the_smallest_doubles():
    """There the product of a variate and the total rounds up to the total."""
    indptr, indices = torch.tensor([0, 3, 3, 3]), torch.tensor([0, 1, 2])
    weights = torch.tensor([0.0, 5e-324, 0.0], dtype=torch.float64)
    for key in range(50):
        hop = sample_hop(
            indptr, indices, torch.tensor([0]), NeighborRule(4, replace=True), key, weights=weights, num_threads=1
        )
        assert hop.neighbors.tolist() == [1, 1, 1, 1]
    sampler = BlockSampler(indptr, indices, weights=weights, trust_weights=True)
    for key in range(50):
        sampled = sampler.sample(torch.tensor([0]), [NeighborRule(4, replace=True)], [key])
        assert sampled.n_id[sampled.hops[0].indices.long()].tolist() == [1, 1, 1, 1]
