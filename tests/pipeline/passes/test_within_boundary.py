"""What ranks count as sent for edges within a boundary is what goes over the channel; on a GPU it is the same."""

from __future__ import annotations

import pytest
from ranks import partition, run_ranks

import headrace as hr
from headrace.pipeline.distributed.channel import Comm

from gpu_plans import digests, names
from plans import NUM_NODES, graph, store

CLUSTERS = hr.Partition.hash(NUM_NODES, 6)


def clusters(boundary: int | None = 0, num_hops: int = 2) -> hr.Plan:
    return hr.ClusterSampler(CLUSTERS, 2, boundary=boundary, seed=3).sample_in_subgraph(graph(), num_hops=num_hops)


@pytest.mark.parametrize("world_size", [2, 3])
def test_bytes_are_those_of_the_channel(world_size, monkeypatch):
    """Ids that are asked for and answers, but what a rank sends to itself."""
    sent, all_to_all = [0] * world_size, Comm.all_to_all

    def counted(comm, rows, send_counts, receive_counts, **options):
        sent[comm.rank] += rows[:1].nbytes * (sum(send_counts) - send_counts[comm.rank])
        return all_to_all(comm, rows, send_counts, receive_counts, **options)

    def work(comm):
        owners = partition("hash", world_size)
        with clusters(0, num_hops=3).loader(cooperative=True, comm=comm, partition=owners, prefetch=False) as loader:
            sent[comm.rank] = 0  # ranks compared their plans
            assert len(list(loader)) == 3
            return loader.stats().lowered["induce_hop"]["sent_bytes"], loader.stats().total("sent_bytes")

    monkeypatch.setattr(Comm, "all_to_all", counted)
    found = run_ranks(world_size, work)
    assert [total for _, total in found] == sent
    assert all(of_hop > 0 for of_hop, _ in found)


def test_a_gpu_gets_what_the_cpu_samples():
    plan = hr.ClusterSampler(CLUSTERS, 2, seed=3).copy_to("cuda").sample_in_subgraph(graph(), num_hops=2)
    plan = plan.fetch_feature(store(), node=["x"])
    assert names(plan)[:2] == ["cluster_sampler", "induce_hop"]
    assert digests(plan) == digests(clusters().fetch_feature(store(), node=["x"]), hr.Machine())
