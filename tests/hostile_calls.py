"""Public calls, each with one argument left open, and odd values to put there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from part_files import data
from torch import nn as torch_nn

import headrace as hr
from headrace.ops import TierSizes
from headrace.pipeline.data.types import TypeOffsets

from plans import NUM_NODES, graph, items, store

#: Odd values: none is right everywhere.
ODD: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "text": lambda: "none such",
    "number": lambda: 2.5,
    "infinite": lambda: float("inf"),
    "list": lambda: ["a", "b"],
    "ragged": lambda: [[1], [2, 3]],
    "tensor": lambda: torch.rand(5),
    "no dimension": lambda: torch.tensor(3.5),
    "objects": lambda: np.array([1, "a", None], dtype=object),
    "texts": lambda: np.array(["a", "b"]),
    "meta": lambda: torch.empty(5, dtype=torch.int64, device="meta"),
    "mapping": lambda: {1: 2},
    "set": lambda: {1, 2},
    "function": lambda: len,
    "graph": graph,
    "store": store,
    "plan": items,
}

#: Values that are of a right kind, and out of range.
OUT_OF_RANGE: dict[str, Callable[[], Any]] = {
    "negative": lambda: -1,
    "nan": lambda: float("nan"),
    "huge": lambda: 1 << 70,
    "true": lambda: True,
    "empty": list,
    "zero": lambda: 0,
    "ids": lambda: torch.tensor([99999, -3]),
}

X = torch.rand(4, 2)
IDS = torch.tensor([0, 1])
TYPES = TypeOffsets.from_counts({"a": 2, "b": 3})
CALLS: dict[str, Callable[[Any], Any]] = {}


def each(what: str, function: Callable[..., Any], right: Callable[[], dict[str, Any]] | dict[str, Any], *names: str):
    """Add a call for each of the arguments: it is given a value, the others are right."""
    for name in names:
        CALLS[f"{what}, {name}"] = partial(_call, function, right, name)


def _call(function: Callable[..., Any], right: Any, name: str, value: Any) -> Any:
    return function(**{**(right() if callable(right) else right), name: value})


@cache
def batch() -> hr.MiniBatch:
    return next(iter(items().sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"]).loader()))


def block() -> hr.Block:
    return batch().blocks[0]


@cache
def partition() -> hr.Partition:
    return hr.Partition.hash(NUM_NODES, 2)


@cache
def folder() -> Path:
    path = Path(tempfile.mkdtemp())
    np.save(path / "x.npy", X.numpy())
    data().partition(partition(), path / "parts", progress=False)
    return path


def alone() -> dict[str, Any]:
    return {"graph": graph(), "partition": hr.Partition.hash(NUM_NODES, 1), "comm": hr.testing.LocalGroup(1).comms[0]}


def layers() -> None:
    sized = {"in_channels": 3, "out_channels": 2}
    for layer in (hr.nn.ClusterGCNConv, hr.nn.GATConv, hr.nn.GCNConv, hr.nn.SAGEConv):
        each(layer.__name__, layer, sized, *sized, "bias")
        ready = layer(8, 2)
        each(
            f"{layer.__name__}()", ready, lambda: {"x": torch.rand(block().num_src, 8), "block": block()}, "x", "block"
        )
    switches = ("concat", "add_self_loops")
    each("GATConv", hr.nn.GATConv, sized, "heads", "negative_slope", "dropout", "edge_dim", *switches)
    each("GCNConv", hr.nn.GCNConv, sized, "improved", "add_self_loops", "normalize")
    each("SAGEConv", hr.nn.SAGEConv, sized, "aggr", "normalize", "root_weight")
    each("ClusterGCNConv", hr.nn.ClusterGCNConv, sized, "diag_lambda")
    each("GINConv", hr.nn.GINConv, {"nn": torch_nn.Linear(2, 2)}, "nn", "eps", "train_eps")

    def called() -> dict[str, Any]:
        return {"x": torch.rand(block().num_src, 8), "block": block()}

    each("GINConv()", hr.nn.GINConv(torch_nn.Linear(8, 2)), called, "x", "block")
    each("GCNConv()", hr.nn.GCNConv(8, 2), called, "edge_weight")
    each("GATConv()", hr.nn.GATConv(8, 2, edge_dim=3), called, "edge_attr")


def batches() -> None:
    def scores() -> dict[str, Any]:
        of_dst = torch.rand(block().num_dst, 1)
        x = torch.rand(block().num_src, 1, 3)
        return {"x": x, "source_scores": torch.rand(block().num_src, 1), "destination_scores": of_dst}

    names = ("x", "source_scores", "destination_scores", "edge_scores", "slope", "dropout", "key")
    each("Block.attend", lambda **given: block().attend(**given), scores, *names)
    rows = {"x": torch.rand(block().num_src, 8)}
    each("Block.aggregate", lambda **given: block().aggregate(**given), rows, "x", "reduce", "weight")
    one = {"indptr": torch.tensor([0, 1]), "indices": torch.tensor([0]), "num_src": 1, "num_dst": 1}
    each("Block", hr.Block, one, *one, "edge_ids", "weight", "bipartite")
    for name in ("adj_t", "map", "to", "to_pyg", "relation"):
        CALLS[f"Block.{name}"] = lambda value, name=name: getattr(block(), name)(value)
    CALLS["MiniBatch.to"] = lambda value: batch().to(value)
    each("MiniBatch.of_seeds", hr.MiniBatch.of_seeds, {"epoch": 0, "index": 0}, "seeds")
    each("MiniBatch", hr.MiniBatch, {}, "seeds")
    each("MiniBatch.replace", lambda **given: batch().replace(**given), {}, "node", "edge", "blocks")


def graphs() -> None:
    ends = {"src": IDS, "dst": IDS}
    each("from_coo", hr.Graph.from_coo, ends, *ends, "num_nodes", "num_threads", "edge_attrs", "node_attrs", "time")
    csc = {"indptr": [0, 1], "indices": [0]}
    each("from_csc", hr.Graph.from_csc, csc, *csc, "edge_ids", "edge_attrs")
    for name in ("reordered", "original_edge_ids", "by_time", "edge_weights"):
        CALLS[f"Graph.{name}"] = lambda value, name=name: getattr(graph(), name)(value)
    each("shard", lambda part: graph().shard(partition(), part), {}, "part")
    each("gcn_norm", hr.gcn_norm, lambda: {"graph": graph()}, "graph", "weight")
    CALLS["from_scipy"] = hr.Graph.from_scipy
    CALLS["undirected"] = lambda value: graph().undirected(value)
    CALLS["FeatureStore.from_pyg"] = hr.FeatureStore.from_pyg
    relation = ("user", "buys", "item")
    by_type = {"src": {relation: ([0, 1], [1, 0])}}
    each("from_coo by type", hr.Graph.from_coo, by_type, "num_nodes", "edge_attrs", "node_attrs", "dst", "node_types")
    CALLS["from_coo by type, ends"] = lambda value: hr.Graph.from_coo({relation: value})
    CALLS["from_coo by type, rows"] = lambda value: hr.Graph.from_coo(**by_type, node_attrs={"user": {"time": value}})
    each("with_reverse", hr.Graph.from_coo(**by_type).with_reverse, {}, "edge_types", "prefix")
    names = ("edge_type", "val", "test", "time", "reverse", "seed")
    each("split_links", hr.split_links, lambda: {"graph": graph()}, "graph", *names)
    each("split_nodes", hr.split_nodes, {"nodes": 10}, "nodes", "val", "test", "stratify", "time", "seed")
    CALLS["Items"] = lambda value: hr.ItemSampler(hr.Items(value))
    each("Items, rest", lambda **more: hr.ItemSampler(hr.Items([0, 1], **more)), {}, "labels", "times")
    each("TypeOffsets", TypeOffsets, {"names": ("a",), "offsets": torch.tensor([0, 2])}, "names", "offsets")
    each("global_ids", TYPES.global_ids, {"name": "a", "ids": [0]}, "name", "ids")
    CALLS["id_range"], CALLS["type_of"] = TYPES.id_range, TYPES.type_of
    CALLS["from_counts"] = TypeOffsets.from_counts
    each("Place", hr.Place, {"kind": "cuda"}, "kind", "index")
    CALLS["Place.parse"], CALLS["Place.serves"] = hr.Place.parse, hr.Place("cpu").serves
    numbers = ("cores", "gpus", "rank", "world_size", "memory", "promised", "current_gpu")
    each("Machine", hr.Machine, {}, *numbers, "gpu_memory", "gpu_promised")
    CALLS["Machine.detect"], CALLS["Machine.share"] = hr.Machine.detect, hr.Machine().share
    CALLS["Machine.memory_of_gpu"] = hr.Machine(gpus=1, gpu_memory=(5,)).memory_of_gpu


def partitions() -> None:
    counts = {"num_nodes": 10, "num_parts": 2}
    each("Partition.hash", hr.Partition.hash, counts, *counts)
    each("Partition.range", hr.Partition.range, counts, *counts)
    each("Partition.of", hr.Partition.of, {"owners": [0, 1]}, "owners", "num_parts")
    CALLS["Partition.range_of"] = hr.Partition.range_of

    def of_graph() -> dict[str, Any]:
        return {"graph": graph(), "num_parts": 2}

    each("Partition.louvain", hr.Partition.louvain, of_graph, "num_parts", "seed")
    each("Partition.metis", hr.Partition.metis, of_graph, "graph", "num_parts", "balance", "seed")
    each("Partition.stream", hr.Partition.stream, of_graph, "num_parts", "slack", "passes", "shuffle", "seed")
    for name in ("owned", "owner", "position", "report"):
        CALLS[f"Partition.{name}"] = lambda value, name=name: getattr(partition(), name)(value)
    each("Partition.report", partition().report, lambda: {"graph": graph()}, "labelled")
    each("Partition.of_type", hr.Partition.hash(5, 2).of_type, {"types": TYPES, "name": "a"}, "types", "name")
    for made in (hr.EdgePartition.by_source, hr.EdgePartition.by_destination, hr.EdgePartition.grid):
        each(f"EdgePartition.{made.__name__}", made, of_graph, "graph", "num_parts")
    edges = {"graph": graph(), "nodes": partition(), "num_columns": 1}
    each("EdgePartition", hr.EdgePartition, edges, *edges)
    whole = hr.EdgePartition(**edges)
    CALLS["EdgePartition.owned"], CALLS["EdgePartition.report"] = whole.owned, whole.report
    each("EdgePartition.owner", whole.owner, {"source": IDS, "destination": IDS}, "source", "destination")


def sources() -> None:
    made = {
        "CachedFeature": lambda: hr.CachedFeature(X, rows=2),
        "store": lambda: hr.FeatureStore(node={"x": X}).node["x"],
        "DiskFeature": lambda: hr.DiskFeature(folder() / "x.npy"),
        "TieredFeature": lambda: hr.TieredFeature(X, torch.arange(4), TierSizes(host=2)),
    }
    for name, make in made.items():
        read, write = ("ids", "to"), ("ids", "out", "places")
        each(f"{name}.read", lambda make=make, **given: make().read(**given), {"ids": IDS}, *read)
        right = {"ids": IDS, "out": torch.zeros(2, 2)}
        each(f"{name}.read_into", lambda make=make, **given: make().read_into(**given), right, *write)
    cut = {"array": torch.rand(NUM_NODES, 2), "partition": partition(), "part": 0}
    own = {"rows": cut["array"][partition().owned(0)], "partition": partition(), "part": 0}
    each("ShardedFeature.of", hr.ShardedFeature.of, cut, *cut, "cached")
    each("ShardedFeature", hr.ShardedFeature, own, *own, "cached", "cached_rows", "place")
    each("ShardedFeature.read", hr.ShardedFeature.of(**cut).read, {"ids": partition().owned(0)}, "ids", "to")
    each("CachedFeature", hr.CachedFeature, {"source": X, "rows": 2}, "source", "policy", "rows")
    each("CachedFeature", hr.CachedFeature, {"source": X}, "bytes")
    each("CachedFeature", hr.CachedFeature, {"source": X, "rows": 2, "policy": "static"}, "ids", "scores")
    # Caches take a share of the memory of a process for as long as they exist.
    each(
        "CachedFeature.update",
        lambda **given: made["CachedFeature"]().update(**given),
        {"ids": IDS, "rows": X[:2]},
        "ids",
        "rows",
    )
    CALLS["CachedFeature.expect"] = lambda value: hr.CachedFeature(X, "look-ahead", rows=2).expect(value)
    path = {"path": folder() / "x.npy"}
    each("DiskFeature", hr.DiskFeature, path, "path", "direct", "queue_depth", "gap_bytes", "engine")
    tiers = {"source": X, "rank": torch.arange(4), "sizes": TierSizes(host=2)}
    each("TieredFeature", hr.TieredFeature, tiers, *tiers, "devices", "here", "stand_ins")
    for name in ("prepare", "reads_to"):
        CALLS[f"TieredFeature.{name}"] = lambda value, name=name: getattr(made["TieredFeature"](), name)(value)
    each("TierSizes", TierSizes, {}, "replicated", "interleaved", "host", "num_devices")
    right = {"store": store(), "graph": graph(), "machine": hr.Machine(gpus=1, gpu_memory=(1 << 20,))}
    each("plan_tiers", hr.plan_tiers, right, "scores", "node", "share", "bandwidth")
    each("reorder", hr.reorder, {"graph": graph()}, "graph", "store", "scores", "order", "original_ids")
    each("cached", hr.cached, {"store": store(), "bytes": 1 << 20}, "edge", "bytes", "place")
    each("FeatureStore", hr.FeatureStore, {}, "node", "edge")
    CALLS["FeatureStore, x"] = lambda value: hr.FeatureStore(node={"x": value})
    CALLS["store.node[...]"] = lambda value: store().node[value]
    each(
        "open_dataset, parts", hr.open_dataset, {"path": folder() / "parts", "rank": 0}, "rank", "memory_map", "cached"
    )
    right = {"partition": partition(), "folder": folder() / "other"}
    names = ("partition", "features", "whole", "overwrite", "progress")
    each("Dataset.partition", data().partition, right, *names)


def scores_and_models() -> None:
    def plan() -> dict[str, Any]:
        return {"plan": items().sample_neighbor(graph(), [2])}

    each("access_frequency", hr.scores.access_frequency, plan, "plan", "num_batches", "num_threads", "progress")
    each("inclusion", hr.scores.inclusion, plan, "plan", "num_threads", "progress")
    of_graph = {"graph": graph()}
    each("out_degree", hr.scores.out_degree, of_graph, "graph", "num_threads")
    walked = ("damping", "iterations", "num_threads")
    each("reverse_pagerank", hr.scores.reverse_pagerank, of_graph, "graph", *walked, "progress")
    weighted = {**of_graph, "items": [0, 1]}
    each("weighted_reverse_pagerank", hr.scores.weighted_reverse_pagerank, weighted, "graph", "items", *walked)
    CALLS["ranking"] = hr.scores.ranking
    model = {"model": torch_nn.Identity(), "graph": graph(), "store": store(), "layers": [lambda h, b: h[: b.num_dst]]}
    options = ("node", "edge", "nodes", "batch_size", "out", "overwrite", "device", "num_threads", "progress")
    each("inference", hr.inference, model, *model, *options)
    each("ShardedGraph", hr.sar.ShardedGraph, alone, "graph", "partition", "comm", "mode", "prefetch")

    def wrapped() -> dict[str, Any]:
        return {"model": torch_nn.Sequential(hr.nn.SAGEConv(2, 2)), "graph": hr.sar.ShardedGraph(**alone())}

    each("sar.wrap", hr.sar.wrap, wrapped, "model", "graph", "seed")
    CALLS["dropout_state"] = hr.sar.dropout_state
    each("load_dropout_state", hr.sar.load_dropout_state, {"model": hr.sar.wrap(**wrapped()), "state": {}}, "state")
    each("cooperative", hr.cooperative, {"model": torch_nn.Sequential(hr.nn.SAGEConv(2, 2))}, "model", "layers")
    each("sum_gradients", hr.sum_gradients, {"parameters": torch_nn.Linear(1, 1)}, "parameters", "comm")
    each("LocalGroup", hr.testing.LocalGroup, {"world_size": 1}, "world_size", "timeout")


def loaders() -> None:
    for name in ("set_epoch", "load_state_dict"):
        CALLS[f"loader.{name}"] = lambda value, name=name: getattr(items().loader(), name)(value)
    CALLS["explain"] = lambda value: items().loader().explain(facts=value)
    CALLS["profile"] = lambda value: items().loader().profile(folder() / value if isinstance(value, str) else value)
    options = ("num_threads", "rank", "world_size", "comm", "partition", "prefetch", "cooperative")
    each("loader", lambda **given: items().sample_neighbor(graph(), [2]).loader(**given), {}, *options)
    each("ClusterSampler", hr.ClusterSampler, {"partition": partition()}, "partition", "clusters_per_batch", "boundary")
    each("prefetch", lambda **given: items().prefetch(**given), {}, "workers", "depth", "eager")
    each("copy_to", lambda **given: items().copy_to(**given), {}, "device")
    padded = "num_nodes", "num_edges", "epochs", "shapes"
    each("pad", lambda **given: items().sample_neighbor(graph(), [2]).pad(**given), {}, *padded)
    CALLS["NodeSource"], CALLS["GlobalBatch"], CALLS["Plan"] = hr.ext.NodeSource, hr.GlobalBatch, hr.Plan
    CALLS["Plan.then"] = lambda value: items().then(value)
    CALLS["Plan.pipe"] = lambda value: items().pipe(value) if value is not len else None


for add in (layers, batches, graphs, partitions, sources, scores_and_models, loaders):
    add()
