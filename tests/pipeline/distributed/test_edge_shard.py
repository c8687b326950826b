"""The edges that ranks hold, and the routes to those who hold others."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from hybrid import KINDS
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.pipeline.distributed.edge_shard import EdgeShard, edge_shard

from strategies import edge_lists

kinds = st.sampled_from(sorted(KINDS))


def shards_of(partition: hr.EdgePartition) -> list[EdgeShard]:
    return [EdgeShard.of(partition, part) for part in range(partition.num_parts)]


@given(edge_lists(min_nodes=1), kinds, st.integers(1, 13))
def test_every_edge_is_in_one_shard_and_masters_know_where(edges, kind, num_parts):
    graph = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    partition = KINDS[kind](graph, num_parts)
    shards = shards_of(partition)
    assert torch.cat([shard.positions for shard in shards]).sort().values.tolist() == list(range(graph.num_edges))
    holding: dict[int, set[int]] = {}
    for part, shard in enumerate(shards):
        hop = shard.in_edges(shard.nodes)
        assert torch.equal(hop.positions, shard.positions)
        assert torch.equal(hop.neighbors, graph.indices[shard.positions])
        rows = torch.searchsorted(graph.indptr, shard.positions, right=True) - 1
        assert torch.equal(shard.nodes.repeat_interleave(hop.indptr.diff()), rows)
        for node in shard.nodes.tolist():
            holding.setdefault(node, set()).add(part)
    for part, shard in enumerate(shards):
        owned = partition.nodes.owned(part).flip(0)
        holders = shard.who_holds(owned)
        found: dict[int, list[int]] = {node: [] for node in owned.tolist()}
        for row, rank in zip(holders.rows.tolist(), holders.ranks.tolist(), strict=True):
            found[owned[row].item()].append(rank)
        assert found == {node: sorted(holding.get(node, ())) for node in owned.tolist()}


@given(edge_lists(min_nodes=1), kinds, st.integers(1, 13))
def test_copies_of_nodes_are_within_the_bound_of_the_grid(edges, kind, num_parts):
    """Ranks that hold an edge of a node, and its master: at most R + C - 1 of them, as the report counts them."""
    graph = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    partition = KINDS[kind](graph, num_parts)
    copies = torch.zeros(graph.num_nodes, num_parts, dtype=torch.bool)
    for part, shard in enumerate(shards_of(partition)):
        copies[shard.nodes, part] = True
        copies[shard.indices.long(), part] = True
        copies[partition.nodes.owned(part), part] = True
    assert int(copies.sum(1).max()) <= partition.num_rows + partition.num_columns - 1
    assert copies.sum(0).tolist() == partition.report(graph).copies.tolist()


def test_edges_between_two_nodes_stay_in_their_order():
    graph = hr.Graph.from_coo([0, 1, 0, 1, 0], [1, 1, 1, 1, 1], num_nodes=2)
    shard = EdgeShard.of(hr.EdgePartition.by_source(graph, hr.Partition.range(2, 2)), 0)
    assert graph.indices[shard.in_edges(torch.tensor([1])).positions].tolist() == [0, 0, 0]
    assert shard.who_holds(torch.tensor([0])).rows.tolist() == []


def test_a_shard_is_made_once_and_goes_with_its_partition():
    graph = hr.Graph.from_coo([0, 1], [1, 0], num_nodes=2)
    partition = hr.EdgePartition.grid(graph, 2)
    shard = edge_shard(partition, 1)
    assert edge_shard(partition, 1) is shard
    assert edge_shard(partition, 0) is not shard
    gone = weakref.ref(partition)
    del partition
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("num_spokes", [4000])
def test_a_hub_is_spread_over_a_row_or_a_column(num_spokes):
    """Of a star: 1 / C of the edges with the hub as source, 1 / R as destination; by one end all edges of that end."""
    spokes, hub = torch.arange(1, num_spokes + 1), torch.zeros(num_spokes, dtype=torch.int64)
    outward = hr.Graph.from_coo(hub, spokes, num_nodes=num_spokes + 1)
    inward = hr.Graph.from_coo(spokes, hub, num_nodes=num_spokes + 1)

    def largest(kind: str, graph: hr.Graph) -> int:
        return max(len(shard.positions) for shard in shards_of(KINDS[kind](graph, 6)))

    for graph, lines in ((outward, 3), (inward, 2)):
        mean = num_spokes / lines
        assert mean <= largest("grid", graph) < mean + 5 * mean**0.5
    assert largest("by_source", outward) == largest("by_destination", inward) == num_spokes
