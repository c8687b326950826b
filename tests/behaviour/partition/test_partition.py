"""Partitions: every node has one owner, and owners agree with the lists of what they own."""

from __future__ import annotations

import pickle
import random
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode

import headrace as hr

from copies import Process


def partitions(num_nodes: int, num_parts: int) -> list[hr.Partition]:
    owners = torch.randint(num_parts, (num_nodes,), generator=torch.Generator().manual_seed(num_nodes))
    return [
        hr.Partition.range(num_nodes, num_parts),
        hr.Partition.hash(num_nodes, num_parts),
        hr.Partition.of(owners, num_parts),
        hr.Partition.range_of(torch.bincount(owners, minlength=num_parts).tolist()),
    ]


@given(st.integers(0, 200), st.integers(1, 9))
def test_owners_agree_with_what_is_owned(num_nodes: int, num_parts: int) -> None:
    ids = torch.arange(num_nodes)
    for partition in partitions(num_nodes, num_parts):
        owner = partition.owner(ids)
        assert owner.dtype == torch.int32
        assert sum(partition.sizes) == num_nodes
        for part in range(num_parts):
            owned = partition.owned(part)
            assert torch.equal(owned, ids[owner == part])
            assert len(owned) == partition.sizes[part]
            assert torch.equal(owned[partition.position(owned)], owned)


def test_owners_are_where_ids_are() -> None:
    """Owners and positions are computed on the device of the ids."""
    table, ids = hr.Partition.of([0, 1, 1, 0]), torch.arange(4, device="meta")
    for partition in (table, hr.Partition.range(4, 2)):
        assert partition.owner(ids).device == partition.position(ids).device == ids.device
        assert partition.owner(torch.arange(4)).is_cpu
    assert pickle.loads(pickle.dumps(table)) == table  # noqa: S301 - our own


class Copies(TorchFunctionMode):
    """Counts the tensors that are copied to a device."""

    num = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.num += function is torch.Tensor.to
        return function(*args, **(kwargs or {}))


def test_tables_are_copied_to_a_device_once() -> None:
    partition, ids = hr.Partition.of([0, 1, 1, 0]), torch.arange(4, device="meta")
    with Copies() as copies:
        for _ in range(3):
            partition.owner(ids)
    assert copies.num == 1


def test_ranges_differ_by_one_at_most() -> None:
    assert hr.Partition.range(10, 4).sizes == (2, 3, 2, 3)


def test_ranges_of_any_size() -> None:
    partition = hr.Partition.range_of([0, 3, 0, 2, 0])
    assert partition.sizes == (0, 3, 0, 2, 0)
    assert partition.owner(torch.arange(5)).tolist() == [1, 1, 1, 3, 3]
    assert hr.Partition.range_of(hr.Partition.range(10, 4).sizes) == hr.Partition.range(10, 4)


