"""Sources of users' classes: the loader draws their batches through a check of what they return."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.data.arrays import as_number, describe, whole_number
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.checks import check_depth
from headrace.pipeline.data.own_methods import check_methods
from headrace.pipeline.data.own_state import own_state
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
    world_size
        The number of ranks, which make as many batches as each other.

    Raises
    ------
    PlanError
        If it lacks a member, or does not declare that it shares its batches among several ranks.
    """

    def __init__(self, stage: SourceStage, given: Any, world_size: int = 1) -> None:
        self._name = type(given).__name__
        missing = [one for one in ("num_batches", "seek", "draw", "state", "count") if not hasattr(given, one)]
        if missing:
            raise PlanError(
                f"expected {type(stage).__name__}.source to return an hr.ext.BatchSource, got {self._name} without "
                f"{', '.join(missing)}; see help(hr.ext.BatchSource)"
            )
        check_methods(given, BatchSource, self._name, PlanError)
        if world_size > 1 and not stage.shares_by_rank:
            kind = type(stage).__name__
            raise PlanError(
                f"{stage.name}: expected a source that shares its batches among {world_size} ranks, got {kind}, which "
                "does not declare it, so that ranks may have the same seeds; draw those of settings.rank, count all in "
                f"num_global_seeds=, and write shares_by_rank = True in {kind} (docs/extending.md), or make a "
                "loader of one rank, loader(rank=0, world_size=1)"
            )
        self._given: BatchSource = given
        self.num_batches = self._count("num_batches", given.num_batches)
        self.batch_size = self._count("batch_size", getattr(given, "batch_size", None), least=1)
        self._largest_id = stage.largest_id
        self._world_size = world_size
        self._epoch = self._drawn = 0
        self._last: tuple[int, int] | None = None  # epoch and index of the last batch,
        self._first: tuple[int, int] | None = None  # and of the first one of the epoch
        self._first_before: tuple[int, int] | None = None  # and of the epoch before

    @property
    def smallest_share(self) -> int | None:
        """The number of seeds in the smallest share of this rank; None if unknown beforehand."""
        return self._count("smallest_share", self._given.smallest_share)

    def count(self, epoch: int) -> int | None:
        """Return the number of batches of one epoch; None if unknown."""
        return self._count("count", self._given.count(epoch))

    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        """Go to the first batch of an epoch, or to the position in a state."""
        self._first_before = self._first if epoch > self._epoch else None
        self._first = self._last = None
        self._epoch, self._drawn = epoch, 0 if state is None else state["batch"]
        self._given.seek(epoch, copy.deepcopy(state))

    def draw(self) -> MiniBatch:
        """Return the next batch of the epoch, at most as many as the source says, by which checkpoints go."""
        num_batches = self.count(self._epoch)
        try:
            batch = self._given.draw()
        except StopIteration:
            if self._world_size > 1 and num_batches is not None and self._drawn < num_batches:
                raise self._another_number(num_batches, f"{self._drawn}; draw the others, or set") from None
            raise
        if num_batches is not None and self._drawn >= num_batches:
            raise self._another_number(num_batches, "one more; raise StopIteration behind the last, or set")
        batch = self._checked("draw", batch)
        self._check_key(batch)
        self._drawn += 1
        return batch

    def _check_key(self, batch: MiniBatch) -> None:
        """Refuse the epoch and index of another batch, by which samplers would draw the same once more."""
        key = batch.epoch, batch.index
        if key == self._last or (self._last is None and key == self._first_before):
            raise PlanError(
                f"expected {self._name}.draw to return batch {self._drawn} of epoch {self._epoch}, got another one "
                f"with index={batch.index!r} and epoch={batch.epoch!r}, which key what samplers draw; count batches of "
                "an epoch from 0"
            )
        if self._last is None:
            self._first = key
        self._last = key

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return a batch, from any position."""
        batch = self._checked("batch_at", self._given.batch_at(epoch, index))
        if (batch.epoch, batch.index) != (epoch, index):
            raise PlanError(
                f"expected {self._name}.batch_at to return batch {index} of epoch {epoch}, got one with "
                f"index={batch.index!r} and epoch={batch.epoch!r}"
            )
        return batch

    def state(self) -> dict[str, Any]:
        """Return what `seek` needs, beside the number of batches; the source may go on in what it returned."""
        state = self._given.state()
        count = state.get("batch", self._drawn) if isinstance(state, Mapping) else None
        if count != self._drawn:
            got = f"one with 'batch': {count!r}" if isinstance(state, Mapping) else type(state).__name__
            raise PlanError(
                f"expected {self._name}.state to return a dictionary of what seek needs beside the number of batches, "
                f"which the loader counts as 'batch': {self._drawn}, got {got}; return {{}} where that is nothing"
            )
        return own_state(state)

    def saved(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a state as checkpoints in JSON hold it."""
        what = f"{self._name}.state"
        check_depth(state, what, PlanError)
        return {name: _plain(value, what) for name, value in state.items()}

    def whole_seeds(self, epoch: int, index: int) -> Tensor:
        """Return the seeds of a batch over all ranks."""
        return self._seeds("whole_seeds", self._given.whole_seeds(epoch, index)).clone()

    def whole_items(self, epoch: int, index: int) -> Tensor:
        """Return the items of `whole_seeds`."""
        items = self._given.whole_items(epoch, index)
        if not isinstance(items, Tensor) or items.dtype != torch.int64 or items.ndim != 1:
            raise InputError(f"expected {self._name}.whole_items to return int64[num_seeds], got {describe(items)}")
        return items.clone()

    def watched(self) -> tuple[Watched, ...]:
        """Return the data that a training loop may write."""
        return self._given.watched()

    def check_whole_seeds(self) -> None:
        """Refuse a source that has no `whole_seeds`."""
        self._given.check_whole_seeds()

    def _checked(self, method: str, batch: object) -> MiniBatch:
        if not isinstance(batch, MiniBatch):
            raise PlanError(
                f"expected {self._name}.{method} to return a MiniBatch, got {type(batch).__name__}; return "
                "hr.MiniBatch.of_seeds(seeds, epoch=epoch, index=index)"
            )
        own: dict[str, Any] = {"seeds": self._seeds(f"{method}, the seeds of its batch,", batch.seeds)}
        # The source may write into its own tensors again.
        for name in ("seeds", "seed_index", "item_index", "n_id", "y", "seed_time", "seed_slot"):
            value = own.get(name, before := getattr(batch, name))
            if value is before and isinstance(value, Tensor):
                own[name] = value.clone()
        batch = batch.replace(**own)
        problem = _misfit(batch)
        if problem is not None:
            raise InputError(
                f"expected {self._name}.{method} to return a batch with {problem}; make it by "
                "hr.MiniBatch.of_seeds(seeds, epoch=epoch, index=index, ...)"
            )
        return batch

    def _seeds(self, what: str, seeds: object) -> Tensor:
        """Return seeds as int64, or refuse what are no ids."""
        if isinstance(seeds, Tensor) and seeds.dtype in _NARROW:
            seeds = seeds.to(torch.int64)
        if (
            not isinstance(seeds, Tensor)
            or seeds.dtype != torch.int64
            or seeds.ndim not in (1, 2)
            or not seeds.is_cpu
            or seeds.layout != torch.strided
        ):
            raise InputError(
                f"expected {self._name}.{what} to be int64[num_seeds], or int64[num_pairs, 2], in CPU memory, got "
                f"{describe(seeds)}; pass ids.to(torch.int64)"
            )
        if seeds.numel():
            least, most = (int(one) for one in seeds.aminmax())
            largest = most if self._largest_id is None else self._largest_id
            if least < 0 or most > largest:
                limit = "" if self._largest_id is None else f" and at most {largest}, its largest_id"
                raise InputError(
                    f"expected {self._name}.{what} to be ids of nodes, at least 0{limit}, got {least} to {most}; draw "
                    "nodes alone"
                )
        return seeds

    def _count(self, member: str, value: Any, least: int = 0) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return None if value is None else whole_number(value, f"{self._name}.{member}", least, PlanError)

    def _another_number(self, num_batches: int, got: str) -> PlanError:
        return PlanError(
            f"expected {self._name}.draw to return {num_batches} batches in epoch {self._epoch}, by num_batches or "
            f"count, got {got} num_batches = None where the number is unknown"
        )


