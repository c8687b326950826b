"""What sources of batches of users draw and declare is checked, and named with the source."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import headrace as hr

from plans import graph


class Pairs(hr.ext.BatchSource):
    num_batches = 3

    def seek(self, epoch, state):
        self.epoch, self.drawn = epoch, 0 if state is None else state["batch"]

    def draw(self):
        if self.drawn == 3:
            raise StopIteration
        self.drawn += 1
        return self.batch()

    def batch(self):
        return self.of(torch.tensor([self.drawn, 10 * self.drawn]))

    def of(self, seeds, **fields):
        return hr.MiniBatch.of_seeds(seeds, epoch=self.epoch, index=self.drawn - 1, **fields)


def source(batch=None, *, stage=(), **members) -> hr.ext.SourceStage:
    if batch is not None:
        members["batch"] = batch
    drawer = type("Own", (Pairs,), members)
    named = {"name": "own_pairs", "seed": 7, "source": lambda self, settings: drawer(), **dict(stage)}
    return type("OwnPairs", (hr.ext.SourceStage,), named)()


def seeds_of(plan: hr.Plan, **options) -> list[list[int]]:
    with plan.loader(**options) as loader:
        batches = [batch for _ in loader.epochs(2) for batch in loader]
    return [batch.seeds.tolist() for batch in batches]


ids = torch.tensor
DRAWN = {
    "nothing": (lambda self: None, hr.PlanError, "Own.draw to return a MiniBatch, got NoneType"),
    "seeds": (lambda self: ids([1]), hr.PlanError, "Own.draw to return a MiniBatch, got Tensor"),
    "negative": (lambda self: self.of(ids([-1])), hr.InputError, "ids of nodes, at least 0, got -1 to -1"),
    "numbers": (lambda self: self.of(ids([0.5])), hr.InputError, "expected ids to be .* int64, got float32"),
    "cube": (lambda self: self.of(ids([[[1]]])), hr.InputError, r"in CPU memory, got int64\[1, 1, 1\]"),
    "one": (lambda self: self.of(ids(3)), hr.InputError, "expected seeds in one dimension or two, got a single number"),
    "labels": (
        lambda self: self.of(ids([1, 2]), y=ids([0])),
        hr.InputError,
        r"y of a row for each of 2 seeds, got int64\[1\]",
    ),
    "time": (lambda self: self.of(ids([1]), seed_time=3), hr.InputError, "seed_time of a row for each of 1 seeds"),
    "no nodes": (
        lambda self: hr.MiniBatch(ids([1]), ids([0]), ids([0]), epoch=self.epoch, index=self.drawn - 1),
        hr.InputError,
        r"seeds that are n_id\[seed_index\], got others",
    ),
    "another": (
        lambda self: hr.MiniBatch.of_seeds(ids([1]), epoch=0, index=0),
        hr.PlanError,
        "Own.draw to return batch 1 of epoch 0, got another one with index=0 and epoch=0",
    ),
}


@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("is_sampled", [False, True])
def test_what_is_no_such_batch_is_refused(drawn, is_sampled):
    batch, error, match = DRAWN[drawn]
    plan = source(batch)
    with pytest.raises(error, match=match) as caught:
        seeds_of(plan.sample_neighbor(graph(), [2]) if is_sampled else plan)
    assert any("in stage own_pairs, batch" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("options", [{}, {"prefetch": False}])
def test_a_tensor_that_is_drawn_again_changes_no_batch(options):
    shared = torch.zeros(2, dtype=torch.int64)
    drawn = source(lambda self: self.of(shared.fill_(self.drawn), y=shared))
    assert seeds_of(drawn, **options) == [[number, number] for number in (1, 2, 3)] * 2
    with drawn.loader(**options) as loader:
        assert [batch.y.tolist() for batch in list(loader)] == [[number, number] for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ({"num_batches": 2}, "Own.draw to return 2 batches in epoch 0, by num_batches or count, got one more"),
        ({"num_batches": "3"}, "Own.num_batches to be an integer of at least 0, got '3'"),
        ({"num_batches": 3.5}, "Own.num_batches to be an integer of at least 0, got 3.5"),
        ({"count": lambda self, epoch: "3"}, "Own.count to be an integer of at least 0, got '3'"),
        ({"count": lambda self, epoch: 2}, "Own.draw to return 2 batches in epoch 0, .* got one more"),
        ({"batch_size": "2"}, "Own.batch_size to be an integer of at least 1, got '2'"),
        ({"state": lambda self: None}, "Own.state to return a dictionary .* got NoneType"),
        ({"state": lambda self: {"batch": 9}}, "Own.state .* counts as 'batch': 1, got one with 'batch': 9"),
    ],
)
def test_what_a_source_says_of_its_batches_is_checked(members, match):
    with pytest.raises(hr.PlanError, match=match):
        seeds_of(source(**members))


LEGAL = {
    "float": {"num_batches": 3.0},
    "fewer": {"num_batches": 5},
    "fewer by count": {"count": lambda self, epoch: 4},
    "the loader's count": {"state": lambda self: {"batch": self.drawn}},
    "narrow": {"batch": lambda self: Pairs.batch(self).replace(seeds=Pairs.batch(self).seeds.int())},
    "list": {"batch": lambda self: Pairs.batch(self).replace(y=[1, 2, 3])},
    "running": {"batch": lambda self: Pairs.batch(self).replace(index=self.drawn + 100 * self.epoch)},
    "running in one epoch": {
        "batch": lambda self: Pairs.batch(self).replace(index=self.drawn + 3 * self.epoch, epoch=0)
    },
}


@pytest.mark.parametrize("members", LEGAL)
@pytest.mark.parametrize("options", [{}, {"prefetch": False}])
def test_what_harms_nobody_is_drawn(members, options):
    plan = source(**LEGAL[members])
    assert seeds_of(plan, **options) == [[number, 10 * number] for number in (1, 2, 3)] * 2
    assert seeds_of(plan.sample_neighbor(graph(), [2]), **options) == seeds_of(plan, **options)
    with plan.loader(**options) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with plan.loader(**options) as resumed:
        resumed.load_state_dict(state)
        assert [batch.seeds.tolist() for batch in resumed] == [[2, 20], [3, 30]]
    assert next(iter(plan.loader(**options))).seeds.dtype == torch.int64


def test_ranks_draw_as_many_batches_as_they_say():
    with pytest.raises(hr.PlanError, match=r"Own.draw to return 5 batches in epoch 0, .* got 3"):
        list(source(num_batches=5, stage={"shares_by_rank": True}).loader(rank=0, world_size=2))


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_with_the_keys_of_another_is_refused(epoch):
    plan = source(lambda self: Pairs.batch(self).replace(epoch=epoch))
    with pytest.raises(hr.PlanError, match=rf"batch 0 of epoch 1, got another one with index=0 and epoch={epoch}"):
        seeds_of(plan)


def test_features_that_a_source_draws_are_not_copied():
    x = torch.randn(2, 3)
    batch = next(iter(source(lambda self: Pairs.batch(self).replace(node={"x": x})).loader(prefetch=False)))
    assert batch.x.data_ptr() == x.data_ptr()


def test_an_unknown_number_of_batches_is_what_is_drawn():
    assert len(seeds_of(source(num_batches=None))) == 6


@pytest.mark.parametrize(
    ("stage", "match"),
    [
        ({"seed": None}, "OwnPairs: expected seed to be an integer from 0"),
        ({"seed": "7"}, "OwnPairs: expected seed to be an integer from 0"),
        ({"num_nodes": "9"}, "OwnPairs: expected num_nodes to be an integer of at least 0, got '9'"),
        ({"largest_id": 2.5}, "OwnPairs: expected largest_id to be an integer of at least 0, got 2.5"),
        ({"largest_id": 9}, "ids of nodes, at least 0 and at most 9, its largest_id, got 1 to 10"),
        (
            {"source": lambda self, settings: None},
            r"OwnPairs.source to return an hr\.ext\.BatchSource, got NoneType without",
        ),
    ],
)
def test_what_a_source_declares_is_checked(stage, match):
    with pytest.raises((hr.InputError, hr.PlanError), match=match):
        seeds_of(source(stage=stage).sample_neighbor(graph(), [2]))


class Counting(Pairs):
    """Returns one dictionary, which it changes."""

    def seek(self, epoch, state):
        super().seek(epoch, state)
        self.kept = {"sum": 0} if state is None else state
        self.kept.pop("batch", None)

    def draw(self):
        batch = super().draw()
        self.kept["sum"] += self.drawn
        return batch

    def state(self):
        return self.kept


def test_a_state_stays_as_it_was():
    class Source(hr.ext.SourceStage):
        name, seed = "counting", 7

        def source(self, settings):
            return Counting()

    with Source().prefetch(workers=1, depth=3).loader() as loader:
        states = [loader.state_dict()["source"] for _ in loader]
    assert states == [{"batch": 1, "sum": 1}, {"batch": 2, "sum": 3}, None]


@pytest.mark.parametrize("value", [torch.tensor(1), {1}, object(), b"x", [object()], {"a": torch.ones(2)}, 1j])
def test_a_state_that_checkpoints_cannot_hold_is_refused(value):
    with pytest.raises(hr.PlanError, match=r"Own\.state to return numbers, texts, lists and mappings"):
        loader = source(state=lambda self: {"value": value}).loader()
        next(iter(loader))
        loader.state_dict()


def test_a_state_goes_to_json_and_back():
    own = source(state=lambda self: {"numbers": (1, np.int64(2), np.float32(0.5)), "of": {"text": ["a", None, True]}})
    loader = own.loader()
    next(iter(loader))
    state = loader.state_dict()
    assert state["source"] == {"batch": 1, "numbers": [1, 2, 0.5], "of": {"text": ["a", None, True]}}
    assert json.loads(json.dumps(state)) == state


class Node:
    """A node that returns one dictionary, which it changes, or no state."""

    def __init__(self, *, has_state: bool) -> None:
        self.kept, self.has_state = {"next": 0}, has_state

    def reset(self, state=None):
        self.kept = {"next": 0} if state is None else state

    def __next__(self):
        if self.kept["next"] == 3:
            raise StopIteration
        self.kept["next"] += 1
        return torch.tensor([self.kept["next"]])

    def state_dict(self):
        return self.kept if self.has_state else None


def test_the_state_of_a_node_stays_as_it_was():
    with hr.ext.NodeSource(Node(has_state=True), seed=0).prefetch(workers=1, depth=3).loader() as loader:
        states = [loader.state_dict()["source"]["node"] for _ in loader]
    assert states == [{"next": 1}, {"next": 2}, {"next": 3}]


def test_a_node_without_a_state_is_refused():
    with pytest.raises(hr.InputError, match=r"expected Node.state_dict to return what reset takes, got None"):
        loader = hr.ext.NodeSource(Node(has_state=False), seed=0).loader()
        next(iter(loader))
        loader.state_dict()


def test_the_length_of_a_loader_over_an_unknown_number_of_batches():
    with pytest.raises(
        hr.PlanError, match=r"got own_pairs: .* a source of your own with num_batches = None, .*; count them"
    ):
        len(source(num_batches=None).loader())
