"""Graphs and features in shards with seeds on GPUs: hops at owners, ids, edges and rows stay there."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from ranks import partition, run_ranks

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.local_comm import LocalComm

from cuda_host.stand_in import StandIn
from gpu_plans import copied_first
from plans import NUM_NODES, graph, items, pairs, store, timed_graph, timed_items, typed_graph, typed_items

#: A plan over a graph, and that graph.
PLANS = {
    "neighbor": (lambda one: items().sample_neighbor(one, [4, 3]), graph),
    "labor": (lambda one: items().sample_layer_neighbor(one, [4, -1]), graph),
    "weighted": (lambda one: items().sample_neighbor(one, [4, 3], weight="weight"), graph),
    "new": (lambda one: items().sample_neighbor(one, [4, 3], expand="new"), graph),
    "pairs": (lambda one: pairs().sample_neighbor(one, [4, 3]), graph),
    "links": (lambda one: pairs().exclude_seed_edges().sample_neighbor(one, [4, 3]), graph),
    "typed": (lambda one: typed_items().sample_neighbor(one, [3, 2]), typed_graph),
    "temporal": (lambda one: timed_items().sample_neighbor(one, [4, 3], time="time", window=30), timed_graph),
    "disjoint": (lambda one: items().sample_layer_neighbor(one, [4, 3], disjoint=True), graph),
    "shadow": (lambda one: items().sample_shadow(one, 2, 3), graph),
}
#: Those that a GPU samples; trees that leave out edges by tree, and subgraphs, are found in CPU memory.
THERE = set(PLANS) - {"shadow"}


def found(name: str, world_size: int, *, on_gpus: bool, cooperative: bool) -> list[tuple[list[str], str]]:
    """The digests of each rank, whose graph and features are in shards, and what ran."""
    owners = partition("table", world_size)
    chain, whole = PLANS[name]
    x = store().node["x"].read(torch.arange(NUM_NODES)).rows

    def work(comm: Comm) -> tuple[list[str], str]:
        cached = torch.arange(comm.rank, NUM_NODES, 5)
        rows = hr.FeatureStore(node={"x": hr.ShardedFeature.of(x, owners, comm.rank, cached=cached)})
        plan = chain(whole().shard(owners, comm.rank)).fetch_feature(rows, node=["x"])
        plan = copied_first(plan) if on_gpus else plan
        machine = hr.Machine(cores=2, gpus=world_size * on_gpus, current_gpu=comm.rank * on_gpus)
        options = {"cooperative": True, "partition": owners} if cooperative else {}
        with plan.loader(comm=comm, machine=machine, **options) as loader:
            return [batch.digest() for batch in loader], loader.explain()

    return run_ranks(world_size, work)


def on_gpus(name: str, world_size: int, *, cooperative: bool = False) -> list[tuple[list[str], str]]:
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        with stand_in(StandIn()):
            return found(name, world_size, on_gpus=True, cooperative=cooperative)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.slow
@pytest.mark.combinations(3)
@pytest.mark.parametrize("name", PLANS)
def test_owners_find_edges_and_rows_on_gpus(name):
    expected = found(name, 3, on_gpus=False, cooperative=False)
    there = on_gpus(name, 3)
    assert [digests for digests, _ in there] == [digests for digests, _ in expected]
    for _, text in there:
        runs = text.split("plan as written")[0]
        assert "through CPU memory" not in text
        if name in THERE:
            assert "finder=AtOwners()" in runs[runs.index("copy_to") :]
        assert "fetch_to" in runs[runs.index("copy_to") :]  # which reads owned rows, in pinned memory
        assert "exchange_rows" in runs[runs.index("copy_to") :]


@pytest.mark.parametrize("name", ["neighbor", "typed", "temporal"])
def test_ranks_make_batches_of_shards_together_on_gpus(name):
    expected = found(name, 2, on_gpus=False, cooperative=True)
    there = on_gpus(name, 2, cooperative=True)
    assert [digests for digests, _ in there] == [digests for digests, _ in expected]
    assert all("exchange_ids" in text[text.index("copy_to") :].split("plan as written")[0] for _, text in there)


@pytest.mark.parametrize("name", ["neighbor", "shadow"])
def test_a_channel_that_reaches_no_gpu_has_hops_and_fetches_in_cpu_memory(name, monkeypatch):
    expected = found(name, 2, on_gpus=False, cooperative=False)
    monkeypatch.setattr(LocalComm, "reaches_gpus", False)
    with pytest.warns(UserWarning, match="ids and rows of batches through CPU memory"):
        there = on_gpus(name, 2)
    assert [digests for digests, _ in there] == [digests for digests, _ in expected]
    for _, text in there:
        runs = text.split("plan as written")[0]
        assert runs.index("fetch_owned" if "fetch_owned" in runs else "fetch_and_exchange") < runs.index("copy_to")


@pytest.mark.parametrize("kind", ["hash", "range", "table"])
@pytest.mark.parametrize("copies", [[], [3, 150, 199]], ids=["owned", "with copies"])
def test_a_gpu_reads_rows_of_a_shard_in_place(kind, copies):
    owners = partition(kind, 3)
    x = torch.randn(NUM_NODES, 3)
    shard = hr.ShardedFeature.of(x, owners, 1, cached=torch.tensor(copies, dtype=torch.int64))
    ids = torch.cat([owners.owned(1).flip(0), torch.tensor(copies, dtype=torch.int64), owners.owned(1)[:1]])
    there = hr.Place("cuda", 0)
    assert shard.reads_to(there)
    backend = StandIn()
    with stand_in(backend):
        rows, counts = shard.read(ids, to=there)
        (other,) = (owners.owned(0) if not copies else owners.owned(0)[owners.owned(0) != 3])[:1].tolist()
        with pytest.raises(hr.InputError, match=f"row {other} is at rank 0, this is rank 1"):
            shard.read(torch.tensor([ids[0], other]), to=there)
    assert torch.equal(rows, x[ids])
    assert counts == {"bytes_from_pinned": rows.nbytes}
    assert any("gather" in launched for launched in backend.launches)
    moved = pickle.loads(pickle.dumps(shard))  # noqa: S301 - our own
    assert torch.equal(moved.read(ids).rows, x[ids])  # what is pinned stays here


@pytest.mark.parametrize("shared", [False, True], ids=["both move", "copies move"])
def test_a_shard_is_pinned_anew_where_torch_has_moved_its_rows_or_copies(shared):
    """Sent to another process, it moves to memory that processes share; rows that are there already stay."""
    owners = partition("hash", 2)
    x = torch.randn(NUM_NODES, 3)
    rows, copied = x[owners.owned(0)], owners.owned(1)[:4]
    if shared:
        rows.share_memory_()
    shard = hr.ShardedFeature(rows, owners, 0, cached=copied, cached_rows=x[copied])
    ids = torch.cat([owners.owned(0)[:5], copied])
    tables, backend = [rows, shard._cached_rows], StandIn()
    with stand_in(backend):
        backend.host.mark(*tables)
        shard.read(ids, to=hr.Place("cuda", 0))
        before = [table.data_ptr() for table in tables]
        ForkingPickler.dumps(shard)
        assert [table.data_ptr() != one for table, one in zip(tables, before, strict=True)] == [not shared, True]
        assert not all(map(backend.host.is_pinned, tables))
        found, _ = shard.read(ids, to=hr.Place("cuda", 0))
        assert all(map(backend.host.is_pinned, tables))
    assert torch.equal(found, x[ids])


def test_rows_of_a_shard_on_disk_are_read_by_the_cpu():
    owners = partition("hash", 2)
    on_disk = hr.ShardedFeature(torch.zeros(owners.sizes[0], 3), owners, 0, place=hr.Place("disk"))
    assert not on_disk.reads_to(hr.Place("cuda"))
    with pytest.raises(hr.InputError, match="expected to=cpu"):
        on_disk.read(owners.owned(0), to=hr.Place("cuda"))


def test_copies_that_were_written_since_are_refused_on_gpus_too():
    owners = partition("hash", 2)
    rows = torch.zeros(owners.sizes[0], 3)
    shard = hr.ShardedFeature(rows, owners, 0, cached=owners.owned(1)[:2], cached_rows=torch.ones(2, 3))
    rows.fill_(1)
    with stand_in(StandIn()), pytest.raises(hr.InputError, match="written since"):
        shard.read(owners.owned(0), to=hr.Place("cuda"))
