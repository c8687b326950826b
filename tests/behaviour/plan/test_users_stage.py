"""What stages of users return and declare is checked, and named with the stage."""

from __future__ import annotations

import collections
import copy

import numpy as np
import pytest
import torch

import headrace as hr

from plans import graph, items, store


def stage(run=lambda batch: (batch, {}), *, kind=hr.ext.MapStage, **members):
    members = {"name": "own", "runner": lambda self, settings: run, **members}
    return type("Own", (kind,), members)()


def planned(own: hr.ext.Stage, *, first: bool = False) -> hr.Plan:
    begun = items().then(own) if first else items()
    fetched = begun.sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"], labels="y")
    return fetched if first else fetched.then(own)


def writing(**changes):
    return lambda batch: (batch.replace(**{name: change(batch) for name, change in changes.items()}), {})


RETURNED = {
    "nothing": (lambda batch: None, "a batch and what it counted, got NoneType"),
    "three": (lambda batch: (batch, {}, 1), "a batch and what it counted, got tuple"),
    "no batch": (lambda batch: (None, {}), r"Own to return a MiniBatch and its counts, got NoneType"),
    "no counts": (lambda batch: (batch, None), "a batch and what it counted|to return its counts, got NoneType"),
    "text": (lambda batch: (batch, {"n": "1"}), "Own to count in finite numbers by name, got 'n': '1'"),
    "nan": (lambda batch: (batch, {"n": float("nan")}), "Own to count in finite numbers by name, got 'n': nan"),
    "inf": (lambda batch: (batch, {"n": float("inf")}), "Own to count in finite numbers by name, got 'n': inf"),
    "several": (lambda batch: (batch, {"n": torch.ones(2)}), r"got 'n': float32\[2\]"),
    "number": (lambda batch: (batch, {7: 7}), "got 7: 7"),
    "batches": (lambda batch: (batch, {"batches": 100}), "Own to count by names of its own, got 'batches'"),
    "seconds": (lambda batch: (batch, {"seconds": -1e9}), "Own to count by names of its own, got 'seconds'"),
}


@pytest.mark.parametrize("returned", RETURNED)
def test_what_is_no_batch_with_its_counts_is_refused(returned):
    run, match = RETURNED[returned]
    with pytest.raises(hr.PlanError, match=match) as caught:
        list(planned(stage(run)).loader())
    assert any("in stage own, batch 0 of epoch 0" in note for note in caught.value.__notes__)


def test_numbers_of_any_kind_are_counted():
    for count in (2, 2.0, np.int32(2), np.float32(2), torch.tensor(2)):
        with planned(stage(lambda batch, count=count: (batch, {"n": count}))).loader() as loader:
            num_batches = len(list(loader))
            assert loader.stats()["own"]["n"] == 2 * num_batches
    with planned(stage(lambda batch: (batch, collections.Counter("ab")))).loader() as loader:
        list(loader)
        assert loader.stats()["own"]["a"] == num_batches
    for count in (True, np.bool_(True)):
        with planned(stage(lambda batch, count=count: (batch, {"n": count}))).loader() as loader:
            list(loader)
            assert loader.stats()["own"]["n"] == num_batches


UNDECLARED = {
    "n_id": writing(n_id=lambda batch: batch.n_id.flip(0)),
    "seeds": writing(seeds=lambda batch: batch.seeds.flip(0)),
    "epoch": writing(epoch=lambda batch: batch.epoch + 1),
    "index": writing(index=lambda batch: batch.index + 1),
    "seeds and n_id": writing(seeds=lambda batch: batch.seeds.flip(0), n_id=lambda batch: batch.n_id.flip(0)),
}


@pytest.mark.parametrize("fields", UNDECLARED)
def test_keys_of_later_stages_are_written_that_are_not_declared(fields):
    match = rf"Own to change the fields of a batch that its writes names, \['edge'\], but {fields} changed as well; add"
    own = stage(UNDECLARED[fields], writes=frozenset({"edge"}))
    with pytest.raises(hr.PlanError, match=match):
        list(planned(own).then(stage()).loader())


def moved(batch):
    return copy.deepcopy(batch), {}  # as .to() and .pin_memory() do


LEGAL = {
    "y": writing(y=lambda batch: batch.y + 1),
    "node": writing(node=lambda batch: {**batch.node, "x": batch.x * 2}),
    "blocks": writing(blocks=lambda batch: batch.blocks[:0]),
    "one label": writing(y=lambda batch: batch.y.float().mean()),
    "one label of a row": writing(y=lambda batch: batch.y.float().mean(keepdim=True, dim=0)),
    "labels in a tuple": writing(y=lambda batch: (batch.y, batch.y)),
    "array": writing(y=lambda batch: batch.y.numpy()),
    "more labels": writing(y=lambda batch: torch.zeros(5 * len(batch.seeds))),
    "texts": writing(node=lambda batch: {**batch.node, "text": ["a"] * len(batch.n_id)}),
    "another tensor": writing(node=lambda batch: {**batch.node, "k": torch.zeros(3)}),
    "fewer features": writing(node=lambda batch: {}),
    "the device": lambda batch: (batch.to("cpu"), {}),
    "copy": moved,
}


