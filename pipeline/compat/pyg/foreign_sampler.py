"""A sampler of PyG or of the user as a stage: what a loader runs that was given one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.stage import CONVERTED, Counts, MapStage, Runner, RunSettings

#: By the id of a sampler, for as long as somebody samples with it or waits to.
_locks: WeakValueDictionary[int, Any] = WeakValueDictionary()
_guard = Lock()


def alone_with(sampler: Any) -> Any:
    """Return a context in which no other thread samples with a sampler.

    In PyG each worker process has a copy of it; here all threads, and all loaders that share it, have the one that the
    user made, which may keep state from call to call.
    """
    with _guard:
        lock = _locks.get(id(sampler))
        if lock is None:
            lock = _locks[id(sampler)] = RLock()
        return lock


@dataclass(frozen=True, eq=False, repr=False)
class ForeignSampler(MapStage):
    """Let another ``BaseSampler`` sample; what it draws is named by no seed of the plan.

    Parameters
    ----------
    sample
        From the items of a batch, int64[num_seeds], to a ``SamplerOutput``. Workers call it at the same time: see
        `alone_with`.
    """

    name: ClassVar[str] = "foreign_sampler"
    gives: ClassVar[str | None] = CONVERTED

    sample: Callable[[Any], Any]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"item_index"})

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[Any, Counts]:
            return self.sample(batch.item_index), {}

        return run
