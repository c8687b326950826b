"""Graphs and features in shards: the same batches, wherever rows are, in the published number of rounds."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from ranks import partition, run_ranks

import headrace as hr
from headrace.pipeline.distributed.local_comm import LocalComm

from plans import graph, items, store

SAMPLERS = {
    "neighbor": lambda plan, one: plan.sample_neighbor(one, [4, 3, 2]),
    "labor": lambda plan, one: plan.sample_layer_neighbor(one, [4, 3]),
    "weighted": lambda plan, one: plan.sample_neighbor(one, [4, 3], weight="weight"),
    "weighted_labor": lambda plan, one: plan.sample_layer_neighbor(one, [4, 3], weight="weight", edge_ids=False),
    "full": lambda plan, one: plan.sample_neighbor(one, [-1, -1]),
    "new": lambda plan, one: plan.sample_neighbor(one, [4, 3, 2], expand="new"),
}


def in_shards(owners: hr.Partition, part: int, cached: torch.Tensor | None = None) -> hr.FeatureStore:
    x = hr.ShardedFeature.of(store().node["x"].rows_in_place, owners, part, cached=cached)
    return hr.FeatureStore(node={"x": x, "y": store().node["y"]})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hash", "table"])
@pytest.mark.parametrize(
    ("sampler", "cooperative"), [*product(SAMPLERS, [False]), *product(sorted(SAMPLERS.keys() - {"new"}), [True])]
)
def test_bytes_that_are_counted_are_those_that_channels_carry(sampler, kind, cooperative, monkeypatch):
    """But for sizes, 32 bytes to each other rank before what they are the sizes of: one, and the place of the rank."""
    owners, carried, sizes = partition(kind, 3), [0] * 3, [0] * 3
    carry, tell_sizes = LocalComm._all_to_all, LocalComm.all_to_all_counts

    def counted(self, sent, received, send_counts, receive_counts, meanwhile):
        to_others = sum(send_counts) - send_counts[self.rank]
        carried[self.rank] += to_others * sent.shape[1]
        carry(self, sent, received, send_counts, receive_counts, meanwhile)

    def counted_sizes(self, counts, **options):
        sizes[self.rank] += 32 * (self.world_size - 1)
        return tell_sizes(self, counts, **options)

    monkeypatch.setattr(LocalComm, "_all_to_all", counted)
    monkeypatch.setattr(LocalComm, "all_to_all_counts", counted_sizes)

    def work(comm: hr.Comm) -> tuple[float, float]:
        plan = SAMPLERS[sampler](items(batch_size=40), graph().shard(owners, comm.rank))
        plan = plan.fetch_feature(in_shards(owners, comm.rank), node=["x"], labels="y")
        with plan.loader(comm=comm, cooperative=cooperative, prefetch=False) as loader:
            carried[comm.rank] = sizes[comm.rank] = 0  # ranks compared their plans
            for _ in loader:
                pass
            stats = loader.stats()
        hops = [totals for name, totals in stats.lowered.items() if name.startswith("sample_hop")]
        at_owners = sum(totals["sent_bytes"] for totals in hops)
        return stats.total("sent_bytes"), at_owners

    counts = run_ranks(3, work)
    assert [total for total, _ in counts] == [every - some for every, some in zip(carried, sizes, strict=True)]
    assert cooperative or any(at_owners > 0 for _, at_owners in counts)
