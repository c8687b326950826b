"""GraphSAINT stages: the batch is the subgraph on what was drawn, and its norms make it stand for the whole graph."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from saint_graphs import NUM_NODES, bound, ring

import headrace as hr

from contracts import digests
from plans import graph, items, store

pytestmark = pytest.mark.slow

LOSS_WEIGHT = "loss_weight"

SAMPLERS = {
    "node": {"budget": 12},
    "edge": {"budget": 8},
    "walk": {"walk_length": 2, "num_samples": 3_000},
}
each = pytest.mark.parametrize("by", SAMPLERS)


def roots(**changes):
    return hr.ItemSampler(NUM_NODES, **{"batch_size": 6, "shuffle": True, "seed": 4, **changes})


@each
def test_a_batch_is_an_induced_subgraph(by):
    src, dst, subject = ring()
    features = hr.FeatureStore(node={"x": torch.arange(NUM_NODES) * 2.0, "y": torch.arange(NUM_NODES)})
    plan = roots().sample_saint(subject, by, **SAMPLERS[by]).fetch_feature(features, node=["x"], labels="y")
    loader = plan.loader()
    for batch in loader:
        (block,) = batch.blocks
        assert len(batch.n_id.unique()) == len(batch.n_id) == block.num_src == block.num_dst
        here = torch.isin(src, batch.n_id) & torch.isin(dst, batch.n_id)
        assert torch.equal(batch.e_id.sort().values, here.nonzero().reshape(-1))
        ends = batch.n_id[block.edge_index]
        assert torch.equal(ends, torch.stack([src[batch.e_id], dst[batch.e_id]]))
        assert torch.equal(batch.seeds, batch.n_id)
        assert torch.equal(batch.n_id[batch.seed_index], batch.seeds)
        assert torch.equal(batch.y, batch.n_id)
        assert torch.equal(batch.x, batch.n_id * 2.0)
        assert (batch.item_index == -1).all()
        assert batch.num_sampled_nodes == (len(batch.n_id), 0)
        assert batch.num_sampled_edges == (block.num_edges,)
        assert batch.num_global_seeds == len(batch.n_id)
        assert batch.node[LOSS_WEIGHT].dtype == torch.float32
        assert block.weight is not None
        assert bool((block.weight > 0).all())
    assert "sample_saint" in str(loader.stats())


@each
def test_the_whole_batch_reaches_pyg(by):
    pytest.importorskip("torch_geometric")
    batch = next(iter(roots().sample_saint(ring()[2], by, **SAMPLERS[by]).loader()))
    data = batch.to_pyg()
    assert data.validate()
    assert data.batch_size == data.num_nodes == len(batch.n_id)
    assert torch.equal(data[LOSS_WEIGHT], batch.node[LOSS_WEIGHT])


@each
def test_norms_are_unbiased(by):
    """Sums over about 2,000 subgraphs against the whole graph's means, within 5 standard errors.

    What is averaged grows with the in-degree of a node or of its out-neighbours, so that without norms it is off by
    more than 5. Walk norms are estimated themselves, from 3,000 subgraphs: their error adds 2 / 3 to the variance.
    """
    src, dst, subject = ring()
    plan = roots().sample_saint(subject, by, **SAMPLERS[by])
    value = torch.bincount(src, minlength=NUM_NODES).double() + torch.linspace(0, 1, NUM_NODES)
    in_degrees = subject.in_degrees().double()
    pooled = torch.zeros(NUM_NODES, dtype=torch.float64).index_add_(0, dst, value[src]) / in_degrees
    losses, plain_losses, means, plain_means = [], [], [], []
    for _ in (loader := plan.loader(prefetch=False)).epochs(200):
        for batch in loader:
            (block,) = batch.blocks
            weight = batch.node[LOSS_WEIGHT].double()
            losses.append((weight * value[batch.n_id]).sum().item())
            plain_losses.append(value[batch.n_id].mean().item())
            sources, destinations = block.edge_index
            here = block.indptr.diff().clamp(min=1).double()
            messages = value[batch.n_id][sources]
            mean = torch.zeros_like(here).index_add_(0, destinations, messages * block.weight) / here
            plain = torch.zeros_like(here).index_add_(0, destinations, messages) / here
            means.append((weight * mean).sum().item())
            plain_means.append((weight * plain).sum().item())

    def off(samples, truth):
        return abs(np.mean(samples) - truth) / (np.std(samples) / np.sqrt(len(samples)))

    slack = np.sqrt(1 + 2 / 3) if by == "walk" else 1
    assert off(losses, value.mean().item()) < 5 * slack
    assert off(means, pooled.mean().item()) < 5 * slack
    assert off(plain_losses, value.mean().item()) > 5
    assert off(plain_means, pooled.mean().item()) > 5


@each
def test_norms_do_not_depend_on_threads(by):
    """On a new graph each, so that nothing is kept from the loader before."""
    one, two = (roots().sample_saint(ring()[2], by, **SAMPLERS[by]).loader(num_threads=n) for n in (1, 4))
    assert digests(one, 1) == digests(two, 1)


def test_items_of_draws_only_count_batches():
    """Which nodes the node and edge samplers draw depends on seed, epoch and index alone."""
    for by, budget in (("node", 12), ("edge", 8)):
        one = roots().sample_saint(ring()[2], by, budget=budget).loader()
        other = hr.ItemSampler(30, batch_size=3, seed=4).sample_saint(ring()[2], by, budget=budget).loader()
        assert digests(one, 2) == digests(other, 2)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("node", r"5 of 50 nodes are never drawn, as they have no out-edges.*50 / 45"),
        ("edge", r"2 of 50 nodes are never drawn, as they have no edges.*50 / 48"),
    ],
)
def test_nodes_that_are_never_drawn_are_reported_once(by, expected):
    subject = bound(loops=False)
    plan = roots().sample_saint(subject, by, budget=10)
    with pytest.warns(UserWarning, match=f"sample_saint: {expected}") as caught:
        loader = plan.loader(prefetch=False)
    assert len(caught) == 1
    # The estimate is that of the sum over all others, divided by num_nodes: what is said of the factor is so.
    total = sum(batch.node[LOSS_WEIGHT].sum().item() for _ in loader.epochs(100) for batch in loader)
    share = {"node": 45 / 50, "edge": 48 / 50}[by]
    assert total / (100 * len(loader)) == pytest.approx(share, rel=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan.loader()
        roots(seed=8).sample_saint(subject, by, budget=10).loader()
        roots().sample_saint(bound(loops=True), by, budget=10).loader()
        roots().sample_saint(bound(loops=False), by, budget=10, norms=False).loader()


def test_roots_that_do_not_reach_all_nodes_are_reported():
    plan = hr.ItemSampler(40, batch_size=6, shuffle=True, seed=4)
    plan = plan.sample_saint(bound(loops=False), "walk", walk_length=2, num_samples=200)
    with pytest.warns(UserWarning, match=r"of 50 nodes .* items from which walks reach every node"):
        plan.loader()


def test_without_norms():
    batch = next(iter(roots().sample_saint(ring()[2], "edge", budget=5, norms=False, edge_ids=False).loader()))
    assert LOSS_WEIGHT not in batch.node
    assert batch.blocks[0].weight is None
    assert batch.blocks[0].edge_ids is None


def test_refusals():
    with pytest.raises(hr.InputError, match="Graph, got int; make one"):
        items().sample_saint(3, "node", budget=5)
    with pytest.raises(hr.InputError, match="sample_saint: the graph has no edges"):
        items().sample_saint(hr.Graph.from_coo([], [], num_nodes=4), "edge", budget=5)
    for by, name in (("node", "budget"), ("edge", "budget"), ("walk", "walk_length")):
        with pytest.raises(hr.InputError, match=f"sample_saint: expected {name} to be"):
            items().sample_saint(graph(), by, **{name: 0})
        with pytest.raises(hr.InputError, match=f"sample_saint: expected {name}= for '{by}', got none"):
            items().sample_saint(graph(), by)
    with pytest.raises(hr.InputError, match="expected by to be 'node', 'edge' or 'walk', got 'nodes'"):
        items().sample_saint(graph(), "nodes", budget=5)
    with pytest.raises(hr.InputError, match="expected walk_length for 'walk' alone, got it for 'node'"):
        items().sample_saint(graph(), "node", budget=5, walk_length=2)
    with pytest.raises(hr.InputError, match="expected budget for 'node' and 'edge' alone, got it for 'walk'"):
        items().sample_saint(graph(), "walk", budget=5, walk_length=2)
    with pytest.raises(hr.InputError, match="expected num_samples for 'walk' alone, got it for 'edge'"):
        items().sample_saint(graph(), "edge", budget=5, num_samples=3)
    with pytest.raises(hr.InputError, match="num_samples"):
        items().sample_saint(graph(), "walk", walk_length=2, num_samples=1.5)
    with pytest.raises(hr.InputError, match="item 200 is not"):
        hr.ItemSampler(201).sample_saint(graph(), "walk", walk_length=2, norms=False).loader()
    with pytest.raises(hr.PlanError, match="cannot be cut into shares"):
        items().sample_saint(graph(), "node", budget=5).loader(rank=0, world_size=2)
    labelled = hr.ItemSampler((torch.arange(5), torch.arange(5)))
    with pytest.raises(hr.PlanError, match="labels belong to its items"):
        labelled.sample_saint(graph(), "node", budget=5).loader()
    with pytest.raises(hr.InputError, match="'z'"):
        items().sample_saint(graph(), "node", budget=5).fetch_feature(store(), node=["z"])


def test_labels_are_those_of_any_node():
    """Seeds are nodes of the subgraph, so the source may hold pairs, and labels must reach to the last node."""
    pairs = hr.ItemSampler(torch.zeros(3, 2, dtype=torch.int64), seed=1).sample_saint(graph(), "node", budget=5)
    batch = next(iter(pairs.fetch_feature(store(), labels="y").loader()))
    assert torch.equal(batch.y, store().node["y"].read(batch.n_id).rows)
    short = hr.FeatureStore(node={"y": torch.zeros(graph().num_nodes - 1)})
    with pytest.raises(hr.InputError, match="199 rows"):
        hr.ItemSampler(3).sample_saint(graph(), "node", budget=5).fetch_feature(short, labels="y").loader()


def test_a_plan_prints_what_is_no_default():
    plan = items().sample_saint(graph(), "node", budget=40, norms=False)
    assert repr(plan).splitlines()[1] == f"sample_saint({graph()}, 'node', budget=40, norms=False)"


def test_torchdata_sources():
    nodes = pytest.importorskip("torchdata.nodes")
    batches = [torch.tensor([1, 2]), torch.tensor([5])]
    source = hr.ext.NodeSource(nodes.IterableWrapper(batches), seed=1)
    assert len(list(source.sample_saint(graph(), "node", budget=5).loader())) == 2
    assert len(list(source.sample_saint(graph(), "walk", walk_length=2, norms=False).loader())) == 2
    with pytest.raises(hr.PlanError, match="norms=False"):
        source.sample_saint(graph(), "walk", walk_length=2).loader()
    labelled = hr.ext.NodeSource(nodes.IterableWrapper([(torch.tensor([1]), torch.tensor([0]))]))
    with pytest.raises(hr.PlanError, match="labels belong"):
        list(labelled.sample_saint(graph(), "node", budget=5).loader())
