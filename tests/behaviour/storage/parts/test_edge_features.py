"""Features of edges in parts: rows are at the owners of the destinations, and batches are those of whole features."""

from __future__ import annotations

import pytest
import torch
from part_files import write
from ranks import partition, run_ranks

import headrace as hr

from plans import NUM_NODES, RELATIONS, graph, items, pairs, store, timed_graph, typed_graph, typed_items, typed_store

SAMPLERS = {
    "neighbor": lambda plan, one: plan.sample_neighbor(one, [4, 3, 2]),
    "labor": lambda plan, one: plan.sample_layer_neighbor(one, [4, 3]),
    "new": lambda plan, one: plan.sample_neighbor(one, [4, 3], expand="new"),
    "full": lambda plan, one: plan.sample_in_subgraph(one, num_hops=2),
    "trees": lambda plan, one: plan.sample_neighbor(one, [3, 2], disjoint=True),
}


def digests(plan: hr.Plan, **options: object) -> list[str]:
    with plan.loader(**options) as loader:
        return [batch.digest() for batch in loader]


def fetched(plan: hr.Plan, features: hr.FeatureStore) -> hr.Plan:
    return plan.fetch_feature(features, node=["x"], edge=["e"], labels="y")


def of_types(plan: hr.Plan, features: hr.FeatureStore) -> hr.Plan:
    return plan.fetch_feature(features, node={"a": ["x"]}, edge={RELATIONS[1]: ["e"]}, labels={"a": "y"})


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("kind", ["hash", "range", "table"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.combinations(9)
def test_batches_are_those_of_whole_features(tmp_path, sampler, kind, world_size):
    owners = partition(kind, world_size)
    parts = write(tmp_path / "parts", graph(), owners, store())
    seeds = {"batch_size": 40, "shuffle": True, "seed": 3}

    def work(comm: hr.Comm) -> list[str]:
        data = hr.open_dataset(parts, rank=comm.rank)
        source = hr.ItemSampler(NUM_NODES, **seeds)
        return digests(fetched(SAMPLERS[sampler](source, data.graph), data.store), comm=comm)

    for rank, found in enumerate(run_ranks(world_size, work)):
        source = hr.ItemSampler(NUM_NODES, **seeds, partition=owners)
        alone = fetched(SAMPLERS[sampler](source, graph()), store())
        assert found == digests(alone, rank=rank, world_size=world_size)


@pytest.mark.parametrize("world_size", [2, 3])
def test_pairs_without_their_own_edges(tmp_path, world_size):
    parts = write(tmp_path / "parts", graph(), partition("table", world_size), store())

    def plan(one: hr.Graph, features: hr.FeatureStore) -> hr.Plan:
        sampled = pairs(batch_size=40).exclude_seed_edges().sample_neighbor(one, [4, 3])
        return sampled.fetch_feature(features, node=["x"], edge=["e"])

    def work(comm: hr.Comm) -> list[str]:
        data = hr.open_dataset(parts, rank=comm.rank)
        return digests(plan(data.graph, data.store), comm=comm)

    for rank, found in enumerate(run_ranks(world_size, work)):
        assert found == digests(plan(graph(), store()), rank=rank, world_size=world_size)


def test_edges_that_are_early_enough(tmp_path):
    owners = partition("hash", 3)
    parts = write(tmp_path / "parts", timed_graph(), owners, store())
    seeds = {"batch_size": 40, "shuffle": True, "seed": 3, "time": torch.arange(NUM_NODES) * 13 % 50}

    def plan(one: hr.Graph, features: hr.FeatureStore, **of_source: object) -> hr.Plan:
        return fetched(
            hr.ItemSampler(NUM_NODES, **seeds, **of_source).sample_neighbor(one, [4, 3], time="time"), features
        )

    def work(comm: hr.Comm) -> list[str]:
        data = hr.open_dataset(parts, rank=comm.rank)
        return digests(plan(data.graph, data.store), comm=comm)

    for rank, found in enumerate(run_ranks(3, work)):
        assert found == digests(plan(timed_graph(), store(), partition=owners), rank=rank, world_size=3)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_types(tmp_path, world_size):
    owners = partition("hash", world_size)
    parts = write(tmp_path / "parts", typed_graph(), owners, typed_store())

    def plan(one: hr.Graph, features: hr.FeatureStore, **of_source: object) -> hr.Plan:
        return of_types(typed_items(**of_source).sample_neighbor(one, {"likes": [4, 2], "default": [3, 2]}), features)

    def work(comm: hr.Comm) -> list[str]:
        data = hr.open_dataset(parts, rank=comm.rank)
        return digests(plan(data.graph, data.store), comm=comm)

    for rank, found in enumerate(run_ranks(world_size, work)):
        assert found == digests(plan(typed_graph(), typed_store(), partition=owners), rank=rank, world_size=world_size)


@pytest.mark.parametrize("kind", ["hash", "table"])
@pytest.mark.parametrize("sampler", ["neighbor", "labor", "full", "trees"])
@pytest.mark.combinations(5)
def test_ranks_that_cooperate_have_the_rows_of_the_edges_that_they_find(tmp_path, sampler, kind):
    parts = write(tmp_path / "parts", graph(), partition(kind, 3), store())
    e = store().edge["e"].rows_in_place

    def work(comm: hr.Comm) -> int:
        data = hr.open_dataset(parts, rank=comm.rank)
        plan = fetched(SAMPLERS[sampler](items(batch_size=40), data.graph), data.store)
        num_edges = 0
        with plan.loader(comm=comm, cooperative=True) as loader:
            assert "fetch_edges" not in loader.explain()
            for batch in loader:
                for block, rows in zip(batch.blocks, batch.edge["e"], strict=True):
                    assert torch.equal(rows, e[block.edge_ids])
                    num_edges += len(rows)
        return num_edges

    assert sum(run_ranks(3, work)) > 0


def test_ranks_that_cooperate_take_the_seeds_that_they_own(tmp_path):
    """So labels may be cut as well: each rank reads those of its own seeds."""
    owners = partition("hash", 3)
    parts = write(tmp_path / "parts", graph(), owners, store(), whole=[])

    def work(comm: hr.Comm) -> list[torch.Tensor]:
        data = hr.open_dataset(parts, rank=comm.rank)
        plan = fetched(items(batch_size=40).sample_neighbor(data.graph, [4, 3]), data.store)
        with plan.loader(comm=comm, cooperative=True) as loader:
            batches = list(loader)
        for batch in batches:
            assert (owners.owner(batch.seeds) == comm.rank).all()
            assert torch.equal(batch.y, store().node["y"].read(batch.seeds).rows)
        return [batch.seeds for batch in batches]

    found = torch.cat([seeds for shares in run_ranks(3, work) for seeds in shares])
    assert found.sort().values.tolist() == list(range(0, NUM_NODES, 2))


def test_parts_of_two_cuts_differ():
    edges = [graph().shard(owners, 0).edges for owners in (partition("hash", 2), partition("range", 2))]
    assert edges[0] == graph().shard(partition("hash", 2), 0).edges != edges[1]
    assert edges[0] != graph().shard(partition("hash", 2), 1).edges


def test_a_round_for_ids_and_one_for_rows_of_each_feature():
    owners, whole = partition("hash", 2), graph()
    one, other = torch.rand(whole.num_edges, 3), torch.arange(whole.num_edges)

    def work(comm: hr.Comm) -> dict:
        shard = whole.shard(owners, comm.rank)
        features = hr.FeatureStore(edge={name: hr.ShardedFeature.of(rows, shard.edges) for name, rows in both.items()})
        plan = hr.ItemSampler(NUM_NODES, batch_size=50).sample_neighbor(whole, [4, 3])
        with plan.fetch_feature(features, edge=["one", "other"]).loader(comm=comm) as loader:
            batches = list(loader)
            for batch in batches:
                for name, rows in both.items():
                    for block, found in zip(batch.blocks, batch.edge[name], strict=True):
                        assert torch.equal(found, rows[block.edge_ids])
            return {**loader.stats()["fetch_feature"], "batches": len(batches)}

    both = {"one": one, "other": other}
    for counts in run_ranks(2, work):
        assert counts["rounds"] == 3 * counts["batches"]
        assert counts["collectives"] == 4 * counts["batches"]
        assert counts["bytes_from_rank"] > 0


def test_rows_of_a_part_in_memory_are_those_of_its_edges():
    whole, owners = graph(), partition("table", 3)
    e = store().edge["e"].rows_in_place
    seen = []
    for part in range(3):
        edges = whole.shard(owners, part).edges
        feature = hr.ShardedFeature.of(e, edges)
        own = edges.owned(part)
        assert torch.equal(feature.read(own.flip(0)).rows, e[own.flip(0)])
        seen.append(own)
        assert (feature.num_rows, feature.shape) == (whole.num_edges, (whole.num_edges, 3))
    assert torch.cat(seen).sort().values.tolist() == list(range(whole.num_edges))


def test_what_is_refused():
    whole, owners = graph(), partition("hash", 2)
    e, shard = torch.rand(whole.num_edges, 2), graph().shard(owners, 0)
    feature = hr.ShardedFeature.of(e, shard.edges)
    foreign = whole.shard(owners, 1).edges.owned(1)[:1]
    with pytest.raises(hr.InputError, match=r"row of edge \d+ is at another rank, .* this is rank 0"):
        feature.read(foreign)
    with pytest.raises(hr.InputError, match=f"got edge {int(foreign)} of another part"):
        shard.edges.position(foreign)
    with pytest.raises(hr.InputError, match="expected part 0, whose edges these are, got 1"):
        hr.ShardedFeature.of(e, shard.edges, 1)
    with pytest.raises(hr.InputError, match="expected cached of nodes alone, got it for edges"):
        hr.ShardedFeature.of(e, shard.edges, cached=foreign)


def test_rows_that_were_cut_as_nodes_are_refused():
    whole = graph()

    def work(comm: hr.Comm) -> bool:
        by_ids = hr.ShardedFeature.of(torch.rand(whole.num_edges), hr.Partition.hash(whole.num_edges, 2), comm.rank)
        plan = hr.ItemSampler(NUM_NODES).sample_neighbor(whole, [2])
        with pytest.raises(hr.InputError, match="feature 'e' to have the edges of a part, got one by Hash"):
            plan.fetch_feature(hr.FeatureStore(edge={"e": by_ids}), edge=["e"]).loader(comm=comm)
        return True

    assert all(run_ranks(2, work))


def test_edges_that_lead_back_need_whole_rows(tmp_path):
    parts = write(tmp_path / "parts", graph(), partition("hash", 2), store())
    whole = write(tmp_path / "whole", graph(), partition("hash", 2), store(), whole=["y", "e"])

    def plan(data: hr.Dataset) -> hr.Plan:
        sampled = items(batch_size=40).sample_neighbor(data.graph, [3, 2], expand="new").make_bidirectional()
        return sampled.fetch_feature(data.store, edge=["e"])

    def work(comm: hr.Comm) -> int:
        with pytest.raises(hr.PlanError, match=r"\['e'\] whole behind make_bidirectional, .* whole=\['e'\]"):
            plan(hr.open_dataset(parts, rank=comm.rank)).loader(comm=comm)
        with plan(hr.open_dataset(whole, rank=comm.rank)).loader(comm=comm) as loader:
            return sum(len(rows) for batch in loader for rows in batch.edge["e"])

    assert all(run_ranks(2, work))


def test_ranks_that_share_edges_need_whole_rows():
    edges, owners = hr.EdgePartition.by_source(graph(), 2), partition("hash", 2)

    def work(comm: hr.Comm) -> bool:
        rows = hr.ShardedFeature.of(store().edge["e"].rows_in_place, graph().shard(owners, comm.rank).edges)
        plan = (
            items().sample_in_subgraph(graph(), num_hops=1).fetch_feature(hr.FeatureStore(edge={"e": rows}), edge=["e"])
        )
        with pytest.raises(hr.PlanError, match=r"expected edge features \['e'\] whole where ranks share edges"):
            plan.loader(comm=comm, cooperative=True, partition=edges)
        return True

    assert all(run_ranks(2, work))


@pytest.mark.parametrize("cooperative", [False, True])
def test_items_of_each_rank_stay_where_they_are(tmp_path, cooperative):
    owners = partition("hash", 2)
    parts = write(tmp_path / "parts", graph(), owners, store(), whole=["y"])
    e = store().edge["e"].rows_in_place

    def work(comm: hr.Comm) -> int:
        data = hr.open_dataset(parts, rank=comm.rank)
        mine = torch.arange(comm.rank * 50, comm.rank * 50 + 50)
        source = hr.ItemSampler(mine, batch_size=20, items_per_rank=True)
        plan = fetched(source.sample_neighbor(data.graph, [4, 3]), data.store)
        with plan.loader(comm=comm, cooperative=cooperative) as loader:
            batches = list(loader)
        assert torch.equal(torch.cat([batch.seeds for batch in batches]), mine)
        for batch in batches:
            for block, rows in zip(batch.blocks, batch.edge["e"], strict=True):
                assert torch.equal(rows, e[block.edge_ids])
        return len(batches)

    assert all(run_ranks(2, work))


def test_walks_over_shards_are_refused():
    def work(comm: hr.Comm) -> bool:
        one = graph().shard(partition("hash", 2), comm.rank)
        plan = items().sample_pinsage(one, num_layers=1, num_neighbors=3, num_walks=3, walk_length=2)
        with pytest.raises(hr.PlanError, match="cannot walk a graph in shards"):
            plan.loader(comm=comm, cooperative=True)
        return True

    assert all(run_ranks(2, work))


def test_owners_of_another_part_are_refused(tmp_path):
    parts = write(tmp_path / "parts", graph(), partition("table", 2), store())
    owners = hr.open_dataset(parts, rank=0).part.partition
    with pytest.raises(hr.InputError, match=r"places of part 1, got those of part 0, .* rank=1\).part.partition"):
        hr.ShardedFeature.of(store().node["x"].rows_in_place, owners, 1)
    assert owners == partition("table", 2)
    assert partition("table", 2) == owners
    assert owners != partition("hash", 2)


@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_rows_are_decoded_where_they_are_wanted(dtype):
    """Codes and halves travel as they are stored."""
    whole, owners = graph(), partition("hash", 2)
    codes = hr.QuantizedFeature.of(store().edge["e"].rows_in_place)
    how = codes.quantization
    alone = hr.FeatureStore(edge={"e": codes})

    def plan(features: hr.FeatureStore, **of_source: object) -> hr.Plan:
        sampled = hr.ItemSampler(NUM_NODES, batch_size=50, **of_source).sample_neighbor(whole, [4, 3])
        return sampled.fetch_feature(features, edge=["e"], dtype=dtype or torch.float32)

    def work(comm: hr.Comm) -> list[str]:
        rows = hr.ShardedFeature.of(codes.codes.tensor, whole.shard(owners, comm.rank).edges)
        return digests(
            plan(hr.FeatureStore(edge={"e": hr.QuantizedFeature(rows, how.scale, how.zero_point)})), comm=comm
        )

    for rank, found in enumerate(run_ranks(2, work)):
        assert found == digests(plan(alone, partition=owners), rank=rank, world_size=2)
