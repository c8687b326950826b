"""Edges of the whole graph and of one's own part: features of edges have a row for each of the former."""

from __future__ import annotations

import pytest
import torch
from ranks import partition, run_ranks

import headrace as hr

from plans import graph, items


def refused(comm: hr.Comm, one: hr.Graph, features: hr.FeatureStore) -> bool:
    plan = items().sample_neighbor(one, [2])
    expected = f"edge feature 'e' to have a row for each of the graph's {graph().num_edges} edges"
    with pytest.raises(hr.InputError, match=expected):
        plan.fetch_feature(features, edge=["e"]).loader(comm=comm)
    return True


@pytest.mark.parametrize("kind", ["hash", "range", "table"])
def test_a_part_knows_the_edges_of_all(kind):
    owners, whole = partition(kind, 3), graph()
    shards = [whole.shard(owners, part) for part in range(3)]
    assert (whole.num_edges, whole.num_local_edges) == (len(whole.indices), len(whole.indices))
    for one in shards:
        assert (one.num_edges, one.num_local_edges) == (whole.num_edges, len(one.indices))
        assert len(one.edge_ids) == one.num_local_edges < whole.num_edges
    assert sum(one.num_local_edges for one in shards) == whole.num_edges


def test_reports_are_of_whole_graphs():
    owners = partition("hash", 3)
    with pytest.raises(hr.InputError, match="expected a whole graph"):
        owners.report(graph().shard(owners, 0))
    with pytest.raises(hr.InputError, match="expected a whole graph"):
        hr.EdgePartition.by_source(graph().shard(owners, 0), 3)


@pytest.mark.parametrize("missing", ["one", "those of other parts", "none, and one more"])
def test_edge_features_of_another_length_are_refused_over_shards(missing):
    owners, num_edges = partition("hash", 3), graph().num_edges

    def work(comm: hr.Comm) -> bool:
        shard = graph().shard(owners, comm.rank)
        rows = {"one": num_edges - 1, "those of other parts": shard.num_local_edges}.get(missing, num_edges + 1)
        return refused(comm, shard, hr.FeatureStore(edge={"e": torch.zeros(rows, 2)}))

    assert run_ranks(3, work) == [True] * 3
