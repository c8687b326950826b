"""Sources in the order of torch's samplers, ``sampler=`` and ``batch_sampler=``, and with a fixed number of batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from headrace.ops.errors import InputError
from headrace.ops.random.rng import SHUFFLE, stream_key
from headrace.pipeline.compat.pyg.finish import seeded
from headrace.pipeline.compat.pyg.torch_arguments import as_positions
from headrace.pipeline.data import ItemSet, MiniBatch, as_times
from headrace.pipeline.data.items import seed_batch
from headrace.pipeline.data.times import dtype_of_times
from headrace.pipeline.plan import BatchSource, NumberedSource, RunSettings, SourceStage
from headrace.pipeline.stages.cluster_sampler import ClusterSampler
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.item_source import ItemSource, OwnItemSource


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
            checked = as_times(self.time, "time")
            object.__setattr__(self, "_time_dtype", dtype_of_times(self.time))
            object.__setattr__(self, "time", checked)
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
        generators = [getattr(sampler, "generator", None) for sampler in _samplers_in(self._sampler)]
        own_generators = [one for one in generators if isinstance(one, torch.Generator)]
        with (
            _told(self._told, self._epochs, own),
            seeded([torch.default_generator, *own_generators], stream_key(self._seed, epoch, 0, 0, SHUFFLE)),
        ):
            self._batches = [as_positions(one, "batch_sampler") for one in self._sampler]

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
        count = len(self._stage.items)
        if len(positions) and not -count <= positions.min() <= positions.max() < count:
            raise InputError(
                f"expected the sampler to name positions among {count} items, got {positions.tolist()[:9]}; make it of "
                "the seeds"
            )
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


@dataclass(frozen=True, eq=False, repr=False)
class TorchClusters(ClusterSampler):
    """Let each batch be the clusters that a batch sampler of torch names, as `TorchSampler` does with items.

    The clusters are ranges of the nodes. One that is named twice in a batch is there once.

    Parameters
    ----------
    batches
        Yields a list of clusters for each batch.
    """

    name: ClassVar[str] = "torch_clusters"

    batches: Iterable[Any] = field(default=(), kw_only=True)

    def decisive(self) -> dict[str, Any]:
        """Return the clusters, the seed and the kind of sampler."""
        return {**super().decisive(), "batches": type(self.batches)}

    def source(self, settings: RunSettings) -> BatchSource:
        """Return what draws the batches."""
        del settings
        return _NamedClusters(self)


class _NamedClusters(NamedBatches):
    """Draws the batches of :class:`TorchClusters`."""

    def __init__(self, stage: TorchClusters) -> None:
        super().__init__(stage.batches, stage.seed)
        self._ends = np.concatenate([[0], np.cumsum(stage.partition.sizes)])

    def named(self, positions: np.ndarray[Any, np.dtype[np.int64]], epoch: int, index: int) -> MiniBatch:
        count = len(self._ends) - 1
        if len(positions) and not 0 <= positions.min() <= positions.max() < count:
            raise InputError(
                f"ClusterLoader: expected the sampler to name clusters in [0, {count}), got {positions.tolist()[:9]}; "
                "make it of the ClusterData"
            )
        clusters = list(dict.fromkeys(positions.tolist()))
        ranges = [np.arange(self._ends[one], self._ends[one + 1]) for one in clusters]
        seeds = torch.from_numpy(np.concatenate([np.empty(0, dtype=np.int64), *ranges]))
        return MiniBatch.of_seeds(seeds, epoch=epoch, index=index, item_index=seeds, num_global_seeds=len(seeds))


@dataclass(frozen=True, eq=False, repr=False)
class Steps(SourceStage):
    """Draw the batches of an ``ItemSampler`` one after the other, `num_steps` of them as an epoch.

    Its epochs follow each other without regard to those: batch i of epoch e is number ``e * num_steps + i`` of all.

    Parameters
    ----------
    drawn_from
        The items.
    num_steps
        Batches of an epoch.
    batches
        A batch sampler of torch that names the steps of an epoch, one at a time, in the place of all in their order:
        ranks that take different steps have together what one process has.
    """

    name: ClassVar[str] = "steps"

    drawn_from: ItemSampler
    num_steps: int
    batches: Iterable[Any] | None = None

    def decisive(self) -> dict[str, Any]:
        named = {} if self.batches is None else {"batches": type(self.batches)}
        return {"drawn_from": self.drawn_from, "num_steps": self.num_steps, **named}

    @property
    def seed(self) -> int:  # type: ignore[override]
        """The seed of the items."""
        seed: int = self.drawn_from.seed
        return seed

    @property
    def largest_id(self) -> int | None:
        return self.drawn_from.largest_id

    def source(self, settings: RunSettings) -> BatchSource:
        drawn_from = self.drawn_from.source(settings)
        return _Steps(self, drawn_from) if self.batches is None else _NamedSteps(self, self.batches, drawn_from)


def _batch_at(source: ItemSource | OwnItemSource, number: int) -> MiniBatch:
    """Return a batch by its number over all epochs of the items."""
    assert source.num_batches is not None  # items without a budget
    return source.batch_at(*divmod(number, source.num_batches))


class _Steps(NumberedSource):
    """Draws the batches of :class:`Steps`."""

    def __init__(self, stage: Steps, source: ItemSource | OwnItemSource) -> None:
        self._source = source
        self.num_batches: int = stage.num_steps

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return batch number `index` of an epoch."""
        return _batch_at(self._source, epoch * self.num_batches + index)


class _NamedSteps(NamedBatches):
    """Draws the batches of :class:`Steps` that a sampler names."""

    def __init__(self, stage: Steps, batches: Iterable[Any], source: ItemSource | OwnItemSource) -> None:
        super().__init__(batches, stage.seed)
        self._source, self._num_steps = source, stage.num_steps

    def named(self, positions: np.ndarray[Any, np.dtype[np.int64]], epoch: int, index: int) -> MiniBatch:
        del index  # a batch is known by its step, whichever rank takes it
        if len(positions) != 1 or not 0 <= positions[0] < self._num_steps:
            raise InputError(
                f"GraphSAINT: expected the sampler to name one of {self._num_steps} steps for each batch, got "
                f"{positions.tolist()[:9]}; make it of range(num_steps), for batches of one"
            )
        return _batch_at(self._source, epoch * self._num_steps + int(positions[0]))
