"""Resume is a seek: every state of two epochs, loaded in a fresh process, continues with the very next batch."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch

import headrace as hr

from contracts import continue_in_fresh_process, continued, digests, run_and_save
from plans import PLANS, double, graph, items, store

pytestmark = pytest.mark.slow


# All in one process, as it takes longer to start than what it does for ten.
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.thorough)])
def test_continues_in_a_fresh_process(every):
    """Each plan from a tenth of its states, one from the beginning and the next from behind the first batch."""
    expected, states = {}, {}
    for number, name in enumerate(PLANS):
        with PLANS[name]().loader() as loader:
            seen, saved = run_and_save(loader)
        assert len(set(seen)) == len(seen), f"epochs and batches must differ: {name}"
        chosen = range(number % every, len(saved), every)
        states[name] = [saved[done] for done in chosen]
        expected[name] = [seen[done:] for done in chosen]
    assert continue_in_fresh_process(states, num_threads=2) == expected


def test_continues_under_other_passes_and_workers():
    with PLANS["neighbor"]().loader() as loader:
        seen, states = run_and_save(loader)
    tails = continued({"neighbor": states}, num_threads=1, fuse_sampling=False, workers=3)
    assert tails["neighbor"] == [seen[done:] for done in range(len(seen) + 1)]


def test_state_is_a_few_plain_values():
    loader = PLANS["neighbor"]().loader()
    state = loader.state_dict()
    assert json.loads(json.dumps(state)) == state
    assert len(json.dumps(state)) < 500


def backwards(value):
    """Return the value with the keys of all its mappings in reverse order, as some writers sort them."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in sorted(value, reverse=True)}
    return value


def through_torch(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def other_integers(state):
    """As arrays and tensors, which checkpoint libraries make of numbers."""
    source = {**state["source"], "batch": np.int64(state["source"]["batch"])}
    return {**state, "epoch": torch.tensor(state["epoch"]), "source": source, "batch_size": np.int32(17)}


@pytest.mark.parametrize(
    "carry",
    [
        lambda state: json.loads(json.dumps(state, sort_keys=True)),
        backwards,
        through_torch,
        other_integers,
    ],
)
def test_a_state_survives_what_carries_it(carry):
    """The names of these stages come in another order when they are sorted, whichever way."""

    def plan():
        return items().sample_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"]).transform(double)

    with plan().loader() as loader:
        iterator = iter(loader)
        next(iterator)
        next(iterator)
        state = loader.state_dict()
        rest = [batch.digest() for batch in iterator]
    carried = carry(state)
    assert list(state["plan"]) not in (sorted(state["plan"]), sorted(state["plan"], reverse=True))
    with plan().loader() as resumed:
        resumed.load_state_dict(carried)
        assert json.dumps(resumed.state_dict(), sort_keys=True) == json.dumps(state, sort_keys=True)
        assert [batch.digest() for batch in resumed] == rest


def test_stages_in_another_order_are_another_plan_however_keys_are_sorted():
    first = items().sample_neighbor(graph(), [5]).fetch_feature(store(), node=["x"]).transform(double)
    second = items().sample_neighbor(graph(), [5]).transform(double_later).fetch_feature(store(), node=["x"])
    state = first.loader().state_dict()
    assert state["plan"].keys() == second.loader().state_dict()["plan"].keys()
    for carried in (state, backwards(state), json.loads(json.dumps(state, sort_keys=True))):
        with pytest.raises(hr.StateError, match=r"its stages are .*feature, transform; this plan has .*transform, f"):
            second.loader().load_state_dict(carried)


def double_later(batch):
    return batch


def test_states_of_earlier_versions_are_read():
    """They do not name the stages a second time."""
    state = items().sample_neighbor(graph(), [5]).loader().state_dict()
    del state["stages"]
    items().sample_neighbor(graph(), [5]).loader().load_state_dict(state)
    with pytest.raises(hr.StateError, match="another plan"):
        items().sample_neighbor(graph(), [5]).loader().load_state_dict(backwards(state))


def test_state_behind_the_last_batch_is_the_beginning_of_the_next_epoch():
    loader = items().loader()
    for _ in loader:
        state = loader.state_dict()
    resumed = items().loader()
    resumed.load_state_dict(state)
    assert resumed.epoch == 1
    assert next(iter(resumed)).epoch == 1


def test_state_continues_on_another_number_of_ranks():
    def seeds(world_size, rank, state=None):
        loader = items().loader(world_size=world_size, rank=rank)
        if state is not None:
            loader.load_state_dict(state)
        return [batch.seeds for batch in loader], loader

    whole, _ = seeds(1, 0)
    loader = items().loader(world_size=2, rank=1)
    iterator = iter(loader)
    next(iterator)
    next(iterator)
    state = loader.state_dict()
    shares = [seeds(3, rank, state)[0] for rank in range(3)]
    assert [torch.cat(parts).tolist() for parts in zip(*shares, strict=True)] == [ids.tolist() for ids in whole[2:]]


@pytest.mark.parametrize(
    ("other", "stage"),
    [
        (lambda: items(seed=12).sample_neighbor(graph(), [5, 3]), "item_sampler"),
        (
            lambda: items(batch_size=16).sample_neighbor(graph(), [5, 3]),
            "of 16 items .* make the loader with batch_size=17",
        ),
        (lambda: items().sample_neighbor(graph(), [5, 4]), "sample_neighbor"),
        (lambda: items().sample_neighbor(graph(), [5, 3]).transform(lambda batch: batch), "transform"),
    ],
)
def test_a_state_of_another_plan_is_refused_and_changes_nothing(other, stage):
    state = items().sample_neighbor(graph(), [5, 3]).loader().state_dict()
    loader = other().loader()
    expected = digests(other().loader())
    with pytest.raises(hr.StateError, match=stage):
        loader.load_state_dict(state)
    assert digests(loader) == expected


def test_nonsense_is_refused():
    loader = items().loader()
    with pytest.raises(hr.StateError, match="state_dict"):
        loader.load_state_dict({"epoch": 1})
    with pytest.raises(hr.StateError, match="format"):
        loader.load_state_dict({**loader.state_dict(), "format": 99})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"epoch": -1}, "epoch"),
        ({"epoch": 1 << 32}, "epoch"),
        ({"epoch": "1"}, "epoch to be an integer .* got '1'"),
        ({"epoch": True}, "epoch to be an integer"),
        ({"epoch": 1.0}, "epoch to be an integer"),
        ({"epoch": torch.tensor([1, 2])}, "epoch to be an integer"),
        ({"format": "1"}, "format to be an integer .* got '1'"),
        ({"batch_size": "17"}, "batch_size to be an integer .* got '17'"),
        ({"source": {"batch": "1"}}, "batch to be an integer .* got '1'"),
        ({"stages": None}, "another plan"),
        ({"stages": "items"}, "another plan"),
        ({"source": {"batch": 99}}, "from 0 to 6"),
        ({"source": {"batch": -1}}, "batch"),
        ({"source": {}}, "source"),
        ({"source": 3}, "source"),
        ({"plan": None}, "another plan"),
    ],
)
def test_impossible_values_are_refused_and_change_nothing(change, match):
    loader = items().loader()
    state = loader.state_dict()
    with pytest.raises(hr.StateError, match=match):
        loader.load_state_dict({**state, **change})
    assert loader.state_dict() == state


