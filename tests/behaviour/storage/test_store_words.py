"""Look-ups in a store itself, and features of a whole graph beside one with some of its edges."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

STORE = hr.FeatureStore(
    node={"feat": torch.ones(2, 1), "paper": {"x": torch.ones(2, 1)}}, edge={"w": torch.ones(2), "both": torch.ones(2)}
)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("feat", r"store\.node\['feat'\]"),
        ("w", r"store\.edge\['w'\]"),
        ("other", r"store\.node\['other'\]"),
        (("paper", "x"), r"store\.node\['paper', 'x'\]"),
        (("node", "paper", "x"), r"store\.node\['paper', 'x'\]"),
        (("edge", None, "w"), r"store\.edge\['w'\]"),
        (0, r"store\.node\['x'\]"),
        ([0], r"store\.node\['x'\]"),
    ],
)
def test_a_look_up_names_the_one_by_domain(key, written):
    with pytest.raises(hr.PlanError, match=rf"^FeatureStore: .*; write {written}$") as caught:
        STORE[key]
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("feat", r"write store\.node\['feat'\]"),
        ("w", r"write store\.edge\['w'\]"),
        ("read", r"\.read\(ids\)\.rows"),
        ("keys", r"list\(store\.node\)"),
        ("chek", r"did you mean check\?"),
    ],
)
def test_attributes(name, written):
    assert not hasattr(STORE, name)
    with pytest.raises(AttributeError, match=rf"a FeatureStore has no attribute '{name}'; .*{written}"):
        getattr(STORE, name)


@pytest.mark.parametrize(
    ("name", "words"),
    [("edge_index", r"graph\.indptr"), ("ndata", r"hr\.FeatureStore\("), ("num_node", r"did you mean num_nodes\?")],
)
def test_attributes_of_a_graph(name, words):
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    for one in (graph, graph.shard(hr.Partition.hash(2, 2), 0)):
        with pytest.raises(AttributeError, match=rf"^a Graph\w* has no attribute '{name}'; .*{words}"):
            getattr(one, name)


def test_features_of_all_edges_beside_those_of_a_split():
    """The remedy that the error names is the feature of the whole graph."""
    ends = torch.arange(40)
    graph = hr.Graph.from_coo(ends, ends.roll(1))
    rows, split = torch.arange(40.0), hr.split_links(graph, val=0.2, test=0.2)
    plan = hr.ItemSampler(40).sample_neighbor(split.graphs["train"], [-1])
    words = r"got 40 rows; .*hr\.FeatureStore\(edge=\{'w': rows\[split\.edges\[part\]\]\}\)"
    with pytest.raises(hr.InputError, match=words):
        plan.fetch_feature(hr.FeatureStore(edge={"w": rows}), edge=["w"]).loader()
    store = hr.FeatureStore(edge={"w": rows[split.edges["train"]]})
    batch = next(iter(plan.fetch_feature(store, edge=["w"]).loader()))
    block = batch.blocks[0]
    destinations = batch.n_id[block.edge_index[1]]
    assert torch.equal(graph.indptr.new_tensor(batch.edge["w"][0].tolist()), (destinations + 1) % 40)