#: Integers that ids may have beside int64.
_NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)


def _plain(value: Any, what: str) -> Any:
    """Return a copy of a value of a state, as checkpoints in JSON hold it."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Real):
        return as_number(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner, what) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, what) for inner in value]
    raise PlanError(
        f"expected {what} to return numbers, texts, lists and mappings, which checkpoints hold, got "
        f"{describe(value) if isinstance(value, Tensor) else type(value).__name__}; pass its .tolist(), or a list"
    )


def _misfit(batch: MiniBatch) -> str | None:
    """Return which field of a drawn batch does not fit its seeds; None if all do."""
    num_seeds = batch.seeds.shape[0]
    for name in ("item_index", "y", "seed_time", "seed_slot"):
        value = getattr(batch, name)
        if value is None or (name == "y" and not isinstance(value, Tensor)):
            continue
        if not isinstance(value, Tensor) or value.ndim == 0 or value.shape[0] != num_seeds:
            return f"{name} of a row for each of {num_seeds} seeds, got {describe(value)}"
    index, nodes = batch.seed_index, batch.n_id
    if index.shape != batch.seeds.shape or nodes.dtype != torch.int64 or nodes.ndim != 1:
        return f"seed_index of the shape of its seeds and n_id of int64, got {describe(index)} and {describe(nodes)}"
    if index.numel() and not (int(index.max()) < nodes.shape[0] and torch.equal(nodes[index], batch.seeds)):
        return "seeds that are n_id[seed_index], got others"
    return None
