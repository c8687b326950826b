"""A fixed number of batches as an epoch, whatever the number of items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from headrace.ops.errors import ItemsError
from headrace.pipeline.compat.pyg.torch_samplers import NamedBatches
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.source import BatchSource, SourceStage
from headrace.pipeline.plan.stage import RunSettings
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.item_source import ItemSource
from headrace.pipeline.stages.own_items import OwnItemSource


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


class _Steps(BatchSource):
    """Draws the batches of :class:`Steps`."""

    def __init__(self, stage: Steps, source: ItemSource | OwnItemSource) -> None:
        self._source = source
        self.num_batches: int = stage.num_steps
        self._epoch = self._next = 0

    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        self._epoch, self._next = epoch, 0 if state is None else int(state["batch"])

    def draw(self) -> MiniBatch:
        if self._next >= self.num_batches:
            raise StopIteration
        batch = _batch_at(self._source, self._epoch * self.num_batches + self._next)
        self._next += 1
        return batch


class _NamedSteps(NamedBatches):
    """Draws the batches of :class:`Steps` that a sampler names."""

    def __init__(self, stage: Steps, batches: Iterable[Any], source: ItemSource | OwnItemSource) -> None:
        super().__init__(batches, stage.seed)
        self._source, self._num_steps = source, stage.num_steps

    def named(self, positions: np.ndarray[Any, np.dtype[np.int64]], epoch: int, index: int) -> MiniBatch:
        del index  # a batch is known by its step, whichever rank takes it
        if len(positions) != 1 or not 0 <= positions[0] < self._num_steps:
            raise ItemsError(
                f"GraphSAINT: expected the sampler to name one of {self._num_steps} steps for each batch, got "
                f"{positions.tolist()[:9]}; make it of range(num_steps), for batches of one"
            )
        return _batch_at(self._source, epoch * self._num_steps + int(positions[0]))