def test_hash_is_that_of_splitmix64() -> None:
    # The first outputs of SplitMix64 from state 0 are the finalizer at multiples of its increment.
    increment, known = 0x9E3779B97F4A7C15, (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
    states = [(i + 1) * increment % 2**64 for i in range(3)]
    signed = torch.tensor([state - 2**64 if state >= 2**63 else state for state in states])
    parts = 1 << 16
    assert hr.Partition.hash(1, parts).owner(signed).tolist() == [output >> 48 for output in known]


def test_hash_spreads_evenly() -> None:
    # 2**20 ids over 7 parts: each load is binomial with standard deviation 358.
    sizes = np.array(hr.Partition.hash(1 << 20, 7).sizes)
    assert np.abs(sizes - (1 << 20) / 7).max() < 5 * 358


@given(st.integers(0, 100), st.integers(1, 9))
def test_reordered_part_by_part_owners_are_ranges(num_nodes: int, num_parts: int) -> None:
    for partition in partitions(num_nodes, num_parts):
        order, ranges = partition.order(), partition.ranges()
        owned = [partition.owned(part) for part in range(num_parts)]
        assert torch.equal(order, torch.cat(owned))
        assert ranges.sizes == partition.sizes
        assert torch.equal(ranges.owner(torch.arange(num_nodes)), partition.owner(order))


def test_partitions_compare_by_their_owners() -> None:
    by_range = hr.Partition.range(6, 3)
    assert by_range == hr.Partition.of([0, 0, 1, 1, 2, 2])
    assert by_range != hr.Partition.of([0, 0, 1, 1, 2, 1])
    assert by_range.content_digest() == hr.Partition.of([0, 0, 1, 1, 2, 2]).content_digest()


@pytest.mark.parametrize("kind", ["hash", "range"])
@pytest.mark.parametrize("num_nodes", [0, 1, 999, 3456, pytest.param(1_500_000, marks=pytest.mark.slow)])
def test_partitions_by_a_rule_equal_the_table_of_their_owners(kind, num_nodes):
    make = getattr(hr.Partition, kind)
    table = hr.Partition.of(make(num_nodes, 7).owner(torch.arange(num_nodes)), 7)
    assert make(num_nodes, 7).content_digest() == table.content_digest()
    assert make(num_nodes, 7).sizes == table.sizes
    assert all(torch.equal(make(num_nodes, 7).owned(part), table.owned(part)) for part in range(7))
    assert make(num_nodes, 7) == table


@pytest.mark.parametrize("kind", ["hash", "range"])
def test_numbers_that_decide_the_owners_are_compared_alone(kind):
    """Owners of a billion nodes would take seconds, and those of a trillion an hour."""
    make = getattr(hr.Partition, kind)
    for num_nodes in (0, 1, 3456, 10**12):
        assert make(num_nodes, 7) == make(num_nodes, 7)
        assert hash(make(num_nodes, 7)) == hash(make(num_nodes, 7))
        assert make(num_nodes, 7) != make(num_nodes, 6)
        assert make(num_nodes, 7) != make(num_nodes + 1, 7)


def test_a_table_of_the_user_is_copied():
    owners = torch.zeros(3, dtype=torch.int32)
    partition = hr.Partition.of(owners, 2)
    owners.fill_(1)
    assert partition.owner(torch.arange(3)).tolist() == [0, 0, 0]


# --- partitions of a graph --------------------------------------------------------------------------------------------


def communities(num_groups: int = 4, size: int = 150) -> tuple[hr.Graph, torch.Tensor]:
    """Groups of nodes under scrambled ids, 12 edges per node within and one without, in both directions."""
    random = np.random.default_rng(0)
    src = np.repeat(np.arange(num_groups * size), 13)
    dst = random.integers(0, num_groups * size, len(src))
    inside = np.arange(len(src)) % 13 > 0
    dst[inside] = src[inside] // size * size + random.integers(0, size, inside.sum())
    ids = random.permutation(num_groups * size)
    graph = hr.Graph.from_coo(
        np.concatenate([ids[src], ids[dst]]), np.concatenate([ids[dst], ids[src]]), num_nodes=num_groups * size
    )
    groups = np.empty(num_groups * size, np.int64)
    groups[ids] = np.arange(num_groups * size) // size
    return graph, torch.from_numpy(groups)


MAKERS = {
    "metis": hr.Partition.metis,
    "louvain": hr.Partition.louvain,
    "stream": lambda graph, num_parts, **settings: hr.Partition.stream(graph, num_parts, passes=5, **settings),
}
LIBRARIES = {"metis": "pymetis", "louvain": "igraph"}


@pytest.fixture(params=MAKERS)
def make(request):
    if request.param in LIBRARIES:
        pytest.importorskip(LIBRARIES[request.param])
    return MAKERS[request.param]


def test_few_edges_are_cut_between_communities(make):
    """Of the edges 1 in 13 leaves its group, and three of four of those its part at least; a hash cuts 3 of 4 edges."""
    graph, _ = communities()
    report = make(graph, 4).report(graph)
    assert hr.Partition.hash(600, 4).report(graph).cut_share > 0.7
    assert report.cut_share < 0.3
    assert report.node_balance <= 1.06


@pytest.mark.parametrize("num_parts", [1, 2, 7, 60])
def test_any_number_of_parts_of_any_graph(make, num_parts):
    """More parts than nodes, no edges, isolated nodes, loops and parallel edges, either width of ids."""
    graphs = [
        hr.Graph.from_coo([], [], num_nodes=5),
        hr.Graph.from_coo([0], [0], num_nodes=1),
        hr.Graph.from_coo([0, 0, 0, 1, 1], [1, 1, 0, 0, 2], num_nodes=40),
        hr.Graph(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 0], dtype=torch.int64)),
    ]
    for graph in graphs:
        partition = make(graph, num_parts)
        assert sum(partition.sizes) == graph.num_nodes
        assert len(partition.sizes) == num_parts
        if graph.num_edges == 0:
            assert max(partition.sizes) <= -(-graph.num_nodes // num_parts)


def test_a_seed_names_one_partition(make):
    graph, _ = communities(3, 40)
    state = torch.random.get_rng_state()
    assert make(graph, 3, seed=5) == make(graph, 3, seed=5)
    assert torch.equal(state, torch.random.get_rng_state())


def test_louvain_leaves_the_generator_of_python_alone():
    pytest.importorskip("igraph")
    graph, _ = communities(3, 40)
    before = random.getstate()
    hr.Partition.louvain(graph, 3)
    assert random.getstate() == before


def test_seeds_name_orders_of_a_shuffled_stream():
    graph, _ = communities()
    assert hr.Partition.stream(graph, 4, shuffle=True) != hr.Partition.stream(graph, 4, shuffle=True, seed=1)
    assert hr.Partition.stream(graph, 4) == hr.Partition.stream(graph, 4, seed=1)


@pytest.mark.parametrize("as_ids", [False, True])
def test_metis_balances_labelled_nodes(as_ids):
    """All in one of four communities: without `balance` they are one part's."""
    pytest.importorskip("pymetis")
    graph, groups = communities()
    labelled = groups == 2
    balance = labelled.nonzero().flatten() if as_ids else labelled
    report = hr.Partition.metis(graph, 4, balance=balance).report(graph, labelled)
    assert report.labelled_balance is not None
    assert report.labelled_balance < 1.06
    assert report.node_balance < 1.06
    assert hr.Partition.metis(graph, 4).report(graph, labelled).labelled_balance == 4


def test_metis_balances_edges_beside_nodes_and_labelled_nodes():
    """Nodes of one of four communities have ten times the in-edges: without `balance_edges` they are one part's."""
    pytest.importorskip("pymetis")
    graph, groups = communities()
    first = (groups == 0).nonzero().flatten()
    generator = torch.Generator().manual_seed(0)
    more = first[torch.randint(len(first), (2, 10 * len(first) * 10), generator=generator)]
    ends = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.indptr.diff())
    src, dst = torch.cat([torch.stack([graph.indices.long(), ends]), more], 1)
    graph = hr.Graph.from_coo(src, dst, num_nodes=graph.num_nodes)
    labelled = torch.arange(graph.num_nodes) % 3 == 0

    def shares(partition: hr.Partition) -> list[float]:
        """The largest part of nodes, edges and labelled nodes over the mean."""
        owners = partition.owner(torch.arange(graph.num_nodes))
        weights = (torch.ones(graph.num_nodes), graph.indptr.diff(), labelled)
        return [float(4 * torch.bincount(owners, one.double()).max() / one.sum()) for one in weights]

    assert shares(hr.Partition.metis(graph, 4))[1] > 2
    assert max(shares(hr.Partition.metis(graph, 4, balance=labelled, balance_edges=True))) < 1.1
    assert max(shares(hr.Partition.metis(graph, 4, balance_edges=True))[:2]) < 1.1


