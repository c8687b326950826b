"""Names of PyG, DGL and GraphBolt that do not exist: what errors name in their place does."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import graph


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CPUCachedFeature", r"hr\.CachedFeature\(source, \.\.\.\)"),
        ("GPUCachedFeature", r'hr\.CachedFeature\(source, place="cuda"\)'),
        ("TorchBasedFeature", r"hr\.FeatureStore\("),
        ("load_dataset", r"headrace convert .* hr\.open_dataset"),
        ("BuiltinDataset", r"headrace convert .* hr\.open_dataset"),
        ("OnDiskDataset", r"headrace convert .* hr\.open_dataset"),
        ("RandomLinkSplit", r"hr\.split_links"),
        ("FusedCSCSamplingGraph", r"hr\.Graph\.from_dgl"),
        ("HeteroItemSet", r"hr\.ItemSampler\(\{"),
        ("DataLoader", r"call \.loader\(\) on a plan"),
        ("Data", r"hr\.Graph\.from_pyg"),
        ("to_hetero", r"hr\.nn\.HeteroConv"),
        ("SAGEConv", r"write hr\.nn\.SAGEConv"),
    ],
)
def test_names_of_the_package(name, words):
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; {'.*'}{words}"):
        getattr(hr, name)


def test_verbs_of_a_plan():
    for plan in (hr.ItemSampler(4), hr.ItemSampler(4).sample_neighbor(graph(), [2])):
        with pytest.raises(AttributeError, match=r"\.sample_neighbor\(.*time=\.\.\., strictly_before=True\)"):
            plan.temporal_sample_neighbor(graph(), [2])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("from_csr", r"hr\.Graph\.from_csc\(indptr, indices\), .*from_scipy\(matrix\)"),
        ("from_edge_index", r"hr\.Graph\.from_coo\(\*edge_index"),
        ("from_cooo", r"did you mean from_coo\?"),
    ],
)
def test_ways_of_making_a_graph(name, words):
    assert not hasattr(hr.Graph, name)
    with pytest.raises(AttributeError, match=rf"^type object 'Graph' has no attribute '{name}'; .*{words}"):
        getattr(hr.Graph, name)


def test_what_the_loader_behind_one_of_pyg_has():
    data = pytest.importorskip("torch_geometric.data")
    import headrace.pyg

    loader = headrace.pyg.NeighborLoader(data.Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]])), [1])
    assert not hasattr(loader, "stats")
    with pytest.raises(AttributeError, match=r"NeighborLoader has no attribute 'stats'; write loader\.runner\.stats"):
        loader.stats()
    assert len(list(loader)) == 2
    assert loader.runner.stats()["sample_neighbor"]["batches"] == 2
    with pytest.raises(AttributeError, match=r"^'NeighborLoader' object has no attribute 'other'$"):
        _ = loader.other


def test_names_of_loaders_of_pyg():
    """All that PyG has and this package does not are answered, not by a near name."""
    loader = pytest.importorskip("torch_geometric.loader")
    import headrace.pyg

    for name in set(loader.__all__) - set(headrace.pyg.__all__):
        with pytest.raises(AttributeError, match=rf"'headrace.pyg' has no attribute '{name}'; (?!did you mean|dir)"):
            getattr(headrace.pyg, name)
    with pytest.raises(AttributeError, match=r"did you mean ClusterLoader\?"):
        _ = headrace.pyg.ClustersLoader


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (hr.nn, "GraphSAGE", r"torch\.nn\.Module with one layer of hr\.nn for each block"),
        (hr.nn, "HGTConv", r"block\.relation\(edge_type\)\.aggregate"),
        (hr.nn, "to_hetero", r"hr\.nn\.HeteroConv"),
        (hr.nn, "SuperGATConv", r"block\.to_pyg\(h\)"),
        (hr.nn, "SAGEconv", "SAGEConv"),
        (hr.nn, "MessagePassing", r"block\.aggregate"),
        (hr.sar, "wrapp", r"did you mean wrap\?"),
        (hr.scores, "pagerank", r"did you mean reverse_pagerank\?"),
    ],
)
def test_names_of_modules(module, name, words):
    with pytest.raises(AttributeError, match=rf"module '\w+\.\w+' has no attribute '{name}'; .*{words}"):
        getattr(module, name)


def test_relations_are_written_so():
    """What the error for HGTConv names runs."""
    typed = hr.Graph.from_coo({("user", "likes", "item"): ([0, 1], [1, 0])}, num_nodes={"user": 2, "item": 2})
    plan = hr.ItemSampler({"item": [0, 1]}, batch_size=2).sample_neighbor(typed, [-1])
    block = next(iter(plan.loader())).blocks[0]
    assert block.relation("likes").aggregate(torch.ones(2, 3), reduce="mean").tolist() == [[1] * 3] * 2


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("GraphError", "write InputError"),
        ("UsageError", "write PlanError"),
        ("TierSizes", "as a dictionary"),
        ("Stats", "no public class"),
    ],
)
def test_names_of_before_name_those_of_now(name, advice):
    with pytest.raises(AttributeError, match=advice):
        getattr(hr, name)


@pytest.mark.parametrize(("name", "module"), [("HopSampler", "ext"), ("verb", "ext"), ("LocalGroup", "testing")])
def test_names_that_modules_of_headrace_have(name, module):
    with pytest.raises(AttributeError) as caught:
        getattr(hr, name)
    assert str(caught.value) == f"module 'headrace' has no attribute {name!r}; write hr.{module}.{name}"
