"""A fixed number of batches as an epoch, whatever the number of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, SourceStage
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
    """

    name: ClassVar[str] = "steps"

    drawn_from: ItemSampler
    num_steps: int

    @property
    def seed(self) -> int:  # type: ignore[override]
        """The seed of the items."""
        seed: int = self.drawn_from.seed
        return seed

    @property
    def largest_id(self) -> int | None:
        return self.drawn_from.largest_id

    def source(self, settings: RunSettings) -> BatchSource:
        return _Steps(self, self.drawn_from.source(settings))


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
        assert self._source.num_batches is not None  # items without a budget
        number = self._epoch * self.num_batches + self._next
        self._next += 1
        return self._source.batch_at(*divmod(number, self._source.num_batches))
