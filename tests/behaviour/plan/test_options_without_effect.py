"""Options that can have no effect where they stand are refused, with what would let them have one."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import NUM_NODES, graph, items, timed_graph


def test_a_name_of_times_that_no_sampler_goes_by():
    """Its seeds would find what is later than they are."""
    seeds = hr.ItemSampler(50, batch_size=10, seed=1, time="time")
    for plan in (seeds, seeds.sample_neighbor(timed_graph(), [2]), seeds.sample_pinsage(timed_graph(), 2, 3, 2)):
        with pytest.raises(hr.InputError, match="item_sampler: expected a sampler with time='time' behind seeds with"):
            plan.loader()
    assert list(seeds.sample_neighbor(timed_graph(), [2], time="time").loader())
    array = hr.ItemSampler(50, batch_size=50, time=torch.arange(50))  # which a loss may read
    (batch,) = array.sample_neighbor(graph(), [2]).loader()
    assert batch.seed_time.tolist() == batch.item_index.tolist()


@pytest.mark.parametrize("time", ["time", torch.arange(50)], ids=["name", "array"])
@pytest.mark.parametrize("verb", ["sample_saint_node", "sample_saint_walk"])
def test_times_of_items_whose_subgraphs_have_other_seeds(verb, time):
    plan = getattr(hr.ItemSampler(50, time=time), verb)(timed_graph(), 3, norms=False)
    with pytest.raises(hr.PlanError, match=f"{verb}: expected items without times"):
        plan.loader()


def test_a_boundary_where_nothing_goes_there():
    clusters = hr.Partition.hash(NUM_NODES, 4)
    for chain in (lambda plan: plan, lambda plan: plan.induce_subgraph(graph())):
        with pytest.raises(hr.PlanError, match=r"expected a sampler behind it.* boundary=2.*num_hops=2"):
            chain(hr.ClusterSampler(clusters, boundary=2)).loader()
        for boundary in (0, None):
            assert list(chain(hr.ClusterSampler(clusters, boundary=boundary)).loader())


def test_what_other_arguments_would_give_an_effect_stays():
    """One function makes a plan for training, and with all neighbours for validation."""
    for fanouts in ([-1, -1], [-1, 4], [3]):
        assert len(items().sample_neighbor(graph(), fanouts, replace=True, expand="new").loader()) > 1
        options = {"layer_dependency": True, "batch_dependency": 4, "exact": False}
        assert len(items().sample_layer_neighbor(graph(), fanouts, **options).loader()) > 1
        assert len(items().sample_ladies(graph(), fanouts, poisson=True, layer_dependency=True).loader()) > 1
