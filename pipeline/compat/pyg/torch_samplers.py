"""Batches in the order of one of torch's samplers: what ``sampler=`` and ``batch_sampler=`` of a DataLoader say."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from headrace.ops.errors import ItemsError
from headrace.ops.random.rng import SHUFFLE, stream_key
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.items import ItemSet, seed_batch
from headrace.pipeline.data.times import as_times
from headrace.pipeline.plan.source import BatchSource, SourceStage
from headrace.pipeline.plan.stage import RunSettings


@dataclass(frozen=True, eq=False, repr=False)
class TorchSampler(SourceStage):
    """Draw the batches that a batch sampler of torch names by positions in the items.

    The positions of an epoch are listed when it begins, with torch's generator, and that of the sampler, at a state
    that seed and epoch name, and put back behind: so the order is a function of both, and a resumed epoch goes on with
    it. A sampler with ``set_epoch``, as torch's ``DistributedSampler``, is told the epoch while they are listed, unless
    the user has told it one: theirs counts, as with torch, and a resumed epoch goes on with it, too. The order must
    come to an end, and may differ in length from epoch to epoch.

    Parameters
    ----------
    items
        As for ``ItemSampler``.
    batches
        Yields a list of positions for each batch.
    seed
        Seed of the plan.
    time
        When each item is asked for, as for ``ItemSampler``.
    """

    name: ClassVar[str] = "torch_sampler"

    items: Any
    batches: Iterable[Any]
    seed: Any = field(default=None, kw_only=True)
    time: Any = field(default=None, kw_only=True)  # a tensor once constructed

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", ItemSet.of(self.items))
        if self.time is not None:
            object.__setattr__(self, "time", as_times(self.time, "time", ItemsError))
        self.settle_seed()

    def decisive(self) -> dict[str, Any]:
        return {"items": self.items, "seed": self.seed, "batches": type(self.batches), "time": self.time}

    @property
    def writes(self) -> frozenset[str]:
        timed = {"seed_time"} if self.time is not None else set()
        return super().writes | timed | ({"y"} if self.items.labels is not None else set())

    @property
    def seed_times(self) -> Any:
        return self.time

    @property
    def gives_no_times(self) -> bool:
        return self.time is None

    @property
    def largest_id(self) -> int | None:
        return int(self.items.largest_id)

    @property
    def gives_pairs(self) -> bool:
        return bool(self.items.are_pairs)

    @property
    def gives_labels(self) -> bool:
        return self.items.labels is not None

    def source(self, settings: RunSettings) -> BatchSource:
        del settings
        return _Items(self)


class NamedBatches(BatchSource):
    """Base of what draws batches of the positions that a batch sampler of torch names.

    Parameters
    ----------
    batches
        As for `TorchSampler`.
    seed
        Seed of the plan.
    """

    num_batches = None  # what a sampler says of its length need not be true

    def __init__(self, batches: Iterable[Any], seed: int) -> None:
        self._sampler, self._seed = batches, seed
        self._batches: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        self._epoch = self._next = 0
        self._told = [sampler for sampler in _samplers_in(batches) if hasattr(sampler, "set_epoch")]
        self._epochs: list[int] = []  # what each of them was told
        self._by_user = [False] * len(self._told)  # whether the user tells it epochs

    @abstractmethod
    def named(self, positions: np.ndarray[Any, np.dtype[np.int64]], epoch: int, index: int) -> MiniBatch:
        """Return the batch of some positions, number `index` of an epoch."""

    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        self._epoch, self._next = epoch, 0 if state is None else int(state["batch"])
        own = [getattr(sampler, "epoch", None) for sampler in self._told]
        # They come with epoch 0 and are put back below, so another one is the user's, and so are all that follow.
        self._by_user = [before or _is_told(one) for before, one in zip(self._by_user, own, strict=True)]
        theirs = zip(self._by_user, own, strict=True)
        self._epochs = [one if by_user and isinstance(one, int) else epoch for by_user, one in theirs]
        kept = [] if state is None else list(state.get("sampler_epochs", ()))  # older states have none
        if len(kept) == len(own):
            self._epochs = [int(one) for one in kept]
        with (
            _told(self._told, self._epochs, own),
            _seeded(stream_key(self._seed, epoch, 0, 0, SHUFFLE), self._sampler),
        ):
            self._batches = [np.asarray(one, dtype=np.int64).reshape(-1) for one in self._sampler]

    def state(self) -> dict[str, Any]:
        return {"sampler_epochs": list(self._epochs)} if self._told else {}

    def draw(self) -> MiniBatch:
        if self._next >= len(self._batches):
            raise StopIteration
        batch = self.named(self._batches[self._next], self._epoch, self._next)
        self._next += 1
        return batch


class _Items(NamedBatches):
    """Draws the batches of a :class:`TorchSampler`."""

    def __init__(self, stage: TorchSampler) -> None:
        super().__init__(stage.batches, stage.seed)
        self._stage = stage

    def named(self, positions: np.ndarray[Any, np.dtype[np.int64]], epoch: int, index: int) -> MiniBatch:
        return seed_batch(
            self._stage.items,
            positions,
            epoch=epoch,
            index=index,
            num_global_seeds=len(positions),
            seed_time=None if self._stage.time is None else self._stage.time[torch.from_numpy(positions)],
        )


def _samplers_in(batches: Any) -> Iterator[Any]:
    """Yield a batch sampler and the sampler within it."""
    yield batches
    if hasattr(batches, "sampler"):
        yield batches.sampler


def _is_told(epoch: Any) -> bool:
    return isinstance(epoch, int) and epoch > 0


@contextmanager
def _told(samplers: list[Any], epochs: list[int], own: list[Any]) -> Iterator[None]:
    """Let samplers stand at epochs, and put them back to their own, where that is known."""
    try:
        for sampler, epoch in zip(samplers, epochs, strict=True):
            sampler.set_epoch(epoch)
        yield
    finally:
        for sampler, epoch in zip(samplers, own, strict=True):
            if isinstance(epoch, int):
                sampler.set_epoch(epoch)


@contextmanager
def _seeded(key: int, batches: Any) -> Iterator[None]:
    """Let the generators that a sampler may draw from begin at a key, and put them back as they were."""
    own = [getattr(sampler, "generator", None) for sampler in _samplers_in(batches)]
    generators = [torch.default_generator, *(one for one in own if isinstance(one, torch.Generator))]
    states = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(key)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
