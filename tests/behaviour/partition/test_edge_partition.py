"""Partitions of edges: every edge in one part, few copies of every node, no part with all edges of a hub."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from held_nodes import held_by_parts
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from strategies import edge_lists

KINDS = {
    "by source": hr.EdgePartition.by_source,
    "by destination": hr.EdgePartition.by_destination,
    "grid": hr.EdgePartition.grid,
}
kinds = st.sampled_from(sorted(KINDS))


def graph_of(edges) -> hr.Graph:
    return hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)


def ends_of(graph: hr.Graph) -> tuple[torch.Tensor, torch.Tensor]:
    return graph.indices.long(), torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees())


@given(edge_lists(min_nodes=1), kinds, st.integers(1, 13), st.sampled_from([torch.int32, torch.int64]))
def test_every_edge_is_in_one_part_and_every_node_has_one_master(edges, kind, num_parts, width):
    graph = graph_of(edges)
    graph = hr.Graph(graph.indptr, graph.indices.to(width), graph.edge_permutation)
    partition = KINDS[kind](graph, num_parts)
    owned = [partition.owned(part) for part in range(num_parts)]
    assert sorted(torch.cat(owned).tolist()) == list(range(graph.num_edges))
    assert partition.sizes == tuple(map(len, owned))
    source, destination = ends_of(graph)
    owner = partition.owner(source, destination)
    assert owner.dtype == torch.int32
    for part in range(num_parts):
        assert (owner[owned[part]] == part).all()
    assert sum(partition.nodes.sizes) == graph.num_nodes


@given(edge_lists(min_nodes=1), kinds, st.integers(1, 13))
def test_copies_equal_the_reference_and_keep_their_bound(edges, kind, num_parts):
    graph = graph_of(edges)
    partition = KINDS[kind](graph, num_parts)
    masters = partition.nodes.owner(torch.arange(graph.num_nodes)).tolist()
    held = held_by_parts(graph, masters, partition.num_columns)
    report = partition.report(graph)
    assert report.copies.tolist() == [len(held.get(part, ())) for part in range(num_parts)]
    assert report.replication_factor == pytest.approx(sum(map(len, held.values())) / graph.num_nodes)
    if kind == "grid":
        copies = [sum(node in nodes for nodes in held.values()) for node in range(graph.num_nodes)]
        assert max(copies) <= partition.num_rows + partition.num_columns - 1


@pytest.mark.parametrize(("num_parts", "shape"), [(1, (1, 1)), (4, (2, 2)), (7, (1, 7)), (12, (3, 4)), (16, (4, 4))])
def test_shapes_of_grids(num_parts, shape):
    graph = hr.Graph.from_coo([0], [1], num_nodes=2)
    grid = hr.EdgePartition.grid(graph, num_parts)
    assert (grid.num_rows, grid.num_columns) == shape


def test_edges_are_with_the_owner_of_one_of_their_ends():
    random = torch.Generator().manual_seed(0)
    graph = hr.Graph.from_coo(*torch.randint(50, (2, 400), generator=random), num_nodes=50)
    nodes = hr.Partition.of(torch.randint(5, (50,), generator=random), 5)
    source, destination = ends_of(graph)
    for make, end in ((hr.EdgePartition.by_source, source), (hr.EdgePartition.by_destination, destination)):
        partition = make(graph, nodes)
        assert torch.equal(partition.owner(source, destination), nodes.owner(end))
        assert partition.nodes is nodes


@pytest.mark.parametrize(("num_parts", "rows", "columns"), [(16, 4, 4), (12, 3, 4), (7, 1, 7)])
def test_the_edges_of_a_hub_are_spread_over_a_row_or_a_column(num_parts, rows, columns):
    """A star of 80,000 spokes: 1 / C of the edges with the hub as source, 1 / R as destination, to 5 sigma.

    By source, all edges out of the hub are in one part; by destination, all into it.
    """
    num_spokes = 80_000
    spokes, hub = torch.arange(1, num_spokes + 1), torch.zeros(num_spokes, dtype=torch.int64)
    outward = hr.Graph.from_coo(hub, spokes, num_nodes=num_spokes + 1)
    inward = hr.Graph.from_coo(spokes, hub, num_nodes=num_spokes + 1)
    for graph, lines in ((outward, columns), (inward, rows)):
        largest = max(hr.EdgePartition.grid(graph, num_parts).sizes)
        mean = num_spokes / lines
        assert mean <= largest < mean + 5 * np.sqrt(mean)
    assert max(hr.EdgePartition.by_source(outward, num_parts).sizes) == num_spokes
    assert max(hr.EdgePartition.by_destination(inward, num_parts).sizes) == num_spokes
    assert max(hr.EdgePartition.by_source(inward, num_parts).sizes) < 1.2 * num_spokes / num_parts


@pytest.mark.parametrize("stride", [1, 4, 16])
def test_identity_ids_give_no_skewed_grid(stride):
    """Edges between multiples of the grid's sides, which a grid by remainders would put into one part."""
    random = torch.Generator().manual_seed(0)
    source, destination = torch.randint(20_000, (2, 160_000), generator=random) * stride
    graph = hr.Graph.from_coo(source, destination, num_nodes=20_000 * stride)
    report = hr.EdgePartition.grid(graph, 16).report(graph)
    assert report.edge_balance < 1.1
    assert report.node_balance < 1.1


def test_repr():
    graph = hr.Graph.from_coo([0], [1], num_nodes=3)
    assert repr(hr.EdgePartition.grid(graph, 6)) == "EdgePartition(1 edges, 2 x 3 parts)"
