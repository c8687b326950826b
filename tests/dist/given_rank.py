"""What one rank of `test_given.py` does: loaders of things that ranks were given by hand, and what became of them.

The file is run as by torchrun, and prints a line of JSON for each rank.
"""

from __future__ import annotations

import json
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import headrace as hr

NUM_NODES = 200


def graph(rank: int) -> hr.Graph:
    generator = torch.Generator().manual_seed(rank)
    return hr.Graph.from_coo(*torch.randint(0, NUM_NODES, (2, 2_000), generator=generator), num_nodes=NUM_NODES)


def typed() -> hr.Graph:
    generator = torch.Generator().manual_seed(0)
    to_b = torch.stack(
        [torch.randint(0, 120, (500,), generator=generator), torch.randint(120, 200, (500,), generator=generator)]
    )
    kinds = {"node_types": {"a": 120, "b": 80}, "edge_types": {("a", "to", "b"): 500, ("b", "to", "a"): 500}}
    return hr.Graph.from_coo(*torch.cat([to_b, to_b.flip(0)], dim=1), num_nodes=200, **kinds)


def links(one: hr.Graph) -> torch.Tensor:
    destinations = torch.arange(one.num_nodes).repeat_interleave(one.indptr.diff())
    return torch.stack([one.indices.long(), destinations], dim=1)[:300]


