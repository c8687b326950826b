"""Sources of users: what they declare is enough to resume, on any number of workers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import headrace as hr

from plans import graph


class Drawer(hr.ext.BatchSource):
    """Draws seeds by the number of the batch; `extra` is what it needs to know beside that."""

    num_batches = 5

    def __init__(self, *, counts: bool) -> None:
        self._counts = counts
        self._epoch = self._drawn = self._extra = 0

    def seek(self, epoch, state):
        self._epoch = epoch
        self._drawn = 0 if state is None else state["batch"]
        self._extra = 100 * epoch if state is None or not self._counts else state["extra"]

    def draw(self):
        if self._drawn == self.num_batches:
            raise StopIteration
        self._drawn += 1
        self._extra += 1
        seeds = torch.tensor([self._drawn, self._drawn + 50]) + (self._extra if self._counts else 0)
        return hr.MiniBatch.of_seeds(seeds, epoch=self._epoch, index=self._drawn - 1)

    def state(self):
        return {"extra": self._extra} if self._counts else {}


@dataclass(frozen=True, eq=False, repr=False)
class Source(hr.ext.SourceStage):
    """A source with the defaults of its base."""

    name, seed = "of_users", 3

    counts: bool

    def source(self, settings):
        del settings
        return Drawer(counts=self.counts)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_resumes_at_every_batch(counts, workers):
    plan = Source(counts=counts).sample_neighbor(graph(), [2]).prefetch(workers=workers)
    with plan.loader() as loader:
        states, seen = [loader.state_dict()], []
        for _ in loader.epochs(2):
            for batch in loader:
                seen.append(batch.digest())
                states.append(loader.state_dict())
    assert len(set(seen)) == 10
    for place, state in enumerate(states):
        with plan.loader() as again:
            again.load_state_dict(state)
            assert [batch.digest() for _ in again.epochs(2) for batch in again] == seen[place:]


def test_states_hold_what_the_source_says_and_the_number_of_batches():
    loader = Source(counts=True).loader(prefetch=False)
    next(iter(loader))
    assert loader.state_dict()["source"] == {"batch": 1, "extra": 1}
