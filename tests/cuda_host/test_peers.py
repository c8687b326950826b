"""Tiers over the devices of several processes, which stand-ins are here: kernels read rows of other processes."""

from __future__ import annotations

import pytest
from ranks import run_processes

PROGRAM = """
import sys, torch
import headrace as hr
from headrace.ops import TierSizes
from headrace.cuda.backend import stand_in
from headrace.ops.memory_promises import promised
from cuda_host.stand_in import StandIn
from plans import graph, items, store
rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
x = store().node["x"].read(torch.arange(graph().num_nodes)).rows
row, num_rows = x[0].nbytes, len(x)
order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(1))
here = hr.Place("cuda", 0)

with stand_in(StandIn()):
    for sizes in ((10, 60, 40), (0, num_rows, 0), (0, 1, 0), (num_rows, 0, 0)):
        tiers = hr.TieredFeature(x, order, TierSizes(*sizes, num_devices=world_size), devices=[here], peers=True)
        there = promised(0)
        assert (there.num_bytes, there.unfilled) == (row * (sizes[0] + tiers.router.sizes.interleaved_at(rank)), 0)
        tiers.prepare(here)
        ids = torch.randint(num_rows, (300,), generator=torch.Generator().manual_seed(rank))
        rows, counts = tiers.read(ids, to=here)
        assert torch.equal(rows, x[ids])
        spread = order[ids] - sizes[0]
        peers = (spread >= 0) & (spread < sizes[1]) & (spread % world_size != rank)
        assert counts.get("bytes_from_peer", 0) == row * int(peers.sum())
        assert sum(counts.values()) == row * 300
        assert torch.equal(tiers.read(ids).rows, x[ids])  # to the CPU, from the source
        tiers.close()
        assert promised(0).num_bytes == 0

    kept = hr.TieredFeature(x, order, TierSizes(10, 60, 40, num_devices=world_size), devices=[here], peers=True)
    batches = items().sample_neighbor(graph(), [5, 3])
    plan = batches.fetch_feature(hr.FeatureStore(node={"x": kept}), node=["x"]).copy_to("cuda:0")
    with plan.loader(machine=hr.Machine(cores=2, gpus=1)) as loader:
        assert "fetch_to" in loader.explain()
        found = [batch.digest() for batch in loader]
        assert "bytes_from_peer" in str(loader.stats())
    kept.close()
with batches.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"]).loader(machine=hr.Machine()) as loader:
    assert found == [batch.digest() for batch in loader]
"""


@pytest.mark.thorough
@pytest.mark.parametrize("world_size", [2, 3])
def test_kernels_read_rows_of_other_processes(world_size, tmp_path):
    run_processes(PROGRAM, world_size, tmp_path / "meeting")
