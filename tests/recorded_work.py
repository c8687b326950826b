"""Runs whose bits and counts are recorded: tiers, caches, ranks, and layers over shards of the graph.

Numbers that models compute are sums of small integers, which are exact in any order.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from functools import partial

import torch
from ranks import run_ranks
from torch import Tensor

import headrace as hr

from plans import NUM_NODES, PLANS, RowsOnDisk, graph, items, store

POLICIES = "static", "lru", "clock", "s3-fifo", "sieve", "look-ahead"


def digest_of(tensors: list[Tensor]) -> str:
    data = b"".join(str((one.dtype, list(one.shape))).encode() + one.contiguous().numpy().tobytes() for one in tensors)
    return hashlib.sha256(data).hexdigest()[:16]


def batches_and_counts(plan: hr.Plan, **options: object) -> str:
    """Return one digest of all batches, and what the stages that were written count."""
    with plan.loader(machine=hr.Machine(cores=2, memory=1 << 33), num_threads=1, **options) as loader:
        digests = "".join(batch.digest() for batch in loader)
        counts = {name: dict(loader.stats()[name]) for name in plan.names}
    for one in counts.values():
        one.pop("seconds", None)
    return f"{hashlib.sha256(digests.encode()).hexdigest()[:16]} {counts}"


def tiers(**numbers: int) -> str:
    rank = torch.arange(NUM_NODES) * 37 % NUM_NODES
    rows, _ = store().node["x"].read(torch.arange(NUM_NODES))
    source = RowsOnDisk(rows)
    planned = hr.plan_tiers(hr.FeatureStore(node={"x": source}), graph(), hr.Machine(), NUM_NODES - rank)
    sizes = dataclasses.replace(planned.sizes, **numbers)
    devices = tuple(hr.Place("cuda", number) for number in range(sizes.num_devices))
    feature = hr.TieredFeature(source, rank, sizes, devices=devices, here=0, stand_ins=True)
    return batches_and_counts(
        items().sample_neighbor(graph(), [5, 3]).fetch_feature(hr.FeatureStore(node={"x": feature}), node=["x"])
    )


def cache(policy: str) -> str:
    scores = torch.arange(NUM_NODES) * 29 % NUM_NODES
    options = {"static": {"ids": torch.arange(0, NUM_NODES, 5)}, "look-ahead": {"rows": 120, "scores": scores}}
    feature = hr.CachedFeature(store().node["x"], policy, **options.get(policy, {"rows": 120}))
    return batches_and_counts(
        items(batch_size=3)
        .sample_neighbor(graph(), [5, 3])
        .fetch_feature(hr.FeatureStore(node={"x": feature}), node=["x"])
    )


def together(name: str, num_ranks: int) -> str:
    """Return a digest for each rank of a loader that cooperates."""

    def rank(comm: hr.Comm) -> str:
        with PLANS[name]().loader(cooperative=True, comm=comm, machine=hr.Machine(cores=2)) as loader:
            digests = "".join(batch.digest() for batch in loader)
        return hashlib.sha256(digests.encode()).hexdigest()[:16]

    return " ".join(run_ranks(num_ranks, rank))


def integers(num_rows: int, width: int, step: int) -> Tensor:
    return (torch.arange(num_rows * width) * step % 7 - 3).double().reshape(num_rows, width)


def in_shards(num_ranks: int, **options: str) -> str:
    """Return a digest of two aggregations over shards and their gradients, in the order of nodes."""
    partition = hr.Partition.range(NUM_NODES, num_ranks)

    def rank(comm: hr.Comm) -> tuple[Tensor, Tensor]:
        place = hr.sar.ShardedGraph(graph(), partition, comm=comm)
        with place:
            x = place.rows(integers(NUM_NODES, 3, 5)).requires_grad_()
            out = place.aggregate(place.aggregate(x, **options), **options)
            (out * place.rows(integers(NUM_NODES, 3, 3))).sum().backward()
        assert x.grad is not None
        return out.detach(), x.grad

    outs, gradients = zip(*run_ranks(num_ranks, rank), strict=True)
    return digest_of([torch.cat(outs), torch.cat(gradients)])


WORK: dict[str, Callable[[], str]] = {
    "tiers_host": partial(tiers, host=50),
    "tiers_all": partial(tiers, replicated=20, interleaved=30, host=40, num_devices=2),
    **{f"cache_{policy}": partial(cache, policy) for policy in POLICIES},
    **{
        f"together_{name}_{num_ranks}": partial(together, name, num_ranks)
        for name in ("neighbor", "labor_star", "ladies", "shadow", "typed", "typed_temporal", "temporal_labor")
        for num_ranks in (2, 3)
    },
    **{f"together_{name}_2": partial(together, name, 2) for name in ("link_negatives", "link_triplets", "pinsage")},
    **{
        f"shards_{reduce}_{num_ranks}": partial(in_shards, num_ranks, reduce=reduce)
        for reduce in ("sum", "max")
        for num_ranks in (1, 2, 3)
    },
}
