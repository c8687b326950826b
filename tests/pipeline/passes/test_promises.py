"""Promise 3: a pass never changes the answer. What it promises selects the test that it must stand.

The passes are those of the list: a new one is tested here from the day on which it is in it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pytest
import torch
from bounded import bounded_edges, edges_by_hand
from hand_made import HandMade
from hypothesis import given, settings
from hypothesis import strategies as st
from random_plans import SAMPLERS, RandomPlan, digest, random_plans
from ranks import assert_same_union, partition, run_ranks
from without import without_edges

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.data.padding import Sizes
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.lowered.pad_batch import pad_batch
from headrace.pipeline.passes import PASSES, Pass, Promise
from headrace.pipeline.plan.stage import CONVERTED

from cuda_host.stand_in import StandIn
from gpu_plans import copied_first
from plans import NUM_NODES, graph, pairs, store, typed_graph

pytestmark = pytest.mark.slow

#: One with room for some rows of the features, but not for all.
MACHINES = [hr.Machine(cores=1), hr.Machine(cores=2, memory=1 << 12), hr.Machine(cores=64, gpus=8)]
OPTIONAL = [one for one in PASSES if one.optional]
REQUIRED = [one for one in PASSES if not one.optional]
WORLD_SIZES = st.integers(2, 4)
KINDS = st.sampled_from(["hash", "range", "table"])


def promising(promise: Promise) -> list[Pass]:
    """The optional passes that promise something."""
    return [one for one in OPTIONAL if one.promise is promise]


def switches_but(one: Pass, data: st.DataObject) -> dict[str, bool]:
    """Any switch for each of the other passes that leave the batches as they are."""
    others = [other for other in OPTIONAL if other is not one and other.promise is Promise.SAME_BATCHES]
    return {other.name: data.draw(st.booleans(), label=other.name) for other in others}


def each_rank(plans: Callable[[int], hr.Plan], world_size: int, **options: object) -> list[list[object]]:
    """The batches of each rank."""

    def work(comm: Comm) -> list[object]:
        with plans(comm.rank).loader(comm=comm, **options) as loader:
            return list(loader)

    return run_ranks(world_size, work)


@pytest.mark.parametrize(
    "one", [one for one in OPTIONAL if one.promise is Promise.SAME_BATCHES], ids=lambda one: one.name
)
@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_same_batches_with_and_without(one, data):
    world_size = data.draw(st.integers(1, 3), label="ranks")
    plan = data.draw(random_plans(ranks=world_size > 1, together=world_size > 1), label="plan")
    switches = switches_but(one, data)
    options = {"machine": data.draw(st.sampled_from(MACHINES), label="machine"), "num_threads": 2}
    if world_size > 1:
        machine = hr.Machine(cores=options["machine"].cores, memory=options["machine"].memory)
        options = {"machine": machine, "cooperative": True}
    found = [
        each_rank(lambda _: plan.build(), world_size, **options, **switches, **{one.name: switch})
        if world_size > 1
        else [list(plan.build().loader(**options, **switches, **{one.name: switch}))]
        for switch in (True, False)
    ]
    with_it, without = ([[digest(batch) for batch in batches] for batches in ranks] for ranks in found)
    assert with_it == without


@pytest.mark.parametrize(
    "one", [one for one in OPTIONAL if one.promise is Promise.SAME_UNION], ids=lambda one: one.name
)
@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_same_union_over_ranks(one, data):
    plan = data.draw(random_plans(ranks=True, together=True), label="plan")
    world_size, kind = data.draw(WORLD_SIZES, label="ranks"), data.draw(KINDS, label="owners")
    owners = partition(kind, world_size)
    options = {**switches_but(one, data), one.name: True, "partition": owners}
    whole = list(plan.build().loader(num_threads=1, fuse_sampling=False, prefetch=False))
    shares = each_rank(lambda _: plan.build(), world_size, **options)
    for index, batch in enumerate(whole):
        mine = [batches[index] for batches in shares]
        assert_same_union(batch, mine, owners)
        if plan.node:
            assert all(torch.equal(share.x, store().node["x"].read(share.n_id).rows) for share in mine)


@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_same_shares_where_ranks_exchange_on_gpus(data):
    """Seeds that were copied to a GPU of each rank first against those in CPU memory, graph and features in shards."""
    one = data.draw(random_plans(ranks=True, together=True, by_row=True).filter(lambda one: not one.edge), label="plan")
    world_size, kind = data.draw(WORLD_SIZES, label="ranks"), data.draw(KINDS, label="owners")
    owners, together = partition(kind, world_size), data.draw(st.booleans(), label="together")
    shards = [in_shards(owners, rank, data) for rank in range(world_size)]
    options = {"cooperative": True, "partition": owners} if together else {}
    sharded = data.draw(st.booleans(), label="the graph in shards")

    def plan(rank: int) -> hr.Plan:
        built = one.build(over=graph().shard(owners, rank), features=shards[rank]) if sharded else one.build()
        return hr.Plan([stage for stage in built.stages if stage.gives != CONVERTED])

    expected = each_rank(plan, world_size, machine=hr.Machine(cores=2), **options)
    with stand_in(StandIn()):
        found = each_rank(
            lambda rank: copied_first(plan(rank), f"cuda:{rank}"),
            world_size,
            machine=hr.Machine(cores=2, gpus=world_size),
            **options,
        )
    assert digests(found) == digests(expected)


@pytest.mark.parametrize("one", REQUIRED, ids=lambda one: one.name)
@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_required_passes_against_what_they_stand_for(one, data):
    """They cannot be switched off: each has a reference of its own, below."""
    found, expected = REFERENCES[one.name](data)
    assert found == expected


def expanded(data: st.DataObject) -> tuple[object, object]:
    """Macros against their parts, written by hand."""
    plan = data.draw(random_plans().filter(lambda one: "pad" not in one.tail), label="plan").build()
    parts = [
        part for stage in plan.stages for part in (stage.parts() if isinstance(stage, hr.ext.MacroStage) else [stage])
    ]
    options = {"machine": data.draw(st.sampled_from(MACHINES), label="machine")}
    by_hand = HandMade(parts).loader(fuse_sampling=False, prefetch=False, num_threads=1)
    return [digest(batch) for batch in plan.loader(**options)], [digest(batch) for batch in by_hand]


def fetched_at_owners(data: st.DataObject) -> tuple[object, object]:
    """Features in shards against whole ones, on each rank."""
    world_size, kind = data.draw(WORLD_SIZES, label="ranks"), data.draw(KINDS, label="owners")
    plan = data.draw(random_plans(ranks=True, node=True), label="plan")
    owners = partition(kind, world_size)
    shards = [in_shards(owners, rank, data) for rank in range(world_size)]
    found = each_rank(lambda rank: plan.build(features=shards[rank]), world_size)
    expected = [list(plan.build().loader(rank=rank, world_size=world_size)) for rank in range(world_size)]
    return digests(found), digests(expected)


def sampled_at_owners(data: st.DataObject) -> tuple[object, object]:
    """A graph in shards against the whole one, on each rank with the seeds that it owns."""
    world_size, kind = data.draw(WORLD_SIZES, label="ranks"), data.draw(KINDS, label="owners")
    plan = data.draw(random_plans(ranks=True, by_row=True).filter(lambda one: not one.edge), label="plan")
    owners = partition(kind, world_size)
    found = each_rank(lambda rank: plan.build(over=graph().shard(owners, rank)), world_size)
    expected = [
        list(with_owned_seeds(plan, owners).loader(rank=rank, world_size=world_size)) for rank in range(world_size)
    ]
    return digests(found), digests(expected)


def in_shards(owners: hr.Partition, rank: int, data: st.DataObject) -> hr.FeatureStore:
    """The features, those of nodes in shards, with or without copies of some rows."""
    cached = torch.arange(rank, NUM_NODES, 5) if data.draw(st.booleans(), label=f"copies of rank {rank}") else None
    x = hr.ShardedFeature.of(store().node["x"].read(torch.arange(NUM_NODES)).rows, owners, rank, cached=cached)
    return hr.FeatureStore(node={"x": x, "y": store().node["y"]}, edge={"e": store().edge["e"]})


def with_owned_seeds(plan: RandomPlan, owners: hr.Partition) -> hr.Plan:
    """The plan over the whole graph in which each rank takes the seeds that it owns; pairs have no owner."""
    source, *others = plan.build().stages
    if plan.source == "pairs":
        return hr.Plan([source, *others])
    named = {name: value for name, value in source.parameters().items() if name != "partition"}
    return hr.Plan([hr.ItemSampler(named.pop("items"), **named, partition=owners), *others])


def digests(ranks: list[list[object]]) -> list[list[str]]:
    return [[digest(batch) for batch in batches] for batches in ranks]


def sampled_there(data: st.DataObject) -> tuple[object, object]:
    """Seeds that were copied to a GPU before the sampler against seeds in CPU memory."""
    built = data.draw(random_plans(), label="plan").build()
    plan = hr.Plan([stage for stage in built.stages if stage.gives != CONVERTED])  # what other libraries take is here
    expected = [digest(batch) for batch in plan.loader(machine=hr.Machine())]
    copy = hr.ItemSampler(1).copy_to("cuda").stages[1]
    there = hr.Plan([plan.stages[0], copy, *plan.stages[1:]])
    # The graph fits, or does not, with more or less room for a cache.
    memory = data.draw(st.sampled_from([1 << 30, 26_000, 1 << 12, 3]), label="memory")
    with stand_in(StandIn()):
        return [digest(batch) for batch in there.loader(machine=hr.Machine(gpus=1, gpu_memory=(memory,)))], expected


def copied_to_own_gpu(data: st.DataObject) -> tuple[object, object]:
    """Seeds that were copied to the GPU of a process against those copied to one that the plan names."""
    built = data.draw(random_plans(), label="plan").build()
    plan = hr.Plan([stage for stage in built.stages if stage.gives != CONVERTED])
    number = data.draw(st.integers(0, 2), label="GPU")

    def batches(device: str) -> list[object]:
        copy = hr.ItemSampler(1).copy_to(device).stages[1]
        there = hr.Plan([plan.stages[0], copy, *plan.stages[1:]])
        with stand_in(StandIn()):
            return [digest(batch) for batch in there.loader(machine=hr.Machine(gpus=3, current_gpu=number))]

    return batches("cuda"), batches(f"cuda:{number}")


def within_boundary(data: st.DataObject) -> tuple[object, object]:
    """Edges of clusters and their surroundings against a search through the graph, node by node."""
    clusters = hr.Partition.hash(NUM_NODES, data.draw(st.integers(1, 9), label="clusters"))
    num_hops = data.draw(st.integers(0, 3), label="hops")
    boundary = data.draw(st.integers(0, num_hops + 1), label="boundary")  # nodes farther away would have no use
    source = hr.ClusterSampler(clusters, data.draw(st.integers(1, 3)), boundary=boundary, seed=5)
    batches = list(source.sample_in_subgraph(graph(), num_hops=num_hops + 1).loader())
    return [edges_by_hand(batch) for batch in batches], [
        bounded_edges(graph(), batch.seeds, boundary, num_hops + 1) for batch in batches
    ]


def items_of_types(data: st.DataObject) -> tuple[object, object]:
    """Ids that count within a type against those of the whole graph."""
    ids = torch.tensor(data.draw(st.lists(st.integers(0, 69), min_size=1, max_size=30), label="ids"))
    fanouts = data.draw(st.lists(st.integers(-1, 4), min_size=1, max_size=2), label="fanouts")
    batches = [
        hr.ItemSampler(items, batch_size=7, seed=3).sample_neighbor(typed_graph(), fanouts).loader()
        for items in ({"b": ids}, ids + 120)
    ]
    found, expected = ([digest(batch) for batch in loader] for loader in batches)
    return found, expected


def edges_left_out(data: st.DataObject) -> tuple[object, object]:
    """Neighbourhoods without the edges of the seeds against those of a graph without them, batch by batch."""
    reverse, weighted = data.draw(st.booleans(), label="reverse"), data.draw(st.booleans(), label="weighted")
    more = {"weight": "weight" if weighted else None}
    chains = {
        "neighbor": lambda plan, one: plan.sample_neighbor(one, [4, 3], **more),
        "labor": lambda plan, one: plan.sample_layer_neighbor(one, [4, 3], exact=False, **more),
        "labor_star": lambda plan, one: plan.sample_layer_neighbor(one, [4, 3], importance="*", **more),
        "ladies": lambda plan, one: plan.sample_ladies(one, [20, 30], **more),
        "in_subgraph": lambda plan, one: plan.sample_in_subgraph(one, num_hops=2),
    }
    chain = chains[data.draw(st.sampled_from(sorted(chains)), label="sampler")]
    size = data.draw(st.integers(10, 60), label="batch size")
    plan = pairs(batch_size=size)
    if data.draw(st.booleans(), label="negatives"):
        plan = plan.sample_uniform_negative(graph(), 0.5)
    found = list(chain(plan.exclude_seed_edges(reverse=reverse), graph()).loader())
    expected = []
    for index, batch in enumerate(found):
        less, ids = without_edges(graph(), batch.seeds[: batch.num_positives], reverse=reverse)
        alone = list(chain(plan, less).loader())[index]
        expected.append((alone.n_id.tolist(), [ids[block.edge_ids].tolist() for block in alone.blocks]))
    return [(batch.n_id.tolist(), [block.edge_ids.tolist() for block in batch.blocks]) for batch in found], expected


def padded(data: st.DataObject) -> tuple[object, object]:
    """Batches that a plan pads against batches that are padded to the sizes of the largest by hand."""
    drawn = random_plans().filter(lambda one: not {"pad", "to_pyg"} & {*one.tail})
    plan = data.draw(
        drawn.filter(lambda one: one.source not in ("node_source", "pairs") and one.sampler != "none"), label="plan"
    ).build()
    batches = list(plan.loader())
    sizes = [Sizes.of(batch).with_room for batch in batches]
    full = [size for size in sizes if size.num_seeds == max(one.num_seeds for one in sizes)]
    short = [size for size in sizes if size not in full]
    squares = [len(batch.blocks) == 1 and batch.blocks[0].num_src == batch.blocks[0].num_dst for batch in batches]
    expected = [
        pad_batch(batch, reduce(Sizes.larger, full if size in full else short), square=all(squares)).digest()
        for batch, size in zip(batches, sizes, strict=True)
    ]
    return [batch.digest() for batch in plan.pad(shapes=1).loader()], expected


REFERENCES: dict[str, Callable[[st.DataObject], tuple[object, object]]] = {
    "exclude_edges": edges_left_out,
    "expand_macros": expanded,
    "fetch_at_owners": fetched_at_owners,
    "sample_at_owners": sampled_at_owners,
    "own_gpu": copied_to_own_gpu,
    "pad": padded,
    "sample_on_cpu": sampled_there,
    "typed_items": items_of_types,
    "within_boundary": within_boundary,
}


def test_every_required_pass_has_a_reference():
    assert set(REFERENCES) == {one.name for one in REQUIRED}


def test_random_plans_reach_every_verb():
    """All but to_dgl, which has an environment of its own."""
    made = {
        stage.name for sampler in SAMPLERS.values() for stage in sampler.chain(hr.ItemSampler(5), graph()).stages[1:]
    }
    made |= {"fetch_feature", "transform", "pad", "prefetch", "copy_to", "to_pyg"}
    assert made >= {*hr.ext.verbs()} - {"to_dgl"}


@pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
def test_every_pass_has_its_four_tests(one):
    """It fires, refuses, is switched off (or cannot be), and gives the same result."""
    path = Path(__file__).parent / f"test_{one.name}.py"
    assert path.exists(), f"write {path.name}: the pass fires, refuses, is switched off, and gives the same result"
    tests = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    switched = "test_is_switched_off" if one.optional else "test_cannot_be_switched_off"
    for start in ("test_fires", "test_refuses", switched, "test_same_result"):
        assert any(name.startswith(start) for name in tests), f"{path.name} has no {start}..."