def test_batch_size_per_rank_refuses_another_number_of_ranks():
    def loader(world_size):
        plan = hr.ItemSampler(100, batch_size_per_rank=5)
        return plan.loader(rank=0, world_size=world_size)

    with pytest.raises(hr.StateError, match="got one of 10; make the loader with batch_size=10, which counts"):
        loader(3).load_state_dict(loader(2).state_dict())


# What a loader of ItemSampler(torch.arange(5, 25), batch_size=4, seed=3) saved behind two batches when orders were
# those of a Feistel network over powers of two.
BEFORE = {"format": 1, "epoch": 0, "source": {"batch": 2}, "batch_size": 4}
UNSHUFFLED, SHUFFLED = "cc28dd229b990601", "559ed98aeda7f4eb"


def sampler_of_before(*, shuffle):
    return hr.ItemSampler(torch.arange(5, 25), batch_size=4, shuffle=shuffle, seed=3)


def test_a_state_from_before_the_orders_changed_is_refused():
    """It points into another order: some seeds would come twice, others not at all."""
    loader = sampler_of_before(shuffle=True).loader()
    with pytest.raises(hr.StateError, match="stage item_sampler differs"):
        loader.load_state_dict({**BEFORE, "plan": {"item_sampler": SHUFFLED}})


def test_a_state_from_before_without_a_shuffle_is_taken():
    loader = sampler_of_before(shuffle=False).loader()
    loader.load_state_dict({**BEFORE, "plan": {"item_sampler": UNSHUFFLED}})
    assert next(iter(loader)).seeds.tolist() == [13, 14, 15, 16]


@pytest.mark.parametrize("num_items", [60, 2**20 + 60], ids=["listed", "network"])
def test_epochs_have_orders_of_their_own(num_items):
    """Of the seeds themselves: a digest of a batch holds the epoch. Resumed in the middle, the order is the epoch's."""

    def seeds(loader):
        iterator = iter(loader)
        return [next(iterator).seeds.tolist() for _ in range(3)]

    plan = hr.ItemSampler(num_items, batch_size=20, shuffle=True, seed=5)
    loader, epochs = plan.loader(), []
    for epoch in (0, 1, 2, 1):
        loader.set_epoch(epoch)
        epochs.append(seeds(loader))
    assert epochs[3] == epochs[1]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    if num_items == 60:
        assert all(sorted(seed for batch in epoch for seed in batch) == list(range(60)) for epoch in epochs)
    other = plan.loader()
    other.set_epoch(1)
    iterator = iter(other)
    next(iterator)
    resumed = plan.loader()
    resumed.load_state_dict(other.state_dict())
    assert next(iter(resumed)).seeds.tolist() == epochs[1][1]
