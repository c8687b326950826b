"""Promise 3: a pass never changes the answer. What it promises selects the test that it must stand.

The passes are those of the list: a new one is tested here from the day on which it is in it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pytest
from hand_made import HandMade
from hypothesis import given, settings
from hypothesis import strategies as st
from random_plans import digest, random_plans
from random_ranks import digests_of_ranks, each_rank, in_shards
from ranks import partition

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.data.padding import Sizes
from headrace.pipeline.lowered.pad_batch import pad_batch
from headrace.pipeline.passes import PASSES
from headrace.pipeline.plan.stage import CONVERTED

from cuda_host.stand_in import StandIn
from gpu_plans import copied_first
from plans import graph

pytestmark = pytest.mark.slow

#: One with room for some rows of the features, but not for all.
MACHINES = [hr.Machine(cores=1), hr.Machine(cores=2, memory=1 << 12), hr.Machine(cores=64, gpus=8)]
WORLD_SIZES = st.integers(2, 4)
KINDS = st.sampled_from(["hash", "range", "table"])


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
    assert digests_of_ranks(found) == digests_of_ranks(expected)


@pytest.mark.parametrize("name", ["expand_macros", "own_gpu", "pad", "sample_on_cpu"])
@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_required_passes_against_what_they_stand_for(name, data):
    """They cannot be switched off: each has a reference of its own, below."""
    found, expected = REFERENCES[name](data)
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
    "expand_macros": expanded,
    "own_gpu": copied_to_own_gpu,
    "pad": padded,
    "sample_on_cpu": sampled_there,
}


def test_every_required_pass_has_a_reference():
    public = {"exclude_edges", "fetch_at_owners", "sample_at_owners", "typed_items", "within_boundary"}
    assert {*REFERENCES, *public} == {one.name for one in PASSES if not one.optional}


@pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
def test_every_pass_has_its_four_tests(one):
    """It fires, refuses, is switched off (those that cannot are in test_refusals.py), and changes no result."""
    folders = [Path(__file__).parent, Path(__file__).parents[2] / "behaviour" / "passes"]
    texts = [path.read_text() for folder in folders if (path := folder / f"test_{one.name}.py").exists()]
    tests = [node.name for text in texts for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    switched = ("test_is_switched_off",) if one.optional else ()
    for start in ("test_fires", "test_refuses", *switched, "test_same_result"):
        assert any(name.startswith(start) for name in tests), f"test_{one.name}.py has no {start}..."
