"""Copying a batch to a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from headrace.ops.errors import PlanError
from headrace.ops.gpu import resolved
from headrace.pipeline.data import MiniBatch, Place
from headrace.pipeline.data.checks import named_device
from headrace.pipeline.plan.plan import verb
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import CONVERTED, MINIBATCH, PADDED, Counts, MapStage, Runner
from headrace.pipeline.plan.traits import RankTraits


@verb("copy_to")
@dataclass(frozen=True, eq=False, repr=False)
class CopyTo(MapStage):
    """Copy every tensor of the batch to a device.

    Parameters
    ----------
    device
        Anything ``torch.device`` takes, for example ``"cuda"`` or ``"cuda:1"``.

    Raises
    ------
    PlanError
        If torch does not know the name; when the loader is made, if the device cannot be used.
    """

    changes_batches: ClassVar[bool] = False
    ranks: ClassVar[RankTraits] = RankTraits(same_parameters=False)  # each has its device
    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH, PADDED, CONVERTED})
    gives: ClassVar[str | None] = None
    keeps_ids_sound: ClassVar[bool] = True

    device: str

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "device", str(named_device(self.device)))
        except (RuntimeError, TypeError, ValueError) as error:
            raise PlanError(
                f'copy_to: expected the name of a device of torch, got {self.device!r}; write "cuda", "cuda:1" or "cpu"'
            ) from error

    @property
    def moves_to(self) -> Place | None:
        return Place.parse(torch.device(self.device))

    def runner(self, settings: RunSettings) -> Runner:
        return self._copies(settings, non_blocking=False)

    def launcher(self, settings: RunSettings) -> Runner:
        return self._copies(settings, non_blocking=True)

    def _copies(self, settings: RunSettings, *, non_blocking: bool) -> Runner:
        del settings
        try:
            # With its index: a worker thread may have another current device.
            device = torch.empty(0, device=resolved(self.device)).device
        except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
            # For devices that it was not built for, torch appends kernels and stack frames to the first sentence.
            reason = str(error).partition("\n")[0].partition(". ")[0]
            raise PlanError(
                f"copy_to: expected a device that torch can use here, got {self.device!r} ({reason}); leave copy_to "
                'out, or name another device, such as "cpu"'
            ) from error

        def run(batch: Any) -> tuple[Any, Counts]:
            if isinstance(batch, MiniBatch):
                moved = batch.to(device, non_blocking=non_blocking)
                return moved, {"bytes": moved.num_bytes}
            from headrace.pipeline.interop.conversions import converted_bytes, converted_to

            copied = converted_to(batch, device)
            return copied, {"bytes": converted_bytes(copied)}

        return run
