"""Numbers of parallel edges: those of counting one by one, in bounded memory, and no work where there are none."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.cuda import edge_numbers
from headrace.cuda.backend import stand_in
from headrace.cuda.edge_numbers import EdgeNumbers
from headrace.ops import BlockSampler, LaborRule

from cuda_host.stand_in import StandIn
from plans import items
from strategies import csc_graphs

CPU = torch.device("cpu")


def counted(indptr, indices):
    """The numbers, edge by edge."""
    numbers = []
    for start, stop in zip(indptr.tolist(), indptr.tolist()[1:], strict=False):
        seen = Counter()
        for source in indices[start:stop].tolist():
            numbers.append(seen[source])
            seen[source] += 1
    return numbers


@given(csc_graphs(), st.integers(1, 9), st.data())
def test_numbers_are_those_of_counting(graph, at_once, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_numbers, "EDGES_AT_ONCE", at_once)
        expected = counted(graph.indptr, graph.indices)
        found = EdgeNumbers.of_graph(graph.indptr, graph.indices, CPU)
        assert (found is not None) == any(expected)
        if found is not None:
            numbers, starts = found.tables
            assert numbers.dtype == torch.int32
            assert (numbers.tolist(), starts) == (expected, None)
        any_node = st.integers(0, max(graph.num_nodes - 1, 0))
        nodes = data.draw(st.lists(any_node, max_size=6 if graph.num_nodes else 0))
        at = torch.tensor(nodes, dtype=torch.int64)
        first = torch.cat([torch.zeros(1, dtype=torch.int64), graph.indptr.diff()[at].cumsum(0)])
        size = int(first[-1])
        rows = [expected[graph.indptr[node] : graph.indptr[node + 1]] for node in nodes]
        for room in (size, size + 7):
            patch.setattr(edge_numbers, "EDGES_AT_ONCE", room if data.draw(st.booleans()) else min(at_once, size))
            with stand_in(StandIn()):
                numbers, starts = EdgeNumbers.of_rows(graph.indptr[at], first, room, graph.indices).tables
            assert numbers[:size].tolist() == [number for row in rows for number in row]
            assert starts is first


def test_few_edges_are_sorted_at_once(monkeypatch):
    """Whole rows, of which a long one comes by itself."""
    sorted_at_once = []
    number_edges = edge_numbers.number_edges

    def counting(row, source):
        sorted_at_once.append(len(row))
        return number_edges(row, source)

    monkeypatch.setattr(edge_numbers, "number_edges", counting)
    monkeypatch.setattr(edge_numbers, "EDGES_AT_ONCE", 10)
    lengths = torch.tensor([4, 0, 6, 1, 25, 0, 9, 2, 0])
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    EdgeNumbers.of_graph(indptr, torch.ones(int(indptr[-1]), dtype=torch.int32), CPU)
    assert [size for size in sorted_at_once if size] == [10, 1, 25, 9, 2]


def test_rows_that_do_not_follow_each_other_have_no_numbers():
    indices = torch.ones(4, dtype=torch.int64)
    assert EdgeNumbers.of_graph(torch.tensor([0, 3, 1, 4]), indices, CPU) is None
    assert EdgeNumbers.of_graph(torch.tensor([0, 2, 3]), indices, CPU) is None


@pytest.fixture
def refuse_to_number(monkeypatch):
    def refuse(row, source):
        raise AssertionError("edges were numbered")

    monkeypatch.setattr(edge_numbers, "number_edges", refuse)


def test_where_a_caller_promises_that_there_are_none_nobody_looks(refuse_to_number):
    with stand_in(StandIn()):
        sampler = BlockSampler(torch.tensor([0, 3, 3, 3]), torch.tensor([0, 1, 2]))
        sampler.sample(torch.tensor([0]), [LaborRule(2)], [1], parallel_edges=False)
        with pytest.raises(AssertionError, match="edges were numbered"):
            sampler.sample(torch.tensor([0]), [LaborRule(2)], [1])


@pytest.mark.parametrize("fuse_sampling", [True, False])
def test_plans_number_edges_of_graphs_that_have_parallel_ones_alone(fuse_sampling, refuse_to_number):
    def sampled(src):
        plan = items().copy_to("cuda").sample_layer_neighbor(hr.Graph.from_coo(src, [4] * 3, num_nodes=200), [2])
        with stand_in(StandIn()), plan.loader(machine=hr.Machine(gpus=1), fuse_sampling=fuse_sampling) as loader:
            return list(loader)

    assert len(sampled([0, 1, 2])) > 0
    with pytest.raises(AssertionError, match="edges were numbered"):
        sampled([0, 1, 0])


def test_graphs_are_looked_through_where_a_gpu_samples_by_the_variates_of_edges_alone(monkeypatch):
    looked = []
    monkeypatch.setattr(hr.Graph, "has_parallel_edges", property(looked.append))
    graph = hr.Graph.from_coo([0, 1, 2], [3] * 3, num_nodes=200)
    next(iter(items().sample_layer_neighbor(graph, [2]).loader(machine=hr.Machine())))
    with stand_in(StandIn()):
        next(iter(items().copy_to("cuda").sample_neighbor(graph, [2]).loader(machine=hr.Machine(gpus=1))))
    assert not looked
