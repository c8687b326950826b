"""Whatever torch's default dtype is: the same batches, and the same numbers of every function that makes some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ranks import cooperative_batches, partition

import headrace as hr

from contracts import digests
from plans import NUM_NODES, PLANS, graph, items, store, timed_graph, typed_graph, typed_store

DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    for make in (graph, store, typed_graph, typed_store, timed_graph):  # of what torch draws in float32
        make()
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def block() -> hr.Block:
    (one,) = next(iter(items().sample_neighbor(graph(), [5]).loader())).blocks
    return one


def rows_of_files(folder: Path) -> list[Any]:
    x = np.linspace(0, 1, 4 * NUM_NODES, dtype=np.float32).reshape(NUM_NODES, 4)
    np.save(folder / "x.npy", x)
    disk = hr.DiskFeature(folder / "x.npy")
    cached = hr.CachedFeature(torch.from_numpy(x), rows=20)
    return [source.read(torch.arange(0, NUM_NODES, 7)).rows for source in (disk, cached, cached)]


def trained(_: Path) -> Any:
    """Layers have parameters of the default dtype, as torch's; so these are said to be of float32."""
    torch.manual_seed(0)
    network = hr.nn.GATConv(8, 4, heads=2).float()
    for one in network.parameters():
        torch.nn.init.constant_(one, 0.1)
    return hr.inference(network, graph(), store(), layers=[network])


def over_shards(_: Path) -> Any:
    place = hr.sar.ShardedGraph(graph())
    return [place.aggregate(place.rows(store().node["x"].read(torch.arange(NUM_NODES)).rows), reduce="mean")]


#: What makes numbers, beside plans.
FUNCTIONS: dict[str, Callable[[Path], Any]] = {
    "gcn_norm": lambda _: hr.gcn_norm(graph()),
    "gcn_norm of weights": lambda _: hr.gcn_norm(graph(), "weight"),
    "self loops": lambda _: hr.gcn_norm(graph().with_self_loops(0.5), "weight"),
    "out-degrees": lambda _: hr.scores.out_degree(graph()),
    "reverse pagerank": lambda _: hr.scores.reverse_pagerank(graph()),
    "inclusion": lambda _: hr.scores.inclusion(items().sample_neighbor(graph(), [3, 2])),
    "tiers": lambda _: str(
        hr.plan_tiers(store(), graph(), hr.Machine(cores=2, memory=1 << 30), [0.1 + 1 / (1 + i) for i in range(200)])
    ),
    "adjacency": lambda _: block().adj_t().values(),
    "aggregation": lambda _: block().aggregate(torch.ones(block().num_src, 3, dtype=torch.float32), reduce="mean"),
    "partition": lambda _: hr.Partition.metis(graph(), 3).owner(torch.arange(NUM_NODES)),
    "files and caches": rows_of_files,
    "lists of numbers": lambda _: hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"w": [0.1, 0.7]}).edge_attrs["w"],
    "inference": trained,
    "shards": over_shards,
    "ranks": lambda _: [
        [batch.digest() for batch in batches]
        for batches in cooperative_batches(
            items().sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"], labels="y"),
            2,
            partition=partition("hash", 2),
        )
    ],
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.slow
@pytest.mark.combinations(46)
@DTYPES
@pytest.mark.parametrize("name", PLANS)
def test_plans_give_the_same_batches(name, dtype):
    plan = PLANS[name]()
    expected = digests(plan.loader(), 1)
    with default_dtype(dtype):
        assert digests(plan.loader(), 1) == expected
        assert digests(PLANS[name]().loader(), 1) == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@DTYPES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_the_same_numbers(name, dtype, tmp_path):
    expected = FUNCTIONS[name](tmp_path)
    with default_dtype(dtype):
        assert same(FUNCTIONS[name](tmp_path), expected)
