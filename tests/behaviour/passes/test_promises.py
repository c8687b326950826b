"""Promise 3: a pass never changes the answer. Batches are the same without it, or those of a reference."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import pytest
import torch
from bounded import bounded_edges, edges_by_hand
from explained import one_line, passes
from hypothesis import given, settings
from hypothesis import strategies as st
from random_plans import SAMPLERS, RandomPlan, digest, random_plans
from random_ranks import digests_of_ranks, each_rank, in_shards
from ranks import assert_same_union, partition
from without import without_edges

import headrace as hr

from plans import NUM_NODES, graph, pairs, store, typed_graph

pytestmark = pytest.mark.slow

#: One with room for some rows of the features, but not for all.
MACHINES = [hr.Machine(cores=1), hr.Machine(cores=2, memory=1 << 12), hr.Machine(cores=64, gpus=8)]
SWITCHES = (
    *("tiered_cache", "fuse_exchange", "fuse_sampling", "split_sample", "graph_cache", "feature_cache", "uva_gather"),
    *("lookahead", "prefetch", "stream_overlap"),
)
WORLD_SIZES = st.integers(2, 4)
KINDS = st.sampled_from(["hash", "range", "table"])


def switches_but(name: str, data: st.DataObject) -> dict[str, bool]:
    """Any switch for each of the other passes that leave the batches as they are."""
    return {other: data.draw(st.booleans(), label=other) for other in SWITCHES if other != name}


@pytest.mark.parametrize("name", SWITCHES)
@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_same_batches_with_and_without(name, data):
    world_size = data.draw(st.integers(1, 3), label="ranks")
    plan = data.draw(random_plans(ranks=world_size > 1, together=world_size > 1), label="plan")
    switches = switches_but(name, data)
    options = {"machine": data.draw(st.sampled_from(MACHINES), label="machine"), "num_threads": 2}
    if world_size > 1:
        machine = hr.Machine(cores=options["machine"].cores, memory=options["machine"].memory)
        options = {"machine": machine, "cooperative": True}
    found = [
        each_rank(lambda _: plan.build(), world_size, **options, **switches, **{name: switch})
        if world_size > 1
        else [list(plan.build().loader(**options, **switches, **{name: switch}))]
        for switch in (True, False)
    ]
    with_it, without = ([[digest(batch) for batch in batches] for batches in ranks] for ranks in found)
    assert with_it == without


@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_same_union_over_ranks(data):
    plan = data.draw(random_plans(ranks=True, together=True), label="plan")
    world_size, kind = data.draw(WORLD_SIZES, label="ranks"), data.draw(KINDS, label="owners")
    owners = partition(kind, world_size)
    options = {**switches_but("cooperative", data), "cooperative": True, "partition": owners}
    whole = list(plan.build().loader(num_threads=1, fuse_sampling=False, prefetch=False))
    shares = each_rank(lambda _: plan.build(), world_size, **options)
    for index, batch in enumerate(whole):
        mine = [batches[index] for batches in shares]
        assert_same_union(batch, mine, owners)
        if plan.node:
            assert all(torch.equal(share.x, store().node["x"].read(share.n_id).rows) for share in mine)


def fetched_at_owners(data: st.DataObject) -> tuple[object, object]:
    """Features in shards against whole ones, on each rank with the seeds that it owns."""
    world_size, kind = data.draw(WORLD_SIZES, label="ranks"), data.draw(KINDS, label="owners")
    plan = data.draw(random_plans(ranks=True, node=True), label="plan")
    owners = partition(kind, world_size)
    shards = [in_shards(owners, rank, data) for rank in range(world_size)]
    found = each_rank(lambda rank: plan.build(features=shards[rank]), world_size)
    whole = with_owned_seeds(plan, owners)
    expected = [list(whole.loader(rank=rank, world_size=world_size)) for rank in range(world_size)]
    return digests_of_ranks(found), digests_of_ranks(expected)


def sampled_at_owners(data: st.DataObject) -> tuple[object, object]:
    """A graph in shards against the whole one, on each rank with the seeds that it owns."""
    world_size, kind = data.draw(WORLD_SIZES, label="ranks"), data.draw(KINDS, label="owners")
    plan = data.draw(random_plans(ranks=True, by_row=True).filter(lambda one: not one.edge), label="plan")
    owners = partition(kind, world_size)
    found = each_rank(lambda rank: plan.build(over=graph().shard(owners, rank)), world_size)
    expected = [
        list(with_owned_seeds(plan, owners).loader(rank=rank, world_size=world_size)) for rank in range(world_size)
    ]
    return digests_of_ranks(found), digests_of_ranks(expected)


def with_owned_seeds(plan: RandomPlan, owners: hr.Partition) -> hr.Plan:
    """The plan over the whole graph in which each rank takes the seeds that it owns; pairs have no owner."""
    source, *others = plan.build().stages
    if plan.source == "pairs":
        return hr.Plan([source, *others])
    named = {name: value for name, value in source.parameters().items() if name != "partition"}
    return hr.Plan([hr.ItemSampler(named.pop("items"), **named, partition=owners), *others])


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


REFERENCES: dict[str, Callable[[st.DataObject], tuple[object, object]]] = {
    "exclude_edges": edges_left_out,
    "fetch_at_owners": fetched_at_owners,
    "sample_at_owners": sampled_at_owners,
    "typed_items": items_of_types,
    "within_boundary": within_boundary,
}


@pytest.mark.parametrize("name", REFERENCES)
@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_required_passes_against_what_they_stand_for(name, data):
    """They cannot be switched off."""
    found, expected = REFERENCES[name](data)
    assert found == expected


def test_switches_are_those_of_all_passes_that_have_one():
    plan = hr.ItemSampler(5).sample_neighbor(graph(), [2])
    text = plan.explain(machine=hr.Machine())
    idle = one_line(text).partition("nothing to do: ")[2].partition(" graph#1:")[0]
    optional = set()
    for name in [*passes(text), *re.findall(r"(\w+)(?: \([^)]*\))?(?:,|$)", idle)]:
        with suppress(hr.PlanError):
            plan.explain(machine=hr.Machine(), **{name: False})
            optional.add(name)
    assert optional == {*SWITCHES, "cooperative"}


def test_random_plans_reach_every_verb():
    """All but to_dgl, which has an environment of its own."""
    made = {
        stage.name for sampler in SAMPLERS.values() for stage in sampler.chain(hr.ItemSampler(5), graph()).stages[1:]
    }
    made |= {"fetch_feature", "transform", "pad", "prefetch", "copy_to", "to_pyg"}
    assert made >= {*hr.ext.verbs()} - {"to_dgl"}
