"""``loader([positions])`` leaves out the links that iterating the loader leaves out."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling

import headrace as hr
from headrace.pyg import LinkNeighborLoader, Sampler

WRITES, REVERSE = ("author", "writes", "paper"), ("paper", "rev_writes", "author")


def pairs_of(edge_index):
    return set(map(tuple, edge_index.t().tolist()))


def test_a_ring():
    ring = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    for exclude, left in ((False, {(0, 1), (1, 2), (3, 0)}), (True, {(3, 0)})):
        for filter_per_worker in (True, False):
            loader = LinkNeighborLoader(
                ring, [-1], exclude_seed_edges=exclude, batch_size=2, filter_per_worker=filter_per_worker
            )
            batch = loader([0, 1])
            assert pairs_of(batch.n_id[batch.edge_index]) == left
            assert pairs_of(batch.n_id[batch.edge_label_index]) == {(0, 1), (1, 2)}


@pytest.mark.parametrize("neg_sampling", [None, "binary", "triplet"])
@pytest.mark.parametrize("exclude", [False, True, "reverse"])
def test_with_negatives(undirected, exclude, neg_sampling):
    loader = LinkNeighborLoader(
        undirected, [-1, -1], exclude_seed_edges=exclude, neg_sampling=neg_sampling, batch_size=40
    )
    positions = torch.arange(0, 120, 3)
    links = pairs_of(undirected.edge_index[:, positions])
    batch = loader(positions)
    edges = pairs_of(batch.n_id[batch.edge_index])
    assert edges.isdisjoint(links) == (exclude is not False)
    assert edges.isdisjoint({(v, u) for u, v in links}) == (exclude == "reverse")
    assert torch.equal(batch.input_id, positions)


@pytest.mark.parametrize("timed", [False, True], ids=["disjoint", "times"])
def test_out_of_their_own_trees(undirected, timed):
    """Those of other links of the batch are there, and negatives have the graph of their link."""
    options = {"disjoint": True}
    if timed:
        undirected.time = torch.zeros(undirected.num_nodes, dtype=torch.int64)
        options = {"time_attr": "time", "edge_label_time": torch.ones(undirected.num_edges, dtype=torch.int64)}
    positions = [*range(40)]
    links = undirected.edge_index[:, positions].t().tolist()
    every = {tuple(link) for link in links}
    met = {}
    for per in ("batch", "seed"):
        loader = LinkNeighborLoader(
            undirected,
            [-1, -1],
            exclude_seed_edges="reverse",
            exclude_per=per,
            neg_sampling=NegativeSampling("binary", 1),
            **options,
        )
        batch = loader(positions)
        met[per] = 0
        for tree, (u, v) in enumerate(links):
            mine = batch.batch[batch.edge_index[1]] == tree
            edges = pairs_of(batch.n_id[batch.edge_index[:, mine]])
            assert not edges & {(u, v), (v, u)}
            met[per] += len(edges & every)
    assert met["batch"] == 0
    assert met["seed"] > 0


def test_of_types(hetero):
    positions = [*range(30)]
    for exclude in (False, {WRITES: REVERSE}):
        loader = LinkNeighborLoader(hetero, [-1, -1], WRITES, exclude_seed_edges=exclude)
        batch = loader(positions)
        links = pairs_of(batch[WRITES].edge_label_index)
        back = pairs_of(batch[REVERSE].edge_index.flip(0))
        assert links.isdisjoint(pairs_of(batch[WRITES].edge_index)) == bool(exclude)
        assert links.isdisjoint(back) == bool(exclude)


def test_a_sampler_tells_exclusions_apart(undirected):
    """What was made for one call is not taken for another, and what does not fit is refused by name."""
    sampler = Sampler(undirected, [-1])
    row, col = undirected.edge_index[:, :40]
    links = EdgeSamplerInput(None, row, col)
    links.input_id = torch.arange(40)
    wanted = pairs_of(undirected.edge_index[:, :40])
    for exclude in (False, True, False, "reverse"):
        out = sampler.sample_from_edges(links, exclude=exclude)
        edges = pairs_of(out.node[torch.stack([out.row, out.col])])
        assert edges.isdisjoint(wanted) == (exclude is not False)
        assert edges.isdisjoint({(v, u) for u, v in wanted}) == (exclude == "reverse")
    with pytest.raises(hr.InputError, match="exclude_seed_edges to be"):
        sampler.sample_from_edges(links, exclude="self")
    both_ways = Sampler(undirected, [-1], "bidirectional")
    with pytest.raises(hr.InputError, match='exclude_seed_edges="reverse"'):
        both_ways.sample_from_edges(links, exclude=True)


def test_a_sampler_of_the_user_is_not_asked_for_exclusion(undirected):
    class Theirs(Sampler):
        def sample_from_edges(self, index, neg_sampling=None):
            return super().sample_from_edges(index, neg_sampling)

    loader = LinkNeighborLoader(undirected, [2], neighbor_sampler=Theirs(undirected, [2]), batch_size=4)
    assert len(loader([3, 1]).input_id) == 2
