"""Seeds that nobody named: torch's, the same on all ranks, and those of a checkpoint."""

from __future__ import annotations

import copy
import json
import pickle
import time
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from ranks import run_processes, run_ranks

import headrace as hr

from contracts import digests
from plans import graph, store

LARGEST = 2**64 - 1


@pytest.fixture(autouse=True)
def _torch_seed():
    """Leave torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        yield


def plan(seed: int | None = None) -> hr.Plan:
    items = hr.ItemSampler(60, batch_size=16, shuffle=True, seed=seed)
    return items.sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"], labels="y")


def plan_under(torch_seed: int) -> hr.Plan:
    """A plan that was made while torch had this seed."""
    torch.manual_seed(torch_seed)
    return plan()


def test_torch_seeds_the_plan_as_it_is_made():
    five = [plan_under(seed) for seed in range(5)]
    torch.manual_seed(99)
    runs = [digests(one.loader(), 1) for one in five]
    assert runs == [digests(plan(seed).loader(), 1) for seed in range(5)]
    assert len({str(run) for run in runs}) == 5


def test_a_plan_tells_its_seed_and_equals_the_one_that_is_given_it():
    one = plan_under(12_345)
    assert "seed=12345" in repr(one)
    assert "seed=12345" in one.loader().explain()
    assert one == plan(12_345)
    assert one.loader().state_dict() == plan(12_345).loader().state_dict()
    assert one != plan(0)
    torch.manual_seed(0)
    assert "seed=0" in repr(hr.ItemSampler(3))


@pytest.mark.parametrize("seed", [0, -1, -(2**63), 2**63, LARGEST])
def test_every_seed_of_torch_is_one(seed):
    torch.manual_seed(seed)
    assert hr.ItemSampler(3).seed == torch.initial_seed() == seed % 2**64
    assert next(iter(plan().loader())).digest() == next(iter(plan(seed % 2**64).loader())).digest()


def test_a_node_source_takes_the_seed_of_torch():
    nodes = pytest.importorskip("torchdata.nodes")
    torch.manual_seed(7)
    source = hr.ext.NodeSource(nodes.IterableWrapper([torch.tensor([7, 8])]))
    assert (source.seed, source.seed_given) == (7, False)
    assert "seed=7" in repr(source)
    assert hr.ext.NodeSource(source.node, seed=7).seed_given


def test_copies_remember_that_nobody_named_the_seed():
    torch.manual_seed(5)
    source = hr.ItemSampler(3)
    for one in (copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source))):  # noqa: S301
        assert (one.seed, one.seed_given) == (5, False)
    assert hr.ItemSampler(3, seed=5).seed_given
    assert replace(source, seed=8).seed_given


def test_a_checkpoint_brings_its_seed():
    loader = plan_under(3).loader()
    whole = digests(loader, 2)
    loader.set_epoch(0)
    iterator = iter(loader)
    seen = [next(iterator).digest(), next(iterator).digest()]
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = plan_under(4).loader()
    assert "seed=4" in resumed.explain()
    resumed.load_state_dict(state)
    assert seen + [batch.digest() for _ in resumed.epochs(2) for batch in resumed] == whole
    assert "seed=3" in resumed.explain()
    assert resumed.state_dict()["seed"] == 3
    plan(3).loader().load_state_dict(state)  # it is the plan that was given this seed


@pytest.mark.parametrize("seed", ["3", True, -1, 2**64, None, 3.0])
def test_a_state_with_what_is_no_seed_does_not_change_the_plan(seed):
    loader, before = plan_under(4).loader(), plan(4).loader()
    for state in (plan(3).loader().state_dict(), loader.state_dict()):
        for one in (loader, before):
            with pytest.raises(hr.StateError, match="the state's seed to be an integer from 0"):
                one.load_state_dict({**state, "seed": seed})
    assert digests(loader, 1) == digests(before, 1)


@pytest.mark.parametrize("integer", [np.uint64, np.int64, np.int32, torch.tensor])
def test_the_seed_of_a_state_is_any_integer(integer):
    """A format of files may make another kind of it."""
    loader = plan_under(4).loader()
    loader.load_state_dict({**plan(3).loader().state_dict(), "seed": integer(3)})
    assert loader.state_dict()["seed"] == 3
    assert type(loader.state_dict()["seed"]) is int
    assert digests(loader, 1) == digests(plan(3).loader(), 1)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_state_without_a_seed_is_that_of_an_older_version(shuffle):
    """There, a plan that was given no seed had 0."""

    def items(seed: int | None) -> hr.Plan:
        return hr.ItemSampler(60, batch_size=16, shuffle=shuffle, seed=seed).sample_neighbor(graph(), [3, 2])

    first = items(0).loader()
    whole = digests(first, 1)
    first.set_epoch(0)
    next(iter(first))
    old = first.state_dict()
    del old["seed"]
    torch.manual_seed(4)
    for loader in (items(None).loader(), items(0).loader()):
        loader.load_state_dict(old)
        assert [batch.digest() for batch in loader] == whole[1:]
        assert loader.state_dict()["seed"] == 0
    with pytest.raises(hr.StateError, match="another plan: stage item_sampler differs"):
        items(4).loader().load_state_dict(old)


def test_a_state_of_another_plan_leaves_the_loader_as_it_is():
    loader = plan_under(4).loader()
    other = hr.ItemSampler(61, batch_size=16, shuffle=True, seed=3).sample_neighbor(graph(), [3, 2])
    other = other.fetch_feature(store(), node=["x"], labels="y")
    with pytest.raises(hr.StateError, match="another plan"):
        loader.load_state_dict(other.loader().state_dict())
    assert "seed=4" in loader.explain()
    assert digests(loader, 1) == digests(plan(4).loader(), 1)


def test_a_seed_that_was_named_is_kept():
    with pytest.raises(hr.StateError, match="another plan: stage item_sampler differs"):
        plan(4).loader().load_state_dict(plan(3).loader().state_dict())


@pytest.mark.parametrize("first", [3, 2**63 + 5, LARGEST])
def test_ranks_that_make_batches_together_take_the_seed_of_rank_0(first):
    """Also from a checkpoint, by which all of them change to another seed."""
    plans = [plan_under(first), plan_under(4), plan_under(5)]
    state = plan(77).loader().state_dict()

    def work(comm):
        with plans[comm.rank].loader(cooperative=True, comm=comm) as loader:
            seeds = [[batch.seeds.tolist() for batch in loader]]
            states = [loader.state_dict()]
            loader.load_state_dict(state)
            seeds.append([batch.seeds.tolist() for batch in loader])
            return seeds, [*states, loader.state_dict()]

    ranks = run_ranks(3, work)
    for number, seed in enumerate((first % 2**64, 77)):
        whole = [batch.seeds.tolist() for batch in plan(seed).loader()]
        assert [list(chain(*shares)) for shares in zip(*(seeds[number] for seeds, _ in ranks), strict=True)] == whole
        assert all(states[number]["seed"] == seed for _, states in ranks)
        assert all(states[number] == ranks[0][1][number] for _, states in ranks)


def test_ranks_that_name_other_seeds_are_refused():
    def work(comm):
        with plan(comm.rank).loader(cooperative=True, comm=comm):
            pass

    with pytest.raises(hr.PlanError, match="differs from that of rank"):
        run_ranks(2, work)


RANKS = """
import json, sys, torch
import headrace as hr
from datetime import timedelta
from plans import graph, store

