"""All stages of a plan that know of nodes know of the same ones; their edges may differ."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import NODE_TYPES, NUM_NODES, edges, graph, store, typed_graph

OTHER = hr.Graph.from_coo([0], [1], num_nodes=NUM_NODES + 300)
SMALLER = hr.Graph.from_coo([0], [1], num_nodes=NUM_NODES - 10)
PAIRS = torch.tensor([[0, 1], [2, 3], [1, 2]])
RENAMED = {"a": 120, "c": 70, "lonely": 10}
MOVED = {"a": 110, "b": 80, "lonely": 10}


def pairs():
    return hr.ItemSampler(PAIRS, seed=0)


def of_types(counts):
    return hr.Graph.from_coo([0], [1], node_types=counts)


SAMPLERS = {
    "neighbor": lambda plan, one: plan.sample_neighbor(one, [2]),
    "trees": lambda plan, one: plan.sample_layer_neighbor(one, [2], disjoint=True),
    "ladies": lambda plan, one: plan.sample_ladies(one, [5]),
    "in_subgraph": lambda plan, one: plan.sample_in_subgraph(one),
    "shadow": lambda plan, one: plan.sample_shadow(one, 1, 2),
    "pinsage": lambda plan, one: plan.sample_pinsage(one, 2, 2, 2),
}


@pytest.mark.parametrize("other", [OTHER, SMALLER], ids=["more nodes", "fewer nodes"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_negatives_of_another_graph(name, other):
    with pytest.raises(
        hr.InputError, match=r"expected the \d+ nodes that sample_uniform_negative has by its graph, got"
    ):
        SAMPLERS[name](pairs().sample_uniform_negative(other, 1), graph()).loader()


@pytest.mark.parametrize("other", [OTHER, SMALLER], ids=["more nodes", "fewer nodes"])
def test_subgraphs_of_another_graph(other):
    plan = pairs().sample_neighbor(graph(), [2], expand="new").induce_subgraph(other)
    with pytest.raises(hr.InputError, match="induce_subgraph: expected the 200 nodes that sample_neighbor has"):
        plan.loader()


@pytest.mark.parametrize("options", [{}, {"fuse_sampling": False}], ids=str)
def test_clusters_of_another_graph(options):
    source = hr.ClusterSampler(hr.Partition.hash(NUM_NODES + 1, 4), 1)
    with pytest.raises(hr.InputError, match="graph's 200 nodes, got one of 201"):
        source.sample_in_subgraph(graph()).loader(**options)
    with pytest.raises(hr.InputError, match="graph's 200 nodes, got one of 500"):
        hr.GlobalBatch(OTHER).sample_in_subgraph(graph()).loader(**options)


def test_a_partition_of_items_of_another_graph():
    plan = hr.ItemSampler(10, partition=hr.Partition.hash(NUM_NODES + 1, 2)).sample_neighbor(graph(), [2])
    with pytest.raises(hr.InputError, match="expected item_sampler to be of the graph's 200 nodes, got one of 201"):
        plan.loader()


@pytest.mark.parametrize("counts", [RENAMED, MOVED], ids=["other names", "other counts"])
def test_other_types_of_as_many_nodes(counts):
    plan = pairs().sample_uniform_negative(of_types(counts), 1).sample_neighbor(typed_graph(), [2])
    with pytest.raises(
        hr.InputError, match="sample_neighbor: expected the node types that sample_uniform_negative has"
    ):
        plan.loader()


def test_other_edges_of_the_same_nodes():
    """Negatives are no edges of the whole graph, where a part of it is sampled; edge features are those of the part."""
    kept = torch.arange(100)
    part = hr.Graph.from_coo(*edges()[kept].t().contiguous(), num_nodes=NUM_NODES)
    features = hr.FeatureStore(edge={"e": torch.randn(100, 2)}, node={"x": torch.randn(NUM_NODES, 2)})
    plan = hr.ItemSampler(edges()[:60], batch_size=20, seed=0).sample_uniform_negative(graph(), 1, reject=True)
    plan = plan.exclude_seed_edges().sample_neighbor(part, [3]).fetch_feature(features, node=["x"], edge=["e"])
    for batch in plan.loader():
        assert torch.equal(batch.edge["e"][0], features.edge["e"].read(batch.blocks[0].edge_ids).rows)
    with pytest.raises(hr.InputError):
        pairs().sample_uniform_negative(part, 1).sample_neighbor(part, [3]).fetch_feature(store(), edge=["e"]).loader()


def test_a_graph_without_its_types_has_the_same_nodes():
    plan = pairs().sample_uniform_negative(typed_graph().untyped(), 1).sample_neighbor(typed_graph(), [2])
    assert [batch.num_positives for batch in plan.loader()] == [3]
    assert of_types(NODE_TYPES).num_nodes == NUM_NODES
    assert list(pairs().sample_uniform_negative(of_types(NODE_TYPES), 1).sample_neighbor(typed_graph(), [2]).loader())


def test_a_stage_of_ones_own_is_asked_for_its_graph():
    class Own(hr.ext.MapStage):
        name = "own"
        graph = OTHER

        def runner(self, settings):
            return lambda batch: (batch, {})

    with pytest.raises(
        hr.InputError, match="own: expected the 200 nodes that sample_neighbor has by its graph, got 500"
    ):
        pairs().sample_neighbor(graph(), [2]).then(Own()).loader()