@pytest.mark.parametrize("change", LEGAL)
@pytest.mark.parametrize("is_last", [False, True])
def test_what_harms_nobody_need_not_be_declared(change, is_last):
    own = planned(stage(LEGAL[change]))
    for batch, like in zip((own if is_last else own.then(stage())).loader(), planned(stage()).loader(), strict=True):
        assert torch.equal(batch.n_id, like.n_id)


@pytest.mark.parametrize(
    "made", [lambda batch: {"x": batch.x}, lambda batch: (batch.x, batch.y), lambda batch: batch.x]
)
def test_the_last_stage_may_return_anything(made):
    own = stage(lambda batch: (made(batch), {}))
    assert all(isinstance(one, dict | tuple | torch.Tensor) for one in planned(own).loader())
    assert len(list(planned(own).prefetch().loader())) == len(list(planned(own).loader()))
    with pytest.raises(hr.PlanError, match=r"Own to return a MiniBatch and its counts, got .* or name in its gives"):
        list(planned(own).then(stage()).loader())


def test_the_last_stage_may_write_ids_of_the_user():
    own = stage(writing(n_id=lambda batch: batch.n_id.int() * 10, index=lambda batch: batch.index + 100))
    for batch, like in zip(planned(own).loader(), planned(stage()).loader(), strict=True):
        assert torch.equal(batch.n_id, like.n_id * 10)


def test_the_same_values_are_no_change():
    same = writing(node=lambda batch: dict(batch.node), epoch=lambda batch: batch.epoch, y=lambda batch: batch.y)
    assert [batch.digest() for batch in planned(stage(same)).loader()] == [
        batch.digest() for batch in planned(stage()).loader()
    ]


UNFIT = {
    "y": (writing(y=lambda batch: batch.y[2:]), r"a row of y for each of the \d+ seeds, got int64\[\d+\]"),
    "node": (writing(node=lambda batch: {"x": batch.x[1:]}), r"a row of node\['x'\] for each of the \d+ n_id, got"),
    "n_id": (writing(n_id=lambda batch: batch.n_id[1:]), r"a row of node\['x'\] for each of the \d+ n_id, got"),
}


@pytest.mark.parametrize("field", UNFIT)
def test_what_is_written_fits_the_batch(field):
    run, match = UNFIT[field]
    with pytest.raises(hr.PlanError, match=f"Own to return {match}"):
        list(planned(stage(run, writes=frozenset({"y", "node"}))).loader())


@pytest.mark.parametrize("field", ["seeds", "n_id"])
def test_ids_are_int64(field):
    run = writing(**{field: lambda batch: getattr(batch, field).int()})
    with pytest.raises(hr.PlanError, match=f"Own to return {field} of int64"):
        list(planned(stage(run, writes=frozenset({field})), first=True).loader())


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ({"writes": "y"}, "own: expected Own.writes to be a frozenset of names of fields of a batch, got 'y'"),
        ({"writes": None}, "Own.writes to be a frozenset"),
        ({"reads": None}, "Own.reads to be a frozenset"),
        ({"reads": frozenset({"x"})}, r"Own.reads .* got frozenset\(\{'x'\}\); they are seeds, "),
        ({"writes": frozenset({"labels"})}, "Own.writes .* got .*labels"),
        ({"name": None}, "Own.name to be the name of the stage in texts and checkpoints, got None"),
        ({"name": 3}, "Own.name to be the name of the stage in texts and checkpoints, got 3"),
        ({"runner": lambda self, settings: None}, "Own.runner to return a function .* got NoneType"),
    ],
)
def test_what_a_stage_declares_is_checked_before_work_starts(members, match):
    with pytest.raises(hr.PlanError, match=match):
        planned(stage(**members)).loader()


@pytest.mark.parametrize("parts", [None, 3, ("prefetch",), hr.ItemSampler(3), (hr.ItemSampler(3),)])
def test_a_macro_expands_to_stages(parts):
    macro = stage(kind=hr.ext.MacroStage, parts=lambda self: parts)
    with pytest.raises(hr.PlanError, match=r"own: expected Own.parts to return a tuple of stages behind a source, got"):
        planned(macro).loader()


def test_a_macro_of_stages_of_users_is_checked_as_they_are():
    macro = stage(kind=hr.ext.MacroStage, parts=lambda self: [stage(RETURNED["text"][0])])
    with pytest.raises(hr.PlanError, match="Own to count in finite numbers"):
        list(planned(macro).loader())


GIVEN_BY = {
    "seed_time": r"give items times, ItemSampler\(items, time=...\)",
    "y": r"give items labels, or chain fetch_feature\(store, labels=...\)",
    "node": r"chain fetch_feature\(store, node=\[...\]\) before it",
    "blocks": "chain a sampler before it",
    "slot": "chain a sampler of trees before it",
    "seed_slot": "leave it out of reads",
}


@pytest.mark.parametrize("field", GIVEN_BY)
def test_a_field_that_is_missing_is_told_what_gives_it(field):
    own = stage(reads=frozenset({field}))
    with pytest.raises(hr.PlanError, match=f"it reads {field}, which no stage before it writes; {GIVEN_BY[field]}"):
        hr.ItemSampler(10).then(own).loader()
