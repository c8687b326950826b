"""Tensors are made where the code says, whatever `torch.set_default_device` says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._device import _device_constructors

import headrace as hr

import plans
from plans import PLANS

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(path for wing in ("pipeline", "ops", "cuda") for path in (ROOT / wing).rglob("*.py"))

#: Parameters and buffers of layers are made on the default device, as those of torch's layers are.
OF_LAYERS = ("Parameter", "register_buffer")
LAYERS = ROOT / "pipeline" / "models" / "nn"


def is_factory(node: ast.AST) -> bool:
    """Whether a node names a function of torch that a default device changes."""
    is_torchs = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch"
    return is_torchs and getattr(torch, node.attr, None) in _device_constructors()


def without_device(tree: ast.AST, *, layers: bool = False) -> Iterator[ast.Attribute]:
    """Yield the functions that make a tensor wherever the default device says, called or handed on."""
    named = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if any(keyword.arg == "device" for keyword in call.keywords):
            named.add(id(call.func))
        if layers and isinstance(call.func, ast.Attribute) and call.func.attr in OF_LAYERS:
            named |= {id(one.func) for one in call.args if isinstance(one, ast.Call)}
    for node in ast.walk(tree):
        if is_factory(node) and id(node) not in named:
            yield node
        if isinstance(node, ast.ImportFrom) and node.module == "torch":
            yield from (name for name in node.names if getattr(torch, name.name, None) in _device_constructors())


@pytest.mark.slow
def test_what_makes_a_tensor_names_its_device():
    unnamed = [
        f"{path.relative_to(ROOT)}:{one.lineno}: give it device=, of the tensor it belongs to or 'cpu'"
        for path in FILES
        if "torch" in (text := path.read_text())
        for one in without_device(ast.parse(text), layers=LAYERS in path.parents)
    ]
    assert not unnamed, "\n".join(unnamed)


@pytest.mark.parametrize(
    "code",
    ["torch.arange(3)", "make = torch.zeros", "torch.tensor([torch.ones(1, device='cpu')])", "from torch import eye"],
)
def test_the_test_sees(code):
    assert list(without_device(ast.parse(code)))
    assert not list(without_device(ast.parse("torch.arange(3, device=x.device) + torch.from_numpy(y)")))


#: One core: the default device is that of a thread, so batches are made in the thread of the test.
IN_THIS_THREAD = {"machine": hr.Machine(cores=1, memory=1 << 30), "prefetch": False}


def tensors_of(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in a batch, those of objects of PyG too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_of(one)
    elif hasattr(value, "to_dict"):
        yield from tensors_of(value.to_dict())
    elif hasattr(value, "__dict__"):
        yield from tensors_of(vars(value))


def numbers_of(batches: list[object]) -> list[list[object]]:
    found = [list(tensors_of(batch)) for batch in batches]
    assert {one.device.type for batch in found for one in batch} == {"cpu"}
    return [[one.tolist() for one in batch] for batch in found]


@pytest.fixture
def nothing_is_kept():
    """Let graphs have no tables of tests before."""
    for made in vars(plans).values():
        if hasattr(made, "cache_clear"):
            made.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.usefixtures("nothing_is_kept")
def test_batches_are_the_same_under_a_default_device(name):
    plan = PLANS[name]()
    with torch.device("meta"), plan.loader(**IN_THIS_THREAD) as loader:
        got = list(loader)
        assert loader.explain()
        assert loader.state_dict()
    with plan.loader(**IN_THIS_THREAD) as loader:
        assert numbers_of(got) == numbers_of(list(loader))


def whole_job() -> list[object]:
    """Return batches of plans whose graphs, stores and items are made of arrays, too."""
    random = np.random.default_rng(0)
    src, dst, times, weights = random.integers(0, 50, 400), random.integers(0, 50, 400), np.arange(50), np.ones(400)
    one = hr.Graph.from_coo(src, dst, num_nodes=50, edge_attrs={"w": weights}, node_attrs={"t": times})
    typed = hr.Graph.from_coo(src, dst, node_types={"a": 30, "b": 20})
    norm = hr.gcn_norm(one.with_self_loops())
    store = hr.FeatureStore(node={"x": random.random((50, 3)), "cached": hr.CachedFeature(times, rows=9)})
    partition = hr.Partition.hash(50, 2)
    pairs = np.stack([src, dst], 1)[:60]
    plans = [
        hr.ItemSampler(50, batch_size=20, seed=1).sample_neighbor(one, [3, 2], weight="w"),
        hr.ItemSampler(times % 2 == 0, batch_size=20, time="t", seed=1).sample_layer_neighbor(one, [3], time="t"),
        hr.ItemSampler({"b": [1, 2]}, seed=1).sample_neighbor(typed, [3, 2]),
        hr.ItemSampler(pairs, batch_size=20, time=np.full(60, 50), seed=1)
        .sample_uniform_negative(one, 2, time="t", node_weight="degree")
        .exclude_seed_edges(reverse=True)
        .sample_neighbor(one, [3, 2], time="t"),
        hr.ClusterSampler(partition, seed=1).induce_subgraph(one).fetch_feature(store, node=["x", "cached"]),
        hr.ItemSampler(50, seed=1).sample_shadow(one, 2, 3).fetch_feature(store, node=["x"]),
    ]
    batches = [batch for plan in plans for batch in plan.loader(**IN_THIS_THREAD)]
    scores = [hr.scores.inclusion(plans[0]), hr.scores.reverse_pagerank(one), hr.scores.out_degree(one)]
    return [*batches, norm, *scores, hr.scores.access_frequency(plans[0], num_batches=3)]


def test_a_whole_job_under_a_default_device():
    with torch.device("meta"):
        got = whole_job()
    assert numbers_of(got) == numbers_of(whole_job())


@pytest.mark.parametrize("kind", ["nodes", "trees", "links", "types", "shadow", "saint", "cluster"])
def test_objects_of_pyg_under_a_default_device(kind):
    data_of = pytest.importorskip("torch_geometric.data")
    from headrace import pyg

    random = np.random.default_rng(0)
    data = data_of.Data(
        x=torch.from_numpy(random.random((50, 3))),
        edge_index=torch.from_numpy(random.integers(0, 50, (2, 400))),
        time=torch.from_numpy(np.arange(50)),
    )
    hetero = data_of.HeteroData()
    hetero["a"].x = data.x
    hetero["a", "to", "a"].edge_index = data.edge_index
    links = data.edge_index[:, :60]
    nodes = data.time  # PyG itself makes those of all nodes on the default device
    options = {"batch_size": 20, "num_workers": 0}
    made = {
        "nodes": lambda: pyg.NeighborLoader(data, [3, 2], nodes, **options),
        "trees": lambda: pyg.NeighborLoader(data, [3, 2], nodes, time_attr="time", disjoint=True, **options),
        "links": lambda: pyg.LinkNeighborLoader(
            data, [3, 2], edge_label_index=links, neg_sampling_ratio=1.0, **options
        ),
        "types": lambda: pyg.NeighborLoader(hetero, [3, 2], ("a", nodes), **options),
        "shadow": lambda: pyg.ShaDowKHopSampler(data, 2, 3, **options),
        "saint": lambda: pyg.GraphSAINTRandomWalkSampler(data, 9, 2, num_steps=3, sample_coverage=5),
        "cluster": lambda: pyg.ClusterLoader(pyg.ClusterData(data, 4, log=False), batch_size=2),
    }[kind]
    torch.manual_seed(0)
    expected = numbers_of(list(made()))
    torch.manual_seed(0)
    with torch.device("meta"):
        got = list(made())
    assert numbers_of(got) == expected
