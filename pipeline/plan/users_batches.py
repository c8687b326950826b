"""Sources of users' classes: the loader draws their batches through a check of what they return."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import ItemsError, PlanError
from headrace.pipeline.data.arrays import describe, whole_number
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.source import BatchSource, SourceStage

if TYPE_CHECKING:
    from headrace.pipeline.plan.traits import Watched


class UsersBatches(BatchSource):
    """Batches of a user's `BatchSource`, with tensors of their own.

    Parameters
    ----------
    stage
        The source in the plan.
    given
        What draws its batches.

    Raises
    ------
    PlanError
        If it lacks a member.
    """

    def __init__(self, stage: SourceStage, given: Any) -> None:
        self._name = type(given).__name__
        missing = [one for one in ("num_batches", "seek", "draw", "state", "count") if not hasattr(given, one)]
        if missing:
            raise PlanError(
                f"expected {type(stage).__name__}.source to return an hr.BatchSource, got {self._name} without "
                f"{', '.join(missing)}; see help(hr.BatchSource)"
            )
        self._given: BatchSource = given
        self.num_batches = self._count("num_batches", given.num_batches)
        self.batch_size = self._count("batch_size", getattr(given, "batch_size", None), least=1)
        self._largest_id = stage.largest_id
        self._epoch = self._drawn = 0

    @property
    def smallest_share(self) -> int | None:
        """The number of seeds in the smallest share of this rank; None if unknown beforehand."""
        return self._count("smallest_share", self._given.smallest_share)

    def count(self, epoch: int) -> int | None:
        """Return the number of batches of one epoch; None if unknown."""
        return self._count("count", self._given.count(epoch))

    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        """Go to the first batch of an epoch, or to the position in a state."""
        self._epoch, self._drawn = epoch, 0 if state is None else state["batch"]
        self._given.seek(epoch, copy.deepcopy(state))

    def draw(self) -> MiniBatch:
        """Return the next batch of the epoch, as many as the source says."""
        num_batches = self.count(self._epoch)
        try:
            batch = self._given.draw()
        except StopIteration:
            if num_batches is not None and self._drawn < num_batches:
                raise self._another_number(num_batches, f"{self._drawn}; draw the others, or set") from None
            raise
        if num_batches is not None and self._drawn >= num_batches:
            raise self._another_number(num_batches, "one more; raise StopIteration behind the last, or set")
        self._drawn += 1
        return self._checked("draw", batch, self._epoch, self._drawn - 1)

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return a batch, from any position."""
        return self._checked("batch_at", self._given.batch_at(epoch, index), epoch, index)

    def state(self) -> dict[str, Any]:
        """Return a copy of what `seek` needs, beside the number of batches."""
        state = self._given.state()
        if not isinstance(state, Mapping) or "batch" in state:
            got = "one with 'batch', which the loader counts" if isinstance(state, Mapping) else type(state).__name__
            raise PlanError(
                f"expected {self._name}.state to return a dictionary of what seek needs beside the number of batches, "
                f"got {got}; return {{}} where that is nothing"
            )
        return copy.deepcopy(dict(state))  # the source may change what it returned

    def whole_seeds(self, epoch: int, index: int) -> Tensor:
        """Return the seeds of a batch over all ranks."""
        return self._seeds("whole_seeds", self._given.whole_seeds(epoch, index)).clone()

    def whole_items(self, epoch: int, index: int) -> Tensor:
        """Return the items of `whole_seeds`."""
        items = self._given.whole_items(epoch, index)
        if not isinstance(items, Tensor) or items.dtype != torch.int64 or items.ndim != 1:
            raise ItemsError(f"expected {self._name}.whole_items to return int64[num_seeds], got {describe(items)}")
        return items.clone()

    def watched(self) -> tuple[Watched, ...]:
        """Return the data that a training loop may write."""
        return self._given.watched()

    def check_whole_seeds(self) -> None:
        """Refuse a source that has no `whole_seeds`."""
        self._given.check_whole_seeds()

    def _checked(self, method: str, batch: object, epoch: int, index: int) -> MiniBatch:
        if not isinstance(batch, MiniBatch):
            raise PlanError(
                f"expected {self._name}.{method} to return a MiniBatch, got {type(batch).__name__}; return "
                "hr.MiniBatch.of_seeds(seeds, epoch=epoch, index=index)"
            )
        if (batch.epoch, batch.index) != (epoch, index):
            raise PlanError(
                f"expected {self._name}.{method} to return batch {index} of epoch {epoch}, got one with "
                f"index={batch.index!r} and epoch={batch.epoch!r}, which key what samplers draw; count batches of an "
                "epoch from 0"
            )
        self._seeds(f"{method}, the seeds of its batch,", batch.seeds)
        problem = _misfit(batch)
        if problem is not None:
            raise ItemsError(
                f"expected {self._name}.{method} to return a batch with {problem}; make it by "
                "hr.MiniBatch.of_seeds(seeds, epoch=epoch, index=index, ...)"
            )
        return batch._map(torch.clone)  # noqa: SLF001 - the source may write its own again

    def _seeds(self, what: str, seeds: object) -> Tensor:
        """Refuse seeds that are no ids."""
        if (
            not isinstance(seeds, Tensor)
            or seeds.dtype != torch.int64
            or seeds.ndim not in (1, 2)
            or not seeds.is_cpu
            or seeds.layout != torch.strided
        ):
            raise ItemsError(
                f"expected {self._name}.{what} to be int64[num_seeds], or int64[num_pairs, 2], in CPU memory, got "
                f"{describe(seeds)}; pass ids.to(torch.int64)"
            )
        if seeds.numel():
            least, most = (int(one) for one in seeds.aminmax())
            largest = most if self._largest_id is None else self._largest_id
            if least < 0 or most > largest:
                limit = "" if self._largest_id is None else f" and at most {largest}, its largest_id"
                raise ItemsError(
                    f"expected {self._name}.{what} to be ids of nodes, at least 0{limit}, got {least} to {most}; draw "
                    "nodes alone"
                )
        return seeds

    def _count(self, member: str, value: Any, least: int = 0) -> int | None:
        return None if value is None else whole_number(value, f"{self._name}.{member}", least, PlanError)

    def _another_number(self, num_batches: int, got: str) -> PlanError:
        return PlanError(
            f"expected {self._name}.draw to return {num_batches} batches in epoch {self._epoch}, by num_batches or "
            f"count, got {got} num_batches = None where the number is unknown"
        )


def _misfit(batch: MiniBatch) -> str | None:
    """Return which field of a drawn batch does not fit its seeds; None if all do."""
    num_seeds = len(batch.seeds)
    for name in ("item_index", "y", "seed_time", "seed_slot"):
        value = getattr(batch, name)
        if value is None or (name == "y" and isinstance(value, Mapping)):
            continue
        if not isinstance(value, Tensor) or value.ndim == 0 or len(value) != num_seeds:
            return f"{name} of a row for each of {num_seeds} seeds, got {describe(value)}"
    index, nodes = batch.seed_index, batch.n_id
    if index.shape != batch.seeds.shape or nodes.dtype != torch.int64 or nodes.ndim != 1:
        return f"seed_index of the shape of its seeds and n_id of int64, got {describe(index)} and {describe(nodes)}"
    if index.numel() and not (int(index.max()) < len(nodes) and torch.equal(nodes[index], batch.seeds)):
        return "seeds that are n_id[seed_index], got others"
    return None
