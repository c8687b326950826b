"""Stages of loaders that call functions of PyG and the user: samplers, and those that finish batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
import torch

from headrace.ops.forks import ProcessLock
from headrace.ops.random.rng import USER, stream_key
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import CONVERTED, Counts, MapStage, PlainStage, Runner


@dataclass(frozen=True, eq=False, repr=False)
class Finish(MapStage):
    """Pass what came from a sampler through a function: it joins attributes, or is the user's transform.

    Parameters
    ----------
    function
        From a ``SamplerOutput`` or a ``Data`` to a ``Data``; the second argument is the number of threads it may use.
    label
        What it does, the name of the stage in stats.
    """

    takes: ClassVar[frozenset[str]] = frozenset({CONVERTED})
    gives: ClassVar[str | None] = CONVERTED
    changes_batches: ClassVar[bool] = False

    function: Callable[[Any, int], Any]
    label: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.label

    def runner(self, settings: RunSettings) -> Runner:
        def run(batch: Any) -> tuple[Any, Counts]:
            made = self.function(batch, settings.num_threads)
            return made, {}

        return run


@dataclass(frozen=True, eq=False, repr=False)
class FinishAlone(Finish):
    """Pass a batch through a function whose draws seed, epoch and batch number name, and nobody else sees.

    The generators of torch, NumPy and Python are those of the process, so this runs in the thread of the training loop:
    in another one its draws and those of the loop would be mixed as the clock says.

    Parameters
    ----------
    number
        Which of the functions of a batch it is: each has a stream.
    """

    keyed: ClassVar[bool] = True

    number: int = 0

    def runner(self, settings: RunSettings) -> Runner:
        """Return the function that does it."""

        def run(batch: Any, epoch: int, index: int) -> tuple[Any, Counts]:
            with own_stream(stream_key(settings.seed, epoch, index, self.number, USER)):
                return self.function(batch, settings.num_threads), {}

        return run


@contextmanager
def seeded(generators: Sequence[torch.Generator], key: int) -> Iterator[None]:
    """Let generators of torch begin at a key, and put them back as they were."""
    states = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(key)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


@contextmanager
def own_stream(key: int) -> Iterator[None]:
    """Let the generators of torch, NumPy and Python begin at a key, and put them back as they were."""
    of_numpy, of_python = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002 - the one that users draw from
    try:
        # Those of GPUs are there once something has used one.
        with seeded([torch.default_generator, *torch.cuda.default_generators], key):
            np.random.seed([key & 0xFFFFFFFF, key >> 32])  # noqa: NPY002
            random.seed(key)
            yield
    finally:
        np.random.set_state(of_numpy)  # noqa: NPY002
        random.setstate(of_python)


#: By the id of a sampler, for as long as somebody samples with it or waits to.
_locks: WeakValueDictionary[int, ProcessLock] = WeakValueDictionary()
_guard = ProcessLock()


@contextmanager
def alone_with(sampler: Any) -> Iterator[None]:
    """Let no other thread sample with a sampler meanwhile.

    In PyG each worker process has a copy of it; here all threads, and all loaders that share it, have the one that the
    user made, which may keep state from call to call.
    """
    with _guard.held():
        lock = _locks.get(id(sampler))
        if lock is None:
            lock = _locks[id(sampler)] = ProcessLock(RLock)
    with lock.held():
        yield


@dataclass(frozen=True, eq=False, repr=False)
class ForeignSampler(PlainStage):
    """Let another ``BaseSampler`` sample; what it draws is named by no seed of the plan.

    Parameters
    ----------
    sample
        From the items of a batch, int64[num_seeds], to a ``SamplerOutput``. Workers call it at the same time: see
        `alone_with`.
    """

    name: ClassVar[str] = "foreign_sampler"
    gives: ClassVar[str | None] = CONVERTED
    reads: ClassVar[frozenset[str]] = frozenset({"item_index"})

    sample: Callable[[Any], Any]

    def decisive(self) -> dict[str, Any]:
        """Return nothing: a checkpoint keeps the positions of items, and not what the sampler draws of them."""
        return {}

    def run(self, batch: MiniBatch) -> tuple[Any, Counts]:
        return self.sample(batch.item_index), {}
