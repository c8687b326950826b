"""What the layer-wise samplers and sample_in_subgraph give as plans: blocks, weights, sizes."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import PLANS, graph, items

WEIGHTED_BLOCKS = [name for name in PLANS if name.startswith(("labor_1", "labor_star", "weighted_la", "weighted_pla"))]


@pytest.mark.parametrize("name", [*WEIGHTED_BLOCKS, "ladies", "pladies"])
def test_a_plain_mean_with_the_weights_keeps_constants(name):
    for batch in PLANS[name]().loader():
        for block in batch.blocks:
            assert block.weight is not None
            sums = torch.zeros(block.num_dst).index_add(0, block.edge_index[1], block.weight)
            degrees = block.indptr.diff()
            assert torch.allclose(sums / degrees.clamp(min=1), (degrees > 0).float(), atol=1e-5)


@pytest.mark.parametrize("expand", ["all", "new"])
def test_in_subgraph_is_all_in_edges(expand):
    ours = items().sample_in_subgraph(graph(), num_hops=2, expand=expand).loader()
    theirs = items().sample_neighbor(graph(), [-1, -1], expand=expand).loader()
    for one, other in zip(ours, theirs, strict=True):
        assert one.digest() == other.digest()


def test_in_subgraph_of_one_hop_is_every_edge_into_a_seed():
    degrees = graph().in_degrees()
    for batch in items().sample_in_subgraph(graph()).loader():
        (block,) = batch.blocks
        assert torch.equal(block.indptr.diff(), degrees[batch.n_id[: block.num_dst]])
        assert block.weight is None


@pytest.mark.parametrize("poisson", [False, True])
def test_ladies_layers_have_the_size_asked_for(poisson):
    """Destinations that are drawn are not new, so a hop adds no more; the sources of its edges are that many."""
    drawn = []
    for batch in items().sample_ladies(graph(), [20, 30], poisson=poisson).loader():
        for block, size, new in zip(reversed(batch.blocks), [20, 30], batch.num_sampled_nodes[1:], strict=True):
            num_drawn = len(block.indices.unique())
            assert new <= num_drawn
            assert poisson or num_drawn == size
            drawn.append(num_drawn / size)
    assert abs(sum(drawn) / len(drawn) - 1) < 0.15


def test_importance_saves_nodes_and_costs_edges():
    # What LABOR makes small is the number of nodes where no source has several edges to a destination.
    destinations = torch.arange(graph().num_nodes).repeat_interleave(graph().in_degrees())
    pairs = torch.stack([graph().indices.long(), destinations]).unique(dim=1)
    simple = hr.Graph.from_coo(*pairs, num_nodes=graph().num_nodes)
    totals = {}
    for importance in (0, 1, "*"):
        plan = items(batch_size=50).sample_layer_neighbor(simple, [3, 3], exact=False, importance=importance)
        loader = plan.loader()
        batches = [batch for _ in loader.epochs(20) for batch in loader]
        totals[importance] = (sum(len(batch.n_id) for batch in batches), sum(len(batch.e_id) for batch in batches))
    assert totals["*"][0] < totals[1][0] < totals[0][0]
    assert totals[0][1] < totals[1][1]
    assert totals[0][1] < totals["*"][1]


def test_importance_is_poisson_whatever_exact_says():
    one, other = (
        items().sample_layer_neighbor(graph(), [3], importance=1, exact=exact).loader() for exact in (True, False)
    )
    assert [batch.digest() for batch in one] == [batch.digest() for batch in other]


def test_importance_zero_is_labor_0():
    one = items().sample_layer_neighbor(graph(), [3], importance=0)
    assert one == items().sample_layer_neighbor(graph(), [3])
    assert all(batch.blocks[0].weight is None for batch in one.loader())


def test_dependent_layers_reach_fewer_nodes():
    sizes = []
    for dependent in (False, True):
        plan = items().sample_ladies(graph(), [30, 30], poisson=True, layer_dependency=dependent)
        sizes.append(sum(len(batch.n_id) for batch in plan.loader()))
    assert sizes[1] < sizes[0]


def test_plans_of_layer_samplers_print():
    plan = hr.ItemSampler(10).sample_ladies(graph(), [20], poisson=True).sample_in_subgraph(graph(), num_hops=2)
    assert repr(plan).splitlines()[1:] == [
        f"sample_ladies({graph()}, [20], poisson=True)",
        f"sample_in_subgraph({graph()}, num_hops=2)",
    ]
