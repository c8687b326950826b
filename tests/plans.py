"""Named plans over one small random graph: every stage set that must stand the resume and the same-bits contracts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache

import torch

import headrace as hr

NUM_NODES, NUM_EDGES = 200, 1500
SEED = 11


@cache
def graph() -> hr.Graph:
    """A random directed multigraph with a hub, isolated nodes, self-loops and an edge attribute, edges unsorted."""
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(0, NUM_NODES - 10, (NUM_EDGES,), generator=generator)
    dst = torch.randint(0, NUM_NODES - 10, (NUM_EDGES,), generator=generator)
    dst[:300] = 7
    src[300:310] = dst[300:310]
    src[320:330], dst[320:330] = src[310:320].clone(), dst[310:320].clone()
    return hr.Graph.from_coo(
        src, dst, num_nodes=NUM_NODES, edge_attrs={"weight": torch.rand(NUM_EDGES, generator=generator)}
    )


def with_times(whole_or_shard: hr.Graph) -> hr.Graph:
    """The graph with times of edges, by their ids, and of nodes: about a third of rows are early enough for a seed."""
    one = whole_or_shard
    of_edges = one.edge_ids.long() * 7919 % 50
    attributes = {**one.edge_attrs_csc, "time": of_edges}
    return dataclasses.replace(one, edge_attrs_csc=attributes, node_attrs={"time": torch.arange(NUM_NODES) * 31 % 40})


@cache
def timed_graph() -> hr.Graph:
    return with_times(graph())


def with_seed_times(plan: hr.Plan) -> hr.Plan:
    """The plan with a time for each of its items; seeds of other sources have those of their nodes."""
    source, *others = plan.stages
    if not isinstance(source, hr.ItemSampler):
        return plan
    return hr.Plan([dataclasses.replace(source, time=torch.arange(len(source.items)) * 13 % 50), *others])


@cache
def store() -> hr.FeatureStore:
    generator = torch.Generator().manual_seed(1)
    return hr.FeatureStore(
        node={"x": torch.randn(NUM_NODES, 8, generator=generator), "y": torch.arange(NUM_NODES) % 5},
        edge={"e": torch.randn(NUM_EDGES, 3, generator=generator)},
    )


class RowsOnDisk(hr.FeatureSource):
    """Rows that passes see as rows on disk."""

    place = hr.Place("disk")

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows_in_place = rows


@cache
def store_on_disk() -> hr.FeatureStore:
    """The same rows, as passes see those on disk."""

    def on_disk(source: hr.FeatureSource) -> hr.FeatureSource:
        rows, _ = source.read(torch.arange(source.num_rows))
        return RowsOnDisk(rows)

    return hr.FeatureStore(
        node={name: on_disk(source) for name, source in store().node.items()},
        edge={name: on_disk(source) for name, source in store().edge.items()},
    )


@cache
def narrow_store() -> hr.FeatureStore:
    """Features in fewer bytes than those of the batch, those of nodes on disk."""
    generator = torch.Generator().manual_seed(3)
    codes = torch.randint(0, 256, (NUM_NODES, 8), dtype=torch.uint8, generator=generator)
    on_disk = RowsOnDisk(codes)
    return hr.FeatureStore(
        node={"x": hr.QuantizedFeature(on_disk, torch.rand(8, generator=generator), 99)},
        edge={"e": torch.randn(NUM_EDGES, 3, generator=generator).bfloat16()},
    )


NODE_TYPES = {"a": 120, "b": 70, "lonely": 10}
RELATIONS = (("a", "to", "a"), ("a", "likes", "a"), ("a", "to", "b"), ("b", "to", "a"), ("lonely", "to", "b"))


@cache
def typed_graph() -> hr.Graph:
    """The edges of `graph` with types: several relations into one type, one relation without an edge."""
    plain = graph()
    ends = torch.stack([plain.indices.long(), torch.arange(NUM_NODES).repeat_interleave(plain.in_degrees())])
    node_type = (ends >= NODE_TYPES["a"]).long()
    relation = torch.tensor([[0, 2], [3, 4]])[node_type[0], node_type[1]]
    relation[(relation == 0) & (torch.arange(NUM_EDGES) % 3 == 0)] = 1
    kept = (relation < 4).nonzero().squeeze(1)
    order = kept[relation[kept].argsort(stable=True)]
    counts = torch.bincount(relation[kept], minlength=5).tolist()
    return hr.Graph.from_coo(
        *ends[:, order],
        num_nodes=NUM_NODES,
        edge_attrs={"weight": plain.edge_attrs_csc["weight"][order]},
        node_types=NODE_TYPES,
        edge_types=dict(zip(RELATIONS, counts, strict=True)),
    )


@cache
def typed_store() -> hr.FeatureStore:
    generator = torch.Generator().manual_seed(1)
    count = dict(zip(RELATIONS, typed_graph().edge_types.offsets.diff().tolist(), strict=True))[RELATIONS[1]]
    return hr.FeatureStore(
        node={
            "a": {"x": torch.randn(120, 8, generator=generator), "y": torch.arange(120) % 5},
            "b": {"x": torch.randn(70, 4, generator=generator, dtype=torch.float64), "z": torch.arange(70) % 3},
            "all": torch.arange(NUM_NODES),
        },
        edge={RELATIONS[1]: {"e": torch.randn(count, 3, generator=generator)}},
    )


def typed_items(**changes: object) -> hr.Plan:
    arguments = {"batch_size": 17, "shuffle": True, "seed": SEED, **changes}
    return hr.ItemSampler({"a": torch.arange(0, 120, 2)}, **arguments)


def fetch_typed(plan: hr.Plan) -> hr.Plan:
    return plan.fetch_feature(
        typed_store(), node=[("a", "x"), ("b", "x"), "all"], edge={RELATIONS[1]: ["e"]}, labels={"a": "y"}
    )


def items(**changes: object) -> hr.Plan:
    arguments = {"batch_size": 17, "shuffle": True, "seed": SEED, **changes}
    return hr.ItemSampler(torch.arange(0, NUM_NODES, 2), **arguments)


@cache
def edges() -> torch.Tensor:
    """The edges of the graph, int64[NUM_EDGES, 2]; every seventh one is no edge, but the pair of two that are."""
    index = torch.stack([graph().indices.long(), torch.arange(NUM_NODES).repeat_interleave(graph().indptr.diff())], 1)
    index[::7, 0] = index[::7, 0].roll(1)
    return index[torch.randperm(NUM_EDGES, generator=torch.Generator().manual_seed(2))]


def pairs(**changes: object) -> hr.Plan:
    """Edges of the graph as items."""
    arguments = {"batch_size": 17, "shuffle": True, "seed": SEED, **changes}
    return hr.ItemSampler(edges()[:60], **arguments)


def pairs_with_ids(**changes: object) -> hr.Plan:
    """Edges of the graph that know which they are; repeats of the hub's are among them."""
    arguments = {"batch_size": 17, "shuffle": True, "seed": SEED, **changes}
    positions = torch.randperm(NUM_EDGES, generator=torch.Generator().manual_seed(6))[:60]
    ends = torch.arange(NUM_NODES).repeat_interleave(graph().indptr.diff())
    found = torch.stack([graph().indices.long(), ends], 1)[positions]
    return hr.ItemSampler(found, edge_ids=graph().edge_ids[positions], **arguments)


