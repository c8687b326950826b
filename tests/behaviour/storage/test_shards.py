"""Graphs and features in shards: the same batches, wherever rows are, in the published number of rounds."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import assert_same_union, partition, run_ranks

import headrace as hr

from plans import NUM_NODES, PLANS, graph, items, store

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


def batches_of_shares(plan: hr.Plan, world_size: int) -> list[list[hr.MiniBatch]]:
    """The batches of each rank when nothing is in shards."""
    return [list(plan.loader(rank=rank, world_size=world_size)) for rank in range(world_size)]


@given(st.integers(1, 6), st.sampled_from(["hash", "range", "table"]))
def test_shards_hold_each_edge_once(num_parts, kind):
    owners, whole = partition(kind, num_parts), graph()
    shards = [whole.shard(owners, part) for part in range(num_parts)]
    assert sum(one.num_local_edges for one in shards) == whole.num_edges
    for part, one in enumerate(shards):
        assert torch.equal(one.own_nodes, owners.owned(part))
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), one.in_degrees().cumsum(0)])
        for v in range(0, NUM_NODES, 7):
            row, expected = (slice(bounds[v], bounds[v + 1]) for bounds in (starts, whole.indptr))
            if int(owners.owner(torch.tensor([v]))) != part:
                assert row.start == row.stop
                continue
            assert torch.equal(one.indices[row], whole.indices[expected])
            assert torch.equal(one.edge_ids[row].long(), whole.edge_ids[expected].long())
            assert torch.equal(one.edge_attrs_csc["weight"][row], whole.edge_attrs_csc["weight"][expected])
        assert one.content_digest() == whole.content_digest()
        assert repr(one) == repr(shards[0])


def test_a_shard_is_pickled_and_copied():
    one = graph().shard(partition("hash", 3), 1)
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):  # noqa: S301
        assert other == one
        assert (other.partition, other.part, other.content_digest()) == (one.partition, 1, one.content_digest())


def test_a_shard_has_no_attributes_in_input_order():
    with pytest.raises(hr.InputError, match="got part 1 of one; its own rows are edge_attrs_csc"):
        hr.FeatureStore(edge=graph().shard(partition("hash", 3), 1).edge_attrs)
    assert hr.Graph.from_coo([0], [1]).shard(hr.Partition.range(2, 2), 1).edge_attrs == {}


def test_a_shard_is_not_cut_again():
    with pytest.raises(hr.InputError, match="part 1 of a graph already; cut the whole graph"):
        graph().shard(partition("hash", 3), 1).shard(partition("hash", 3), 1)


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [2, 3, 5])
@pytest.mark.parametrize("kind", ["hash", "range", "table"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_hybrid_features_in_shards(sampler, kind, world_size):
    owners = partition(kind, world_size)
    plan = SAMPLERS[sampler](items(batch_size=40), graph())
    of_owners = SAMPLERS[sampler](items(batch_size=40, partition=owners), graph())
    expected = batches_of_shares(of_owners.fetch_feature(store(), node=["x"], labels="y"), world_size)

    def work(comm: hr.Comm) -> list[hr.MiniBatch]:
        mine = in_shards(owners, comm.rank, torch.arange(0, NUM_NODES, 3))
        with plan.fetch_feature(mine, node=["x"], labels="y").loader(comm=comm) as loader:
            return list(loader)

    for found, share in zip(run_ranks(world_size, work), expected, strict=True):
        assert [batch.digest() for batch in found] == [batch.digest() for batch in share]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hash", "range", "table"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_fully_partitioned(sampler, kind):
    """Each rank takes the seeds that it owns; its batches are those of one process that has only these seeds."""
    world_size, seed_items = 3, items(batch_size=40)
    owners = partition(kind, world_size)
    whole = list(seed_items.loader())

    def work(comm: hr.Comm) -> list[hr.MiniBatch]:
        plan = SAMPLERS[sampler](seed_items, graph().shard(owners, comm.rank))
        with plan.fetch_feature(in_shards(owners, comm.rank), node=["x"], labels="y").loader(comm=comm) as loader:
            return list(loader)

    shares = run_ranks(world_size, work)
    for rank, mine in enumerate(shares):
        for batch, all_seeds in zip(mine, whole, strict=True):
            assert torch.equal(batch.seeds, all_seeds.seeds[owners.owner(all_seeds.seeds) == rank])
            assert batch.num_global_seeds == len(all_seeds.seeds)
        # The same seeds in the same batches over the whole graph.
        plan = SAMPLERS[sampler](hr.ItemSampler(torch.arange(0, NUM_NODES, 2), **SHUFFLED, partition=owners), graph())
        alone = plan.fetch_feature(store(), node=["x"], labels="y").loader(rank=rank, world_size=world_size)
        assert [batch.digest() for batch in mine] == [batch.digest() for batch in alone]


SHUFFLED = {"batch_size": 40, "shuffle": True, "seed": 11}


@pytest.mark.parametrize("sampler", ["neighbor", "weighted_labor"])
def test_pairs_over_shards(sampler):
    pairs = hr.ItemSampler(torch.arange(60).reshape(30, 2) % 37, batch_size=7, shuffle=True, seed=3)
    owners = partition("hash", 3)
    expected = batches_of_shares(SAMPLERS[sampler](pairs, graph()), 3)

    def work(comm: hr.Comm) -> list[hr.MiniBatch]:
        with SAMPLERS[sampler](pairs, graph().shard(owners, comm.rank)).loader(comm=comm) as loader:
            return list(loader)

    for found, share in zip(run_ranks(3, work), expected, strict=True):
        assert [batch.digest() for batch in found] == [batch.digest() for batch in share]


@pytest.mark.parametrize("sampler", ["neighbor", "labor", "weighted", "full"])
def test_cooperation_over_shards(sampler):
    owners = partition("hash", 3)
    whole = list(SAMPLERS[sampler](items(batch_size=40), graph()).loader())

    def work(comm: hr.Comm) -> list[hr.MiniBatch]:
        plan = SAMPLERS[sampler](items(batch_size=40), graph().shard(owners, comm.rank))
        mine = in_shards(owners, comm.rank)
        with plan.fetch_feature(mine, node=["x"], labels="y").loader(comm=comm, cooperative=True) as loader:
            return list(loader)

    shares = run_ranks(3, work)
    for index, batch in enumerate(whole):
        assert_same_union(batch, [mine[index] for mine in shares], owners)
        for mine in shares:
            assert torch.equal(mine[index].x, store().node["x"].read(mine[index].n_id).rows)


def rounds_per_batch(plan_of, world_size: int, **options: object) -> float:
    def work(comm: hr.Comm) -> float:
        with plan_of(comm).loader(comm=comm, **options) as loader:
            num_batches = len(list(loader))
            return loader.stats().total("rounds") / num_batches

    (rounds,) = set(run_ranks(world_size, work))
    return rounds


@pytest.mark.slow
@pytest.mark.parametrize("fanout", [1, 5, -1])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_rounds(num_layers, fanout):
    """Hybrid partitioning takes 2 rounds per minibatch, full partitioning 2L, whatever the fan-out; one rank none."""
    fanouts = [fanout] * num_layers

    def hybrid(comm: hr.Comm) -> hr.Plan:
        owners = partition("hash", comm.world_size)
        return items().sample_neighbor(graph(), fanouts).fetch_feature(in_shards(owners, comm.rank), node=["x"])

    def full(comm: hr.Comm) -> hr.Plan:
        owners = partition("hash", comm.world_size)
        plan = items().sample_neighbor(graph().shard(owners, comm.rank), fanouts)
        return plan.fetch_feature(in_shards(owners, comm.rank), node=["x"])

    assert rounds_per_batch(hybrid, 3) == 2
    assert rounds_per_batch(full, 3) == 2 * num_layers
    assert rounds_per_batch(full, 3, cooperative=True) == num_layers + 2
    for plan in (hybrid, full):
        assert rounds_per_batch(plan, 1) == 0


def test_copies_of_rows_are_not_asked_for():
    owners = partition("hash", 2)

    def received(copies: torch.Tensor | None) -> tuple[float, float]:
        """Rows of other ranks that were sent, and those of which there was a copy."""

        def work(comm: hr.Comm) -> tuple[float, float]:
            mine = in_shards(owners, comm.rank, copies)
            with items().sample_neighbor(graph(), [5]).fetch_feature(mine, node=["x"]).loader(comm=comm) as loader:
                list(loader)
                row_bytes = store().node["x"].row_bytes
                stats = loader.stats()
                return stats.lowered["fetch_and_exchange"]["sent_bytes"] / row_bytes, stats.total("copied_rows")

        sent, copied = zip(*run_ranks(2, work), strict=True)
        return sum(sent), sum(copied)

    none, some, all_rows = received(None), received(torch.arange(50)), received(torch.arange(NUM_NODES))
    assert none[0] > some[0] > all_rows[0] == 0
    assert none[1] == 0 < some[1] < all_rows[1]
    assert sum(none) == sum(some) == sum(all_rows)


def test_rows_that_are_elsewhere_are_not_read():
    owners = partition("range", 2)
    feature = hr.ShardedFeature.of(torch.arange(NUM_NODES * 2.0).reshape(NUM_NODES, 2), owners, 0, cached=[150])
    assert feature.read(torch.tensor([3, 150, 99])).rows.tolist() == [[6, 7], [300, 301], [198, 199]]
    with pytest.raises(hr.InputError, match="row 151 is at rank 1, this is rank 0"):
        feature.read(torch.tensor([3, 151]))
    assert (feature.num_rows, feature.shape, feature.row_bytes) == (NUM_NODES, (NUM_NODES, 2), 8)


def test_rows_of_several_copies_come_in_the_order_of_the_request():
    rows = torch.arange(NUM_NODES * 2.0).reshape(NUM_NODES, 2)
    feature = hr.ShardedFeature.of(rows, partition("range", 2), 0, cached=[190, 150, 120])
    ids = torch.tensor([3, 190, 99, 120, 150, 0, 190])
    assert torch.equal(feature.read(ids).rows, rows[ids])
    out, places = torch.zeros(9, 2), torch.tensor([8, 1, 0, 7, 2, 6, 3])
    assert feature.read_into(ids, out, places=places) == feature.read(ids).counts == {"bytes_from_cpu": 7 * 8}
    assert torch.equal(out[places], rows[ids])
    assert out[[4, 5]].count_nonzero() == 0


def test_bytes_of_a_mapped_shard_and_of_copies_in_memory():
    owners, rows = partition("range", 2), torch.arange(NUM_NODES * 2.0).reshape(NUM_NODES, 2)
    feature = hr.ShardedFeature(
        rows[owners.owned(0)],
        owners,
        0,
        cached=torch.tensor([150]),
        cached_rows=rows[[150]],
        place=hr.Place("disk"),
    )
    assert feature.read(torch.tensor([3, 150, 99])).counts == {"bytes_from_disk": 16, "bytes_from_cpu": 8}
    assert feature.read(torch.tensor([3, 99])).counts == {"bytes_from_disk": 16}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_a_shard_of_rows_with_copies_is_pickled_and_copied(copied):
    """Where other ranks hold copies of its rows, these are still rows that nobody has written."""
    owners, rows = partition("range", 2), torch.arange(NUM_NODES * 2.0).reshape(NUM_NODES, 2)
    own = rows[owners.owned(0)]
    feature = hr.ShardedFeature(own, owners, 0, cached=torch.tensor([150]), cached_rows=rows[[150]])
    ids = torch.tensor([3, 150, 99])
    assert torch.equal(copied(feature).read(ids).rows, rows[ids])
    own.add_(1)
    for written in (feature, copied(feature)):
        with pytest.raises(hr.InputError, match="written since"):
            written.read(ids)


def test_a_rank_that_owns_nothing():
    owners = partition("table", 3)
    assert owners.sizes[2] == 0
    feature = hr.ShardedFeature.of(torch.ones(NUM_NODES, 2), owners, 2, cached=[1, 4])
    assert feature.read(torch.tensor([4, 1, 4])).rows.shape == (3, 2)
    assert feature.row_bytes == 8


@pytest.mark.parametrize("name", ["ladies", "labor_star", "saint_node", "pinsage"])
def test_samplers_that_need_more_than_rows_are_refused(name):
    shard = graph().shard(partition("hash", 2), 0)
    stages = [replace(one, graph=shard) if hasattr(one, "graph") else one for one in PLANS[name]().stages]
    sharded = hr.Plan([one for one in stages if isinstance(one, hr.ItemSampler) or hasattr(one, "graph")])
    with pytest.raises(hr.PlanError, match="cannot sample a graph in shards"):
        sharded.loader(comm=hr.testing.LocalGroup(2).comms[0])


def refused(plan: hr.Plan, message: str, **options: object) -> None:
    with pytest.raises(hr.PlanError, match=message):
        plan.loader(**{"comm": hr.testing.LocalGroup(2).comms[0], **options})


def test_shards_of_others_are_refused():
    by_range, by_hash = partition("range", 2), partition("hash", 2)
    features = items().sample_neighbor(graph(), [2]).fetch_feature(in_shards(by_range, 0), node=["x"])
    refused(features, "other owners", cooperative=True, partition=by_hash)
    topology = items().sample_neighbor(graph().shard(by_hash, 0), [2])
    refused(topology, "other owners", cooperative=True, partition=by_range)
    for part_of_another in (
        items().sample_neighbor(graph().shard(by_hash, 1), [2]),
        items().sample_neighbor(graph(), [2]).fetch_feature(in_shards(by_hash, 1), node=["x"]),
    ):
        refused(part_of_another, "is part 1, but this is rank 0")
    refused(topology, "has 2 parts, but there is 1 rank; start 2 ranks", comm=None, rank=0, world_size=1)
    refused(hr.ItemSampler(10, partition=partition("hash", 4)), "has 4 parts, but there are 2 ranks")


def test_several_features_in_shards():
    by_range, by_hash = partition("range", 2), partition("hash", 2)
    x = store().node["x"].rows_in_place
    names = ["a", "b", "whole", "c"]
    plain = (
        items(partition=by_hash)
        .sample_neighbor(graph(), [3])
        .fetch_feature(hr.FeatureStore(node=dict.fromkeys(names, x)), node=names)
    )
    expected = batches_of_shares(plain, 2)

    def work(comm: hr.Comm) -> tuple[list[str], float]:
        owners = {"a": by_hash, "b": by_hash, "c": by_range}
        node = {name: hr.ShardedFeature.of(x, owner, comm.rank) for name, owner in owners.items()}
        mine = hr.FeatureStore(node={**node, "whole": x})
        plan = items().sample_neighbor(graph(), [3]).fetch_feature(mine, node=["whole"])
        with plan.fetch_feature(mine, node=["a", "b", "c"]).loader(comm=comm) as loader:
            found = [batch.digest() for batch in loader]
            return found, loader.stats().total("rounds") / len(found)

    for (found, rounds), share in zip(run_ranks(2, work), expected, strict=True):
        assert found == [batch.digest() for batch in share]
        assert rounds == 5  # ids and two features with the same owners, ids and one with others


def test_shards_made_by_hand_share_checkpoints():
    def work(comm: hr.Comm) -> dict:
        owners = partition("hash", 2)
        rows = store().node["x"].rows_in_place[owners.owned(comm.rank)]
        mine = hr.FeatureStore(node={"x": hr.ShardedFeature(rows, owners, comm.rank)})
        return items().sample_neighbor(graph(), [2]).fetch_feature(mine, node=["x"]).loader(comm=comm).state_dict()

    first, second = run_ranks(2, work)
    assert first == second


def test_checkpoints_move_between_whole_and_sharded():
    owners = partition("hash", 2)
    whole = items().sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"])

    def work(comm: hr.Comm) -> dict:
        plan = items().sample_neighbor(graph().shard(owners, comm.rank), [2])
        loader = plan.fetch_feature(in_shards(owners, comm.rank), node=["x"]).loader(comm=comm)
        with loader:
            next(iter(loader))
            return loader.state_dict()

    first, second = run_ranks(2, work)
    assert first == second
    whole.loader().load_state_dict(first)


def test_features_travel_together_on_every_rank_or_on_none():
    """Also where all the nodes to copy are one rank's own: plans are the same on all ranks."""
    owners, hot = partition("range", 2), torch.arange(150, 160)

    def rounds(copies: dict[str, torch.Tensor | None]) -> list[float]:
        def work(comm: hr.Comm) -> float:
            x = torch.arange(NUM_NODES * 2.0).reshape(NUM_NODES, 2)
            features = {name: hr.ShardedFeature.of(x, owners, comm.rank, cached=copies[name]) for name in copies}
            plan = items().sample_neighbor(graph(), [5]).fetch_feature(hr.FeatureStore(node=features), node=["x", "z"])
            with plan.loader(comm=comm, prefetch=False) as loader:
                assert all(torch.equal(batch.node["z"], x[batch.n_id]) for batch in loader)
                return loader.stats().total("rounds") / loader.stats()["item_sampler"]["batches"]

        return run_ranks(2, work)

    assert rounds({"x": None, "z": None}) == [3, 3]
    assert rounds({"x": hot, "z": hot}) == [3, 3]
    assert rounds({"x": hot, "z": None}) == [4, 4]
    assert rounds({"x": hot, "z": hot[:5]}) == [4, 4]
