"""Features of types in shards: each rank has the rows of the nodes of each type that it owns, batches are the same."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from explained import names
from hypothesis import given
from hypothesis import strategies as st
from ranks import partition, run_ranks

import headrace as hr

from plans import NODE_TYPES, NUM_NODES, typed_graph, typed_items, with_times

#: A type without nodes among the others, and one ("lonely") without features.
TYPES = {"a": 120, "none": 0, "b": 70, "lonely": 10}
NAMES = {"a": ["x", "z"], "b": ["x"], "none": ["x"]}
KINDS = ["hash", "table"]  # uneven parts in the table, one of them empty


def types_of(counts: dict[str, int]) -> object:
    """Types of nodes as graphs have them."""
    return hr.Graph.from_coo([], [], node_types=counts).node_types


@cache
def typed() -> hr.Graph:
    return replace(typed_graph(), node_types=TYPES)


@cache
def rows() -> dict[tuple[str, str], torch.Tensor]:
    generator = torch.Generator().manual_seed(6)
    return {
        ("a", "x"): torch.randn(120, 8, generator=generator),
        ("a", "z"): torch.randint(9, (120, 2, 2), generator=generator),
        ("b", "x"): torch.randn(70, 3, generator=generator, dtype=torch.float64),
        ("none", "x"): torch.empty(0, 5),
    }


#: No rank's own labels are in shards.
LABELS = torch.arange(120) % 5


def whole_store() -> hr.FeatureStore:
    return hr.FeatureStore(node={**rows(), ("a", "y"): LABELS})


def in_shards(owners: hr.Partition, part: int, copies: int | None = None, but: str = "") -> hr.FeatureStore:
    """Each n-th row of a type is copied to all ranks; a type may stay whole."""
    node: dict = {("a", "y"): LABELS}
    for name, one in rows().items():
        of_type = owners.of_type(typed().node_types, name[0])
        cached = None if copies is None else torch.arange(0, len(one), copies)
        node[name] = one if name[0] == but else hr.ShardedFeature.of(one, of_type, part, cached=cached)
    return hr.FeatureStore(node=node)


SAMPLERS = {
    "neighbor": lambda plan, one: plan.sample_neighbor(one, {"likes": [4, 2], "default": [3, 2]}),
    "labor": lambda plan, one: plan.sample_layer_neighbor(one, [3, 2]),
    "trees": lambda plan, one: plan.sample_neighbor(one, [3, 2], disjoint=True),
}


def fetched(one: hr.Graph, features: hr.FeatureStore, sampler: str = "neighbor", **items: object) -> hr.Plan:
    sampled = SAMPLERS[sampler](typed_items(batch_size=40, **items), one)
    return sampled.fetch_feature(features, node=NAMES, labels={"a": "y"})


def digests(plan: hr.Plan, **options: object) -> list[str]:
    with plan.loader(**options) as loader:
        return [batch.digest() for batch in loader]


@given(st.data(), st.sampled_from([*KINDS, "range"]), st.integers(1, 5))
def test_owners_of_a_type_are_those_of_its_nodes(data, kind, num_parts):
    owners = partition(kind, num_parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, NUM_NODES), min_size=2, max_size=2), label="cuts"))
    counts = dict(zip("abc", torch.tensor([0, *cuts, NUM_NODES]).diff().tolist(), strict=True))
    types = types_of(counts)
    for name, count in counts.items():
        one, first = owners.of_type(types, name), types.id_range(name).start
        ids = torch.arange(count)
        assert (one.num_nodes, one.num_parts, one.nodes) == (count, num_parts, types.id_range(name))
        assert torch.equal(one.owner(ids), owners.owner(ids + first))
        for part in range(num_parts):
            owned = one.owned(part)
            assert torch.equal(owned, ids[one.owner(ids) == part])
            assert one.sizes[part] == len(owned)
            assert torch.equal(one.position(owned), torch.arange(len(owned)))


def test_owners_of_types_of_another_graph_are_refused():
    with pytest.raises(hr.InputError, match="expected the types of the partition's 200 nodes, got TypeOffsets"):
        partition("hash", 2).of_type(types_of({"a": 3}), "a")
    with pytest.raises(hr.InputError, match="no type 'paper'"):
        partition("hash", 2).of_type(typed().node_types, "paper")


@pytest.mark.slow
@pytest.mark.parametrize("copies", [None, 3], ids=["no copies", "copies"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_whole_graph_and_features_in_shards(sampler, kind, copies):
    owners = partition(kind, 3)
    of_owners = fetched(typed(), whole_store(), sampler, partition=owners)
    expected = [digests(of_owners, rank=rank, world_size=3) for rank in range(3)]

    def work(comm: hr.Comm) -> list[str]:
        return digests(fetched(typed(), in_shards(owners, comm.rank, copies), sampler), comm=comm)

    assert run_ranks(3, work) == expected


@pytest.mark.slow
@pytest.mark.parametrize("fuse", [False, True], ids=["apart", "fused"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_graph_and_features_in_shards(sampler, kind, fuse):
    owners = partition(kind, 3)
    expected = [
        digests(fetched(typed(), whole_store(), sampler, partition=owners), rank=rank, world_size=3)
        for rank in range(3)
    ]

    def work(comm: hr.Comm) -> list[str]:
        plan = fetched(typed().shard(owners, comm.rank), in_shards(owners, comm.rank, 4, but="b"), sampler)
        return digests(plan, comm=comm, fuse_exchange=fuse)

    assert run_ranks(3, work) == expected


@pytest.mark.slow
@pytest.mark.parametrize("fuse", [False, True], ids=["apart", "fused"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_ranks_that_make_batches_together(sampler, kind, fuse):
    """The batches of ranks that have whole features, and of each node the row of one process."""
    owners = partition(kind, 3)
    options = {"cooperative": True, "partition": owners, "fuse_exchange": fuse}
    alone = list(fetched(typed(), whole_store(), sampler).loader())

    def work(comm: hr.Comm) -> tuple[list[str], list[hr.MiniBatch]]:
        expected = digests(fetched(typed(), whole_store(), sampler, partition=owners), comm=comm, **options)
        plan = fetched(typed().shard(owners, comm.rank), in_shards(owners, comm.rank), sampler)
        with plan.loader(comm=comm, **options) as loader:
            return expected, list(loader)

    for expected, batches in run_ranks(3, work):
        assert [batch.digest() for batch in batches] == expected
        for batch, one in zip(batches, alone, strict=True):
            for name, features in NAMES.items():
                for feature in features:
                    found = batch.node[name, feature]
                    assert torch.equal(found, rows()[name, feature][batch.types.within(name)])
                    assert found.dtype == one.node[name, feature].dtype


def test_times_and_resuming(tmp_path):
    owners = partition("hash", 2)

    def plan(one: hr.Graph, features: hr.FeatureStore, **items: object) -> hr.Plan:
        items = typed_items(batch_size=20, time=torch.arange(60) * 7 % 50, **items)
        return items.sample_neighbor(one, [3, 2], time="time").fetch_feature(features, node=NAMES)

    def work(comm: hr.Comm) -> list[str]:
        over = plan(with_times(typed()).shard(owners, comm.rank), in_shards(owners, comm.rank))
        with over.loader(comm=comm) as loader:
            iterator = iter(loader)
            first = next(iterator).digest()
            state = loader.state_dict()
        with over.loader(comm=comm) as again:
            again.load_state_dict(state)
            return [first, *(batch.digest() for batch in again)]

    expected = [
        digests(plan(with_times(typed()), whole_store(), partition=owners), rank=rank, world_size=2)
        for rank in range(2)
    ]
    assert run_ranks(2, work) == expected


def exchanges_of(plan: hr.Plan) -> int:
    return names(plan, hr.Machine(world_size=2), prefetch=False).count("exchange_ids")


def exchanges(features: hr.FeatureStore) -> int:
    return exchanges_of(fetched(typed(), features))


def test_features_that_lie_alike_travel_together():
    """Ids once for all types; with copies once for each type, as each has copies of its own."""
    owners = partition("hash", 2)
    assert exchanges(in_shards(owners, 0)) == 1
    assert exchanges(in_shards(owners, 0, 3)) == 3
    plain = hr.ShardedFeature.of(torch.rand(NUM_NODES, 2), owners, 0)
    both = hr.FeatureStore(node={**in_shards(owners, 0).node, "all": plain})
    plan = fetched(typed(), both).fetch_feature(both, node=["all"])
    merged = SAMPLERS["neighbor"](typed_items(), typed()).fetch_feature(both, node=["all", ("b", "x")])
    assert [exchanges_of(plan), exchanges_of(merged)] == [2, 1]


def test_copies_are_not_asked_for():
    """Rows that a rank has copies of take part in no exchange, by their numbers within their type."""
    owners = partition("hash", 2)

    def work(comm: hr.Comm) -> tuple[float, float]:
        counts = []
        for copies in (None, 1):
            plan = SAMPLERS["neighbor"](typed_items(), typed())
            plan = plan.fetch_feature(in_shards(owners, comm.rank, copies), node=[("b", "x")])
            with plan.loader(comm=comm) as loader:
                list(loader)
                counts.append(loader.stats().total("bytes_from_rank"))
        return tuple(counts)

    for without, with_copies in run_ranks(2, work):
        assert without > 0
        assert with_copies == 0


def test_copies_that_are_alike_in_number_alone_travel_apart():
    """Copies of the first rows of two types are copies of different nodes."""
    owners, first = partition("hash", 2), torch.arange(10)
    node = {
        name: hr.ShardedFeature.of(rows()[name], owners.of_type(typed().node_types, name[0]), 0, cached=first)
        for name in (("a", "x"), ("b", "x"))
    }
    plan = SAMPLERS["neighbor"](typed_items(), typed()).fetch_feature(hr.FeatureStore(node=node), node=list(node))
    assert exchanges_of(plan) == 2


@pytest.mark.parametrize("cooperative", [False, True])
def test_owners_of_other_nodes_are_refused(cooperative):
    owners = partition("hash", 2)
    for wrong, said in (
        (hr.Partition.hash(70, 2), "0 to 69"),
        (owners.of_type(types_of({"c": 40, "b": 70, "d": 90}), "b"), "40 to 109"),
    ):
        features = hr.FeatureStore(node={("b", "x"): hr.ShardedFeature.of(rows()["b", "x"], wrong, 0)})
        plan = SAMPLERS["neighbor"](typed_items(), typed()).fetch_feature(features, node={"b": ["x"]})
        message = f"of nodes 120 to 189, which are of the type 'b', got those of nodes {said}; cut it by partition.of_"
        with pytest.raises(hr.InputError, match=message):
            plan.loader(cooperative=cooperative, comm=hr.testing.LocalGroup(2).comms[0])


def test_other_owners_than_those_of_the_ranks_are_refused():
    def work(comm: hr.Comm) -> None:
        features = in_shards(partition("range", 2), comm.rank)
        plan = SAMPLERS["neighbor"](typed_items(), typed()).fetch_feature(features, node={"b": ["x"]})
        with pytest.raises(hr.PlanError, match="has other owners than those by which the ranks cooperate"):
            plan.loader(comm=comm, cooperative=True, partition=partition("hash", 2))

    run_ranks(2, work)


def test_one_rank_needs_no_owners_of_types():
    one = hr.ShardedFeature.of(rows()["b", "x"], hr.Partition.range(70, 1), 0)
    plan = SAMPLERS["neighbor"](typed_items(), typed()).fetch_feature(
        hr.FeatureStore(node={("b", "x"): one}), node={"b": ["x"]}
    )
    expected = SAMPLERS["neighbor"](typed_items(), typed()).fetch_feature(whole_store(), node={"b": ["x"]})
    assert digests(plan) == digests(expected)


def test_a_type_has_the_rows_of_its_own_nodes():
    assert NODE_TYPES["b"] == 70
    x = in_shards(partition("hash", 3), 1).node["b", "x"]
    assert (x.num_rows, x.shape, x.nodes) == (70, (70, 3), range(120, 190))
    own = x.partition.owned(1)
    assert torch.equal(x.read(own).rows, rows()["b", "x"][own])
    with pytest.raises(hr.InputError, match="is at rank"):
        x.read(torch.arange(70))