def plan(seed=None):
    items = hr.ItemSampler(60, batch_size=16, shuffle=True, seed=seed)
    return items.sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"], labels="y")

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
place = {"rank": rank, "world_size": world_size, "timeout": timedelta(seconds=10)}
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", **place)
told = {}

def tell(name, loader):
    told[name] = [[batch.seeds.tolist() for batch in loader], loader.state_dict()]
    loader.close()

torch.manual_seed(100 + rank)
tell("shares", plan().loader())
tell("named", plan(seed=6).loader())
tell("together", plan().loader(cooperative=True))
tell("by hand", plan().loader(rank=0, world_size=1))
if rank == 0:
    plan(seed=1).loader(rank=0, world_size=1), plan().loader(rank=0, world_size=1)  # which wait for nobody
torch.manual_seed(200 + rank)
tell("again", plan().loader())
if rank == 0:
    plan().loader()
else:
    plan().loader()
    try:
        plan().loader()
    except hr.PeerError as error:
        told["error"] = str(error)
json.dump(told, sys.stdout)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_processes_take_the_seed_of_rank_0(tmp_path):
    """Two of gloo, of which each seeds torch with a number of its own."""
    began = time.monotonic()
    ranks = [json.loads(text) for text in run_processes(RANKS, 2, tmp_path / "meeting")]
    for name, seed in (("shares", 100), ("named", 6), ("together", 100), ("again", 200)):
        (first, state), (second, other) = (told[name] for told in ranks)
        whole = [batch.seeds.tolist() for batch in plan(seed).loader()]
        assert [one + two for one, two in zip(first, second, strict=True)] == whole
        assert state == other
        assert state["seed"] == seed
    for rank, told in enumerate(ranks):
        seeds, state = told["by hand"]
        assert seeds == [batch.seeds.tolist() for batch in plan(100 + rank).loader()]
        assert state["seed"] == 100 + rank
    assert "rank 0 ended, where rank 1 makes a loader, which all ranks make" in ranks[1]["error"]
    assert time.monotonic() - began < 100