def test_communities_are_parts_as_they_are_found():
    pytest.importorskip("igraph")
    sizes = [3, 5, 40, 8]
    groups = torch.repeat_interleave(torch.arange(4), torch.tensor(sizes))
    src, dst = (groups[:, None] == groups).fill_diagonal_(fill_value=False).nonzero().T
    graph = hr.Graph.from_coo(src, dst, num_nodes=60)  # four nodes have no edges
    partition = hr.Partition.louvain(graph)
    assert sorted(partition.sizes) == [1, 1, 1, 1, 3, 5, 8, 40]
    owners = partition.owner(torch.arange(56))
    assert all(len(set(owners[groups == group].tolist())) == 1 for group in range(4))
    assert hr.Partition.louvain(hr.Graph.from_coo([], [], num_nodes=3)).sizes == (1, 1, 1)


_MEASURE = """
import sys
import torch
import headrace as hr

num_nodes = 8_000_000
starts = torch.arange(num_nodes + 1)
graph = hr.Graph(starts, torch.arange(1, num_nodes + 1, dtype=torch.int32) % num_nodes)  # a ring
hr.Partition.stream(hr.Graph.from_coo([0], [1]), 2)  # whatever the first call loads is not charged

def resident(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024

open("/proc/self/clear_refs", "w").write("5")  # the peak starts again from here
before = resident("VmRSS")
partition = hr.Partition.stream(graph, 64, passes=2, shuffle=sys.argv[1] == "shuffle")
print((resident("VmHWM") - before) / num_nodes)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.parametrize("order", ["ids", "shuffle"])
def test_stream_takes_four_bytes_per_node(order):
    """Peak resident memory of a process, over a graph of 8 million nodes."""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    run = Process(_MEASURE, order)
    output, errors = run.communicate(timeout=120)
    if "clear_refs" in errors:
        pytest.skip("this kernel does not let a process reset its peak")
    assert run.returncode == 0, errors
    assert 3.9 < float(output) < 4.6