def cut_by_hand(rank: int, size: int) -> dict[str, hr.Plan]:
    """Plans as scripts for several GPUs make them, of which each rank gives its own items, or something else."""
    ids, one = torch.arange(180), graph(0)
    pairs = links(one)

    def plan(items: object, **options: object) -> hr.Plan:
        return hr.ItemSampler(items, **{"batch_size": 30, "shuffle": True, "seed": 0, **options}).sample_neighbor(
            one, [3]
        )

    labels = torch.arange(180)
    times = torch.arange(180) + rank
    return {
        # DGL: torch.split of the training ids; PyG: train_idx.split(train_idx.size(0) // world_size)[rank].
        "items": plan(torch.split(ids, len(ids) // size)[rank]),
        "uneven": plan(ids[rank * 50 : (rank + 1) * 60]),
        "strided": plan(ids[rank::size]),
        "mask": plan((torch.arange(NUM_NODES) % size) == rank),
        "labelled": plan((ids, labels + rank)),
        "pairs": plan(pairs.chunk(size)[rank]),
        "time": hr.ItemSampler(ids, batch_size=30, seed=0, time=times).sample_neighbor(one, [3]),
        "typed": hr.ItemSampler({"a": torch.arange(120).chunk(size)[rank]}, seed=0).sample_neighbor(typed(), [3]),
        "seed": plan(ids, seed=rank),
        "some seed": plan(ids, seed=None if rank else 0),
        "batch_size": plan(ids, batch_size=30 + rank),
        "shuffle": plan(ids, shuffle=not rank),
        "fanouts": hr.ItemSampler(ids, seed=0).sample_neighbor(one, [3 + rank]),
        "graph": hr.ItemSampler(ids, seed=0).sample_neighbor(graph(rank), [3]),
        "stages": plan(ids) if rank else hr.ItemSampler(ids, seed=0).sample_layer_neighbor(one, [3]),
        "clusters": hr.ClusterSampler(hr.Partition.of(torch.arange(NUM_NODES) // (10 + rank)), seed=0),
        "global": hr.GlobalBatch(graph(rank), seed=0),
    }


def own_items(rank: int, size: int) -> dict[str, hr.Plan]:
    """Plans to which each rank brings its own, of other lengths."""
    one, kinds = graph(0), typed()
    ends = [0, 20, 110, 180][: size + 1]
    ids, pairs = torch.arange(180)[ends[rank] : ends[rank + 1]], links(one)[ends[rank] : ends[rank + 1]]
    options = {"batch_size": 25, "shuffle": True, "seed": 3, "items_per_rank": True}
    by_type = {"a": ids[ids < 110], "b": ids[ids >= 110] - 110}
    return {
        "ids": hr.ItemSampler(ids, **options).sample_neighbor(one, [3, 3]),
        "in order": hr.ItemSampler(ids, **{**options, "shuffle": False}).sample_neighbor(one, [3]),
        "per rank": hr.ItemSampler(
            ids, batch_size_per_rank=12, shuffle=True, seed=3, items_per_rank=True
        ).sample_neighbor(one, [3]),
        "unnamed seed": hr.ItemSampler(ids, batch_size=25, shuffle=True, items_per_rank=True).sample_neighbor(one, [3]),
        "labelled": hr.ItemSampler((ids, ids * 7), **options).sample_neighbor(one, [3]),
        "timed": hr.ItemSampler(ids, time=ids * 3, **options).sample_neighbor(one, [3]),
        "pairs": hr.ItemSampler(pairs, **options)
        .sample_uniform_negative(one, 2)
        .exclude_seed_edges()
        .sample_neighbor(one, [3]),
        "types": hr.ItemSampler(by_type, **options).sample_neighbor(kinds, [3]),
        "one rank has none": hr.ItemSampler(ids if rank else [], **options).sample_neighbor(one, [3]),
    }


def epoch(plan: hr.Plan) -> dict[str, object]:
    loader = plan.loader()
    batches = list(loader)
    iterator = iter(loader)  # the next epoch
    for _ in range(3):
        next(iterator)
    state = [loader.state_dict()]
    dist.broadcast_object_list(state)  # as scripts save that of rank 0
    resumed = plan.loader()
    resumed.load_state_dict(state[0])
    for batch in batches:
        assert batch.y is None or batch.seeds.dim() == 2 or torch.equal(batch.y, batch.seeds * 7)
        positives = batch.item_index[: batch.num_positives]
        assert batch.seed_time is None or torch.equal(batch.seed_time, batch.seeds * 3)
        assert len(positives) == len(batch.seeds[: batch.num_positives])
    return {
        "seeds": [batch.seeds[: batch.num_positives].tolist() for batch in batches],
        "sizes": [len(batch.seeds) for batch in batches],  # with negatives
        "global": [batch.num_global_seeds for batch in batches],
        "resumed": [batch.digest() for batch in resumed] == [batch.digest() for batch in iterator],
    }


def refusal(plan: hr.Plan) -> str:
    try:
        list(plan.loader())
    except hr.PlanError as error:
        return str(error)
    return ""


def moved(rank: int, *, alone: bool) -> dict[str, object]:
    """Go to another place on rank 1 alone, or on all ranks; then to one place."""
    state = {}
    one = hr.ItemSampler(180, batch_size=30, seed=0).loader()
    for batch in one:
        if batch.index == 2:
            state = one.state_dict()
            break
    dist.barrier()
    loader = hr.ItemSampler(180, batch_size=30, seed=0).loader()
    if rank == 1 or not alone:
        loader.load_state_dict(state)
    told, batches = [], iter(loader)
    for step in (next, list):  # all begin before one goes on
        try:
            step(batches)
        except hr.PeerError as error:
            told.append(str(error))
        dist.barrier()
    loader.set_epoch(5)
    if rank == 0:
        next(iter(loader))
        loader.set_epoch(5)
    return {"told": told, "batches": len(list(loader)) + len(list(loader))}


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    told: dict[str, object] = {}
    for name, plan in cut_by_hand(rank, size).items():
        told[name] = refusal(plan)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told["own"] = {name: epoch(plan) for name, plan in own_items(rank, size).items()}
    told["warnings"] = sorted({str(one.message) for one in caught})
    told["moved"] = {str(alone): moved(rank, alone=alone) for alone in (True, False)}
    try:
        plan = hr.ItemSampler(180, seed=0).sample_neighbor(graph(0), [3])
        plan.loader(cooperative=bool(rank))
    except hr.PlanError as error:
        told["cooperative"] = str(error)
    try:
        plan = hr.ItemSampler(180, seed=0)
        plan.loader() if rank else plan.sample_neighbor(graph(0), [3]).loader(cache=True)
    except hr.HeadraceError as error:
        told["refused"] = f"{type(error).__name__}: {error}"
    if rank == 0:
        told["alone"] = sum(len(batch.seeds) for batch in hr.ItemSampler(50).loader(rank=0, world_size=1))
        try:
            hr.ItemSampler(50).loader()
        except hr.PeerError as error:
            told["never"] = str(error)
    Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(told))
    if rank == 0:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
