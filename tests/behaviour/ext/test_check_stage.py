"""hr.testing.check_stage: good stages pass in all ways, and each wrong one is told what differs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from own_hops import ByNode, BySeeds, ring
from recent_sampler import SampleRecent
from sharing_source import Shares

import headrace as hr
from headrace import ext

from plans import graph, items, store, timed_graph, timed_items

ALONE = ("once more", "two threads", "two workers", "all passes", "resumed", "in place")
ALL = (*ALONE, "two ranks", "two ranks together")
TOGETHER = (*ALONE, "two ranks together")


class Counted:
    """A torchdata node that yields three lists of items."""

    def reset(self, state=None):
        self.next = 0 if state is None else state["next"]

    def __next__(self):
        if self.next == 3:
            raise StopIteration
        self.next += 1
        return torch.arange(4) + self.next

    def state_dict(self):
        return {"next": self.next}


def stage(make, **members):
    """A stage whose runner is what `make` returns for its settings."""
    members = {"name": "own", "runner": lambda self, settings: make(settings), **members}
    return type("Own", (ext.MapStage,), members)()


def changing(change, **members):
    return stage(lambda settings: lambda batch: (change(batch), {}), **members)


def labelled():
    return items().fetch_feature(store(), labels="y")


def checked(own):
    return hr.testing.check_stage(labelled().then(own))


def test_a_stage_of_labels():
    own = changing(lambda batch: batch.replace(y=batch.y + 1), reads=frozenset({"y"}), writes=frozenset({"y"}))
    assert checked(own) == (*ALONE, "two ranks")


def test_samplers_of_headrace():
    plan = items().sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"])
    assert hr.testing.check_stage(plan, epochs=1) == ALL
    assert hr.testing.check_stage(plan.to_pyg(), epochs=1) == ALONE  # whose seeds and edges have other names
    assert hr.testing.check_stage(timed_items().sample_neighbor(timed_graph(), [3], time="time"), epochs=1) == ALL


@pytest.mark.slow
def test_a_sampler_of_ones_own():
    plan = timed_items().then(SampleRecent(timed_graph(), (3, 2), 0.02))
    assert hr.testing.check_stage(plan) == ALL
    assert hr.testing.check_stage(plan.fetch_feature(store(), node=["x"], labels="y"), epochs=1) == ALL


def test_a_sampler_that_declares_nothing_is_not_run_together():
    plan = hr.ItemSampler(40, batch_size=8, seed=1)
    assert hr.testing.check_stage(plan.then(BySeeds(ring()))) == (*ALONE, "two ranks")
    assert hr.testing.check_stage(plan.then(ByNode(ring()))) == ALL


def test_a_source_of_ones_own():
    assert hr.testing.check_stage(Shares().sample_neighbor(graph(), [2])) == ALL
    unshared = type("Unshared", (Shares,), {"shares_by_rank": False})()
    assert hr.testing.check_stage(unshared.sample_neighbor(graph(), [2])) == ALONE


@pytest.mark.parametrize(
    ("plan", "ways"),
    [
        (hr.GlobalBatch(graph(), seed=1).sample_in_subgraph(graph(), num_hops=2), TOGETHER),
        (
            hr.ClusterSampler(hr.Partition.hash(graph().num_nodes, 8), seed=1).sample_in_subgraph(graph(), num_hops=1),
            TOGETHER,
        ),
        (hr.ext.NodeSource(Counted(), seed=1).sample_neighbor(graph(), [2]), ALONE),
    ],
    ids=["all nodes", "clusters", "a node"],
)
def test_other_sources(plan, ways):
    assert hr.testing.check_stage(plan) == ways


def test_missing_values_are_no_difference():
    own = changing(lambda batch: batch.replace(y=batch.y * float("nan")), writes=frozenset({"y"}))
    checked(own)


def counting(settings):
    count = itertools.count()
    return lambda batch: (batch.replace(y=batch.y + next(count)), {})


def seen_before(settings):
    seen = []

    def run(batch):
        seen.append(int(batch.y[0]))
        return batch.replace(y=batch.y + seen[max(len(seen) - 2, 0)]), {}

    return run


def added_in_place(batch):
    batch.y.add_(1)
    return batch


Y = frozenset({"y"})
WRONG = {
    "a generator of torch": (
        changing(lambda batch: batch.replace(y=torch.rand(len(batch.seeds))), writes=Y),
        "expected the batches of one thread once more, got another y in batch 0 of epoch 0; what a runner returns",
    ),
    "a count": (stage(counting, writes=Y), "with two workers|resumed behind batch"),
    "what came before": (stage(seen_before, writes=Y), "got another y in batch .* keeps nothing between batches"),
    "a write": (
        changing(added_in_place, reads=Y, writes=Y),
        r"expected Own to leave the batch that it is given as it is, got writes into y in batch 0 of epoch 0",
    ),
    "a field that is not named": (
        changing(lambda batch: batch.replace(y=batch.y + 1), reads=Y),
        r"expected Own to change the fields that its writes names, \[\], got another y in batch 0",
    ),
    "other seeds": (
        changing(
            lambda batch: batch.replace(
                seeds=batch.seeds.roll(1), n_id=batch.n_id.roll(1), seed_index=batch.seed_index
            ),
            writes=frozenset({"seeds", "n_id", "seed_index"}),
        ),
        "expected the seeds of one process on two ranks, each on one rank, got others in batch 0",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_stage_is_told_what_differs(what):
    own, match = WRONG[what]
    with pytest.raises(AssertionError, match=f"check_stage: .*{match}" if "|" not in match else match):
        hr.testing.check_stage((items() if what == "other seeds" else labelled()).then(own))


@dataclass(frozen=True, eq=False, repr=False)
class Drawn(ByNode):
    """Keeps an edge by a number of its position in the batch, or of its node."""

    name = "drawn"
    by: str = "position"

    def runner(self, settings):
        def run(batch):
            ids = torch.arange(len(batch.n_id)) if self.by == "position" else batch.n_id
            kept = ext.uniform(settings.seed, batch.epoch, batch.index, ids) < 0.5
            return ext.with_hop(batch, self.graph, kept.long(), self.graph.indptr[batch.n_id][kept]), {}

        return run


@pytest.mark.parametrize("by", ["node", "position"])
def test_draws_by_position_are_found_on_ranks(by):
    plan = hr.ItemSampler(50, batch_size=20, seed=1).then(Drawn(ring(), by))
    if by == "node":
        assert hr.testing.check_stage(plan) == ALL
        return
    with pytest.raises(
        AssertionError, match=r"the edges of one process on two ranks, got others in batch 0 .* by n_id"
    ):
        hr.testing.check_stage(plan)


@dataclass(frozen=True, eq=False, repr=False)
class Moving(ext.SourceStage):
    """A source that begins anew wherever it is sought."""

    name = "moving"
    seed: int = 1

    def source(self, settings):
        return Forgetful()


class Forgetful(ext.BatchSource):
    num_batches = None

    def seek(self, epoch, state):
        self.epoch, self.drawn = epoch, 0

    def draw(self):
        if self.drawn == 4:
            raise StopIteration
        self.drawn += 1
        return hr.MiniBatch.of_seeds(torch.tensor([self.drawn]), epoch=self.epoch, index=self.drawn - 1)


class Empty(Forgetful):
    num_batches = 0

    def draw(self):
        raise StopIteration


def test_a_source_that_does_not_seek():
    with pytest.raises(AssertionError, match="batches resumed behind batch 0, as with one thread, got"):
        hr.testing.check_stage(Moving().sample_neighbor(graph(), [2]))


def test_two_hops_in_a_stage_that_declares_one_are_refused():
    two = type("Two", (ByNode,), {"num_hops": 2})(ring())
    with pytest.raises(hr.PlanError, match="expected one hop in a stage"):
        hr.testing.check_stage(hr.ItemSampler(40, batch_size=8, seed=1).then(two))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: hr.testing.check_stage(BySeeds(ring())), "check_stage: expected a plan, got BySeeds"),
        (
            lambda: hr.testing.check_stage(items(), epochs=0),
            "check_stage: expected epochs to be an integer of at least 1",
        ),
        (
            lambda: hr.testing.check_stage(type("Empty", (Moving,), {"source": lambda *_: Empty()})()),
            "check_stage: expected a plan with batches",
        ),
    ],
)
def test_refusals(call, match):
    with pytest.raises(hr.InputError, match=match):
        call()