def timed_items(**changes: object) -> hr.Plan:
    """Some come twice."""
    arguments = {"batch_size": 17, "shuffle": True, "seed": SEED, "time": torch.arange(100) * 7 % 50, **changes}
    return hr.ItemSampler(torch.arange(100) % 80, **arguments)


def double(batch: hr.MiniBatch) -> hr.MiniBatch:
    return batch.replace(node={**batch.node, "twice": batch.x * 2})


PLANS: dict[str, Callable[[], hr.Plan]] = {
    "items": items,
    "items_in_order": lambda: items(shuffle=False, drop_last=True),
    "labelled_items": lambda: hr.ItemSampler(
        (torch.arange(50), torch.arange(50) * 2), batch_size=8, shuffle=True, seed=SEED
    ),
    "budget": lambda: (
        items(batch_size=None, cost=graph().in_degrees()[::2], budget=120)
        .sample_in_subgraph(graph())
        .fetch_feature(store(), node=["x"], labels="y")
    ),
    "pairs": lambda: hr.ItemSampler(
        torch.arange(60).reshape(30, 2) % 37, batch_size=7, shuffle=True, seed=SEED
    ).sample_neighbor(graph(), [3, 2]),
    "repeated_seeds": lambda: hr.ItemSampler(torch.arange(90) % 13, batch_size=20, seed=SEED).sample_neighbor(
        graph(), [4]
    ),
    "neighbor": lambda: items().sample_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"], labels="y"),
    "neighbor_on_disk": lambda: (
        items().sample_neighbor(graph(), [5, 3]).fetch_feature(store_on_disk(), node=["x"], edge=["e"], labels="y")
    ),
    "neighbor_new": lambda: items().sample_neighbor(graph(), [5, 3, 2], expand="new").fetch_feature(store(), node="x"),
    "neighbor_replace": lambda: items().sample_neighbor(graph(), [5, 3], replace=True),
    "full": lambda: items().sample_neighbor(graph(), [-1, -1]).fetch_feature(store(), node=["x"], edge=["e"]),
    "labor": lambda: items().sample_layer_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"], labels="y"),
    "labor_poisson": lambda: items().sample_layer_neighbor(graph(), [5, 3], exact=False),
    "labor_dependent": lambda: items().sample_layer_neighbor(graph(), [5, 3, 2], layer_dependency=True),
    "labor_new": lambda: items().sample_layer_neighbor(graph(), [5, 3], expand="new", edge_ids=False),
    "weighted": lambda: items().sample_neighbor(graph(), [5, 3], weight="weight"),
    "weighted_replace": lambda: items().sample_neighbor(graph(), [5, 3], weight="weight", replace=True),
    "weighted_labor": lambda: items().sample_layer_neighbor(graph(), [5, 3], weight="weight"),
    "weighted_labor_poisson": lambda: items().sample_layer_neighbor(
        graph(), [5, 3], weight="weight", exact=False, expand="new"
    ),
    "labor_1": lambda: items().sample_layer_neighbor(graph(), [5, 3], importance=1),
    "labor_star": lambda: items().sample_layer_neighbor(graph(), [5, 3], importance="*", layer_dependency=True),
    "labor_star_new": lambda: items().sample_layer_neighbor(
        graph(), [4, 2], importance="*", weight="weight", expand="new"
    ),
    "labor_of_dependent_batches": lambda: items().sample_layer_neighbor(graph(), [5, 3], batch_dependency=3),
    "labor_dependent_poisson": lambda: items().sample_layer_neighbor(
        graph(), [5, 3], exact=False, layer_dependency=True, batch_dependency=4
    ),
    "labor_of_fixed_neighborhoods": lambda: items().sample_layer_neighbor(
        graph(), [5, 3], batch_dependency=math.inf, expand="new"
    ),
    "weighted_labor_of_dependent_batches": lambda: items().sample_layer_neighbor(
        graph(), [5, 3], weight="weight", batch_dependency=2
    ),
    "labor_star_of_dependent_batches": lambda: items().sample_layer_neighbor(
        graph(), [5, 3], importance="*", batch_dependency=5
    ),
    "ladies": lambda: items().sample_ladies(graph(), [20, 30]).fetch_feature(store(), node=["x"], edge=["e"]),
    "pladies": lambda: items().sample_ladies(graph(), [20, 30], poisson=True, layer_dependency=True, edge_ids=False),
    "weighted_ladies": lambda: items().sample_ladies(graph(), [15, -1], weight="weight"),
    "weighted_pladies": lambda: items().sample_ladies(graph(), [15, 25], weight="weight", poisson=True),
    "in_subgraph": lambda: items().sample_in_subgraph(graph()).fetch_feature(store(), node=["x"]),
    "in_subgraph_new": lambda: items().sample_in_subgraph(graph(), num_hops=2, expand="new"),
    "pinsage": lambda: (
        items()
        .sample_pinsage(graph(), 4, num_walks=6, walk_length=3, num_layers=2)
        .fetch_feature(store(), node=["x"], labels="y")
    ),
    "pinsage_weighted": lambda: items().sample_pinsage(
        graph(), 3, num_walks=5, walk_length=2, restart=0.0, num_layers=2, weight="weight", expand="new"
    ),
    "neighbor_bidirectional": lambda: (
        items().sample_neighbor(graph(), [5, 3], expand="new").make_bidirectional().fetch_feature(store(), edge=["e"])
    ),
    "neighbor_induced": lambda: (
        items()
        .sample_neighbor(graph(), [4, 2])
        .induce_subgraph(graph())
        .fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    ),
    "shadow": lambda: items().sample_shadow(graph(), 2, 3).fetch_feature(store(), node=["x"], edge=["e"], labels="y"),
    "bidirectional_trees": lambda: items().sample_neighbor(graph(), [3, 2], disjoint=True).make_bidirectional(),
    "saint_node": lambda: (
        items().sample_saint_node(graph(), 40).fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    ),
    "saint_edge": lambda: items().sample_saint_edge(graph(), 25).fetch_feature(store(), node=["x"], labels="y"),
    "saint_walk": lambda: (
        items().sample_saint_walk(graph(), 2, num_samples=30).fetch_feature(store(), node=["x"], labels="y")
    ),
    "saint_walk_without_norms": lambda: items().sample_saint_walk(graph(), 3, norms=False, edge_ids=False),
    "disjoint": lambda: (
        items()
        .sample_neighbor(graph(), [4, 3], disjoint=True)
        .fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    ),
    "disjoint_pairs": lambda: hr.ItemSampler(
        torch.arange(60).reshape(30, 2) % 37, batch_size=7, shuffle=True, seed=SEED
    ).sample_layer_neighbor(graph(), [3, 2], disjoint=True, weight="weight", expand="new"),
    "temporal": lambda: (
        timed_items()
        .sample_neighbor(timed_graph(), [4, 3], time="time")
        .fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    ),
    "temporal_last": lambda: timed_items().sample_neighbor(
        timed_graph(), [4, 3, 2], time="time", strategy="last", window=30, expand="new"
    ),
    "temporal_of_nodes": lambda: timed_items(time="time").sample_neighbor(
        timed_graph(), [4, -1], time="time", replace=True, edge_ids=False
    ),
    "temporal_weighted": lambda: timed_items().sample_neighbor(
        timed_graph(), [4, 3], time="time", weight="weight", window=25
    ),
    "temporal_labor": lambda: timed_items().sample_layer_neighbor(timed_graph(), [4, 3], time="time", window=35),
    "temporal_strictly": lambda: timed_items().sample_neighbor(
        timed_graph(), [4, 3], time="time", window=40, strictly_before=True
    ),
    "typed": lambda: fetch_typed(
        typed_items().sample_neighbor(typed_graph(), {"likes": [4, 2], ("a", "to", "b"): [-1, 1], "default": [3, 2]})
    ),
    "typed_new": lambda: fetch_typed(typed_items().sample_neighbor(typed_graph(), [3, 2, 2], expand="new")),
    "typed_labor": lambda: fetch_typed(typed_items().sample_layer_neighbor(typed_graph(), [3, 2])),
    "typed_labor_1": lambda: typed_items().sample_layer_neighbor(typed_graph(), [3, 2], importance=1),
    "typed_weighted": lambda: typed_items().sample_neighbor(
        typed_graph(), [3, {"likes": 0, "default": 2}], weight="weight"
    ),
    "typed_temporal": lambda: fetch_typed(
        typed_items(time=torch.arange(60) * 7 % 50).sample_neighbor(
            with_times(typed_graph()), {"likes": [4, 2], "default": [3, 2]}, time="time", window=40
        )
    ),
    "typed_disjoint": lambda: typed_items().sample_layer_neighbor(
        typed_graph(), [3, 2], disjoint=True, weight="weight", expand="new"
    ),
    "typed_ladies": lambda: typed_items().sample_ladies(typed_graph(), [20, 30]),
    "typed_in_subgraph": lambda: (
        hr.ItemSampler({"b": 20, "a": torch.arange(9)}, batch_size=7, seed=SEED)
        .sample_in_subgraph(typed_graph(), num_hops=2)
        .fetch_feature(typed_store(), node={"b": ["x"]})
    ),
    "typed_labels": lambda: (
        hr.ItemSampler({"b": 20, "a": torch.arange(30)}, batch_size=9, shuffle=True, seed=SEED)
        .sample_neighbor(typed_graph(), [3, 2])
        .fetch_feature(typed_store(), node={"b": ["x"]}, labels={"a": "y", "b": "z"})
    ),
    "typed_pairs": lambda: hr.ItemSampler(
        {("a", "to", "b"): torch.arange(60).reshape(30, 2) % 37}, batch_size=7, shuffle=True, seed=SEED
    ).sample_neighbor(typed_graph(), [3, 2]),
    "link_negatives": lambda: (
        pairs()
        .sample_uniform_negative(graph(), 1.5)
        .sample_neighbor(graph(), [4, 3])
        .fetch_feature(store(), node=["x"], edge=["e"])
    ),
    "link_triplets": lambda: (
        pairs(shuffle=False)
        .sample_uniform_negative(graph(), 2, "triplet", node_weight="degree", reject=True)
        .exclude_seed_edges()
        .sample_layer_neighbor(graph(), [4, 3])
        .fetch_feature(store(), node=["x"])
    ),
    "link_corrupting_both": lambda: (
        hr.ItemSampler((edges()[:40], torch.arange(40) % 3), batch_size=9, shuffle=True, seed=SEED)
        .sample_uniform_negative(graph(), 0.5, corrupt="both", node_weight=torch.arange(NUM_NODES))
        .exclude_seed_edges(reverse=True)
        .sample_in_subgraph(graph(), num_hops=2)
    ),
    "link_excluding_weighted": lambda: (
        pairs().exclude_seed_edges(reverse=True).sample_neighbor(graph(), [4, 3], weight="weight", expand="new")
    ),
    "link_excluding_ladies": lambda: pairs().exclude_seed_edges().sample_ladies(graph(), [15, 25], weight="weight"),
    "link_excluding_labor_star": lambda: (
        pairs().exclude_seed_edges(reverse=True).sample_layer_neighbor(graph(), [4, 2], importance="*")
    ),
    "link_excluding_per_seed": lambda: (
        pairs()
        .sample_uniform_negative(graph(), 1.5)
        .exclude_seed_edges(reverse=True, per="seed")
        .sample_layer_neighbor(graph(), [4, 3], disjoint=True, weight="weight")
    ),
    "link_excluding_edge_ids": lambda: (
        pairs_with_ids()
        .sample_uniform_negative(graph(), 2)
        .exclude_seed_edges(by="edge_id", per="seed")
        .sample_neighbor(graph(), [4, 3], disjoint=True)
    ),
    "link_excluding_edge_ids_of_all": lambda: (
        pairs_with_ids().exclude_seed_edges(by="edge_id").sample_layer_neighbor(graph(), [4, 3], weight="weight")
    ),
    "link_excluding_temporal": lambda: (
        with_seed_times(pairs())
        .exclude_seed_edges(per="seed")
        .sample_neighbor(timed_graph(), [4, 3], time="time", expand="new")
    ),
    "hyper_edges": lambda: hr.ItemSampler(
        (torch.arange(60).reshape(20, 3) % 37, torch.arange(20)), batch_size=7, shuffle=True, seed=SEED
    ).sample_neighbor(graph(), [3, 2]),
    "decoded": lambda: (
        items()
        .sample_neighbor(graph(), [5, 3])
        .fetch_feature(narrow_store(), node=["x"], edge=["e"], dtype=torch.float32)
    ),
    "padded": lambda: items().sample_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"], labels="y").pad(),
    "padded_new": lambda: (
        items().sample_neighbor(graph(), [5, 3], expand="new").fetch_feature(store(), node=["x"], edge=["e"]).pad()
    ),
    "padded_trees": lambda: items().sample_layer_neighbor(graph(), [4, -1], disjoint=True).pad(epochs=2),
    "padded_subgraphs": lambda: items().sample_saint_node(graph(), 40).fetch_feature(store(), labels="y").pad(),
    "padded_pairs": lambda: pairs().sample_neighbor(graph(), [3], weight="weight").pad([60, 90], [120], shapes=3),
    "by_hand": lambda: (
        items()
        .sample_neighbor(graph(), [2])
        .transform(unchanged)
        .fetch_feature(store(), node=["x"])
        .transform(double)
        .copy_to("cpu")
    ),
}


def unchanged(batch: hr.MiniBatch) -> hr.MiniBatch:
    return batch
