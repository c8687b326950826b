"""The notes by which ranks compare their places: what is kept, and stores that are gone."""

from __future__ import annotations

import gc
import threading

import pytest
from ranks import run_ranks

import headrace as hr
from headrace.pipeline.distributed.same_place import Notes, SamePlace

BATCHES = 5
TOLD = "expected all ranks to take the same batches of an epoch"


def make(comm: hr.Comm) -> hr.Loader:
    return hr.ItemSampler(BATCHES * 6, batch_size=6, shuffle=True, seed=0).loader(comm=comm)


@pytest.mark.parametrize("longer_first", [True, False])
def test_a_rank_that_ends_sees_who_has_more_or_is_seen(longer_first):
    """Whatever comes first, one of two ranks is told at once."""
    notes = hr.testing.LocalGroup(2).comms[0].notes
    short, long = (SamePlace(notes, rank, 2, 0, at_every_batch=True) for rank in range(2))
    for places in (short, long):
        places.begin(0, 0)
        places.reach(0, 1)
    if longer_first:
        long.reach(0, 2)
    else:
        short.look_back()
    with pytest.raises(hr.PeerError, match=TOLD):
        if longer_first:
            short.look_back()
        else:
            long.reach(0, 2)


def test_ends_of_past_epochs_are_forgotten():
    notes = hr.testing.LocalGroup(2).comms[0].notes
    ranks = [SamePlace(notes, rank, 2, 0, at_every_batch=True) for rank in range(2)]
    kept = []
    for epoch in range(6):
        for places in ranks:
            places.begin(epoch, 0)
            places.reach(epoch, 1)
        for places in ranks:
            places.look_back()
            places.end()
        kept.append((len(notes._texts), len(notes._counts)))
    assert kept[-1] == kept[1]


def test_places_of_past_epochs_are_forgotten():
    def load(comm: hr.Comm) -> int:
        with make(comm) as loader:
            for _ in range(6):
                list(loader)
            return loader.epoch

    group = hr.testing.LocalGroup(2)
    threads = [threading.Thread(target=load, args=(comm,)) for comm in group.comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not [key for key in group.comms[0].notes._texts if "places" in key]


class GoneNotes(Notes):
    """The store of a job whose first rank has ended."""

    def first(self, key: str, text: str) -> str:
        raise hr.PeerError("gone")

    def get(self, key: str) -> str:
        raise hr.PeerError("gone")

    def add(self, key: str, value: int) -> int:
        raise hr.PeerError("gone")

    def delete(self, *keys: str) -> None:
        raise hr.PeerError("gone")


def test_ranks_go_on_when_the_store_is_gone(monkeypatch):
    def load(comm: hr.Comm) -> int:
        with make(comm) as loader:
            assert len(list(loader)) == BATCHES
            next(iter(loader))
            return len(list(loader))

    monkeypatch.setattr(hr.testing.LocalGroup(1).comms[0].__class__, "notes", property(lambda self: GoneNotes()))
    assert run_ranks(2, load) == [BATCHES] * 2


def test_destructors_ask_nobody():
    """They may run in any thread, at any time."""
    places = SamePlace(GoneNotes(), 0, 2, 0)
    turn = places.turn(0, 0)
    turn.ask()
    turn.receive(0, 0)
    turn.finish(came_to_its_end=True)
    del turn
    gc.collect()
