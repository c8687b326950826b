"""Clusters and GraphSAINT's subgraphs under PyG's names (peers.md, part A, section 5, 24 and 25)."""

from __future__ import annotations

import sys

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import ClusterLoader as TheirClusterLoader

import headrace as hr
from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
)


def edges_of(batch):
    """Return which edges of the whole graph a batch has, as sorted (source, destination, attribute)."""
    ends = batch.node[batch.edge_index]
    return sorted(zip(ends[0].tolist(), ends[1].tolist(), batch.edge_attr[:, 0].tolist(), strict=True))


@pytest.fixture
def marked(data):
    data.node = torch.arange(data.num_nodes)
    return data


@pytest.mark.parametrize("sparse_format", ["csr", "csc"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_peers_24_clusters(marked, sparse_format, batch_size):
    clusters = ClusterData(marked, num_parts=7, log=False, sparse_format=sparse_format)
    loader = ClusterLoader(clusters, batch_size=batch_size, shuffle=True, seed=2)
    first, second = list(loader), list(loader)
    assert len(first) == len(loader) == -(-7 // batch_size)
    nodes = torch.cat([batch.node for batch in first])
    assert sorted(nodes.tolist()) == list(range(marked.num_nodes)), "each node in one cluster"
    assert [batch.node.tolist() for batch in first] != [batch.node.tolist() for batch in second]
    for batch in first:
        mask = torch.isin(marked.edge_index, batch.node).all(0)
        wanted = zip(*marked.edge_index[:, mask].tolist(), marked.edge_attr[mask, 0].tolist(), strict=True)
        assert edges_of(batch) == sorted(wanted), "all edges among them"
        assert torch.equal(batch.x, marked.x[batch.node])


@pytest.mark.parametrize("sparse_format", ["csr", "csc"])
def test_peers_24_as_pygs_own_loader(marked, sparse_format):
    clusters = ClusterData(marked, num_parts=5, log=False, sparse_format=sparse_format)
    ours, theirs = ClusterLoader(clusters, batch_size=2), TheirClusterLoader(clusters, batch_size=2)
    for left, right in zip(ours, theirs, strict=True):
        assert set(left.keys()) == set(right.keys())
        assert torch.equal(left.node, right.node)
        assert edges_of(left) == edges_of(right)


@pytest.mark.parametrize("keep", [False, True])
def test_peers_24_single_clusters(marked, keep):
    clusters = ClusterData(marked, num_parts=4, log=False, keep_inter_cluster_edges=keep)
    assert len(clusters) == 4
    inside = sum(one.edge_index.shape[1] for one in clusters)
    assert inside == marked.num_edges if keep else inside < marked.num_edges


def test_peers_24_kept_on_disk(marked, tmp_path, monkeypatch):
    first = ClusterData(marked, num_parts=4, log=False, save_dir=str(tmp_path))
    monkeypatch.setitem(sys.modules, "pymetis", None)  # so that parts made anew would be others, with a warning
    again = ClusterData(marked, num_parts=4, log=False, save_dir=str(tmp_path))
    assert torch.equal(first.partition.node_perm, again.partition.node_perm)


@pytest.mark.parametrize(
    ("edges", "num_nodes", "num_parts"), [([[0], [1]], 2, 2), ([[], []], 5, 3), ([[0, 1, 2], [1, 2, 0]], 3, 3)]
)
def test_peers_24_tiny_graphs(edges, num_nodes, num_parts):
    edge_index = torch.tensor(edges, dtype=torch.int64)
    tiny = Data(edge_index=edge_index, edge_attr=torch.zeros(edge_index.shape[1], 1), node=torch.arange(num_nodes))
    tiny.num_nodes = num_nodes
    batches = list(ClusterLoader(ClusterData(tiny, num_parts, log=False)))
    assert sorted(torch.cat([batch.node for batch in batches]).tolist()) == list(range(num_nodes))


def test_peers_24_without_metis(marked, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.warns(UserWarning, match="pymetis is not installed"):
        clusters = ClusterData(marked, num_parts=4, log=False)
    assert len(list(ClusterLoader(clusters))) == 4


SAINT = {
    "node": lambda data, **options: GraphSAINTNodeSampler(data, 30, num_steps=6, seed=1, **options),
    "edge": lambda data, **options: GraphSAINTEdgeSampler(data, 20, num_steps=6, seed=1, **options),
    "walk": lambda data, **options: GraphSAINTRandomWalkSampler(data, 10, 2, num_steps=6, seed=1, **options),
}
MOST_NODES = {"node": 30, "edge": 40, "walk": 30}
pytestmark = pytest.mark.filterwarnings("ignore:sample_saint_")


@pytest.mark.parametrize("name", SAINT)
def test_peers_25_saint(marked, name):
    loader = SAINT[name](marked, sample_coverage=50)
    assert len(loader) == len(list(loader)) == 6
    assert loader.node_norm.shape == (marked.num_nodes,)
    assert loader.edge_norm.shape == (marked.num_edges,)
    batches = list(loader)
    for batch in batches:
        assert 0 < batch.num_nodes <= MOST_NODES[name]
        assert len(batch.node.unique()) == batch.num_nodes
        mask = torch.isin(marked.edge_index, batch.node).all(0)
        wanted = zip(*marked.edge_index[:, mask].tolist(), marked.edge_attr[mask, 0].tolist(), strict=True)
        assert edges_of(batch) == sorted(wanted)
        for norm in (batch.node_norm, batch.edge_norm):
            assert norm.isfinite().all()
            assert (norm > 0).all()
        assert torch.equal(batch.node_norm, loader.node_norm[batch.node])
        number = (batch.edge_attr[:, 0] / 2).long()
        assert torch.equal(batch.edge_norm, loader.edge_norm[number])
    assert [batch.node.tolist() for batch in loader] != [batch.node.tolist() for batch in batches]
    assert "node_norm" not in next(iter(SAINT[name](marked)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAINT)
def test_peers_25_norms_are_unbiased(undirected, name):
    """The mean over nodes, and over the in-neighbours of each, are those of the whole graph on average."""
    size = undirected.num_nodes
    undirected.node = torch.arange(size)
    kinds = {
        "node": lambda: GraphSAINTNodeSampler(undirected, 60, num_steps=400, sample_coverage=1, seed=2),
        "edge": lambda: GraphSAINTEdgeSampler(undirected, 40, num_steps=400, sample_coverage=1, seed=2),
        "walk": lambda: GraphSAINTRandomWalkSampler(undirected, 20, 2, num_steps=400, sample_coverage=200, seed=2),
    }
    loader = kinds[name]()
    value = 1 + torch.rand(size, generator=torch.Generator().manual_seed(0))
    source, destination = undirected.edge_index
    degree = torch.bincount(destination, minlength=size)
    means, sums, visits = [], torch.zeros(size), torch.zeros(size)
    for batch in loader:
        means.append((batch.node_norm * value[batch.node]).sum())
        source_here, destination_here = batch.node[batch.edge_index]
        message = batch.edge_norm / degree[destination_here] * value[source_here]
        sums.index_add_(0, destination_here, message)
        visits[batch.node] += 1
    wanted = value[loader.node_norm > 0].sum() / size
    assert torch.stack(means).mean() == pytest.approx(float(wanted), rel=0.03)
    often = (visits > 40) & (degree > 0)
    mean_of = torch.zeros(size).index_add_(0, destination, value[source]) / degree
    assert often.sum() > 60
    assert (sums / visits)[often].mean() == pytest.approx(float(mean_of[often].mean()), rel=0.03)


def test_peers_25_norms_on_disk(marked, tmp_path):
    first = SAINT["walk"](marked, sample_coverage=10, save_dir=str(tmp_path))
    path = tmp_path / "graphsaintrandomwalksampler_2_10.pt"
    node_norm, edge_norm, *others = torch.load(path)
    assert torch.equal(first.node_norm, node_norm)
    assert torch.equal(first.edge_norm, edge_norm)
    torch.save((node_norm + 1, edge_norm + 1, *others), path)
    again = SAINT["walk"](marked, sample_coverage=10, save_dir=str(tmp_path))
    assert torch.equal(again.node_norm, node_norm + 1)
    assert torch.equal(again.edge_norm, edge_norm + 1)


@pytest.mark.parametrize("kind", ["edge", "walk"])
def test_norms_of_something_else_are_refused(marked, tmp_path, kind):
    kept = {"sample_coverage": 10, "save_dir": str(tmp_path)}
    SAINT[kind](marked, **kept)
    other = marked.clone()
    # The same graph with other edge ids, which are in no order either.
    other.edge_index = marked.edge_index[:, marked.edge_index[1].argsort(stable=True, descending=True)]
    with pytest.raises(hr.InputError, match="of another graph; delete the file"):
        SAINT[kind](other, **kept)
    larger = {"edge": GraphSAINTEdgeSampler, "walk": lambda *args, **kw: GraphSAINTRandomWalkSampler(*args, 2, **kw)}
    with pytest.raises(hr.InputError, match="of another batch_size"):
        larger[kind](marked, 7, **kept)
    path = next(tmp_path.iterdir())
    torch.save(torch.load(path)[:2], path)  # as PyG writes it
    with pytest.raises(hr.InputError, match="without what its norms are of"):
        SAINT[kind](marked, **kept)


def test_peers_25_roots_of_walks(marked):
    """All nodes are roots equally often, whatever the number of steps."""
    nodes = torch.arange(marked.num_nodes)
    alone = Data(node=nodes, edge_index=torch.stack([nodes, nodes]))  # walks stay where they begin
    loader = GraphSAINTRandomWalkSampler(alone, 40, walk_length=1, num_steps=2, seed=3)
    roots = [batch.node for _ in range(3) for batch in loader]
    assert torch.bincount(torch.cat(roots)).tolist() == [2] * marked.num_nodes
