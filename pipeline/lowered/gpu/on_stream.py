"""Work of a GPU on a side stream, beside the training loop's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeGuard, TypeVar

import torch

from headrace.ops.gpu import Event, record, resolved, side_stream, use_here
from headrace.pipeline.data import MiniBatch, Place
from headrace.pipeline.data.batch_parts import kept_tensors
from headrace.pipeline.interop.conversions import converted_tensors
from headrace.pipeline.plan.stage import CONVERTED, MINIBATCH, PADDED, Counts, MapStage, PlainStage, Stage, WindowStage
from headrace.pipeline.plan.traits import RankTraits

T = TypeVar("T")

#: The modules of our own stages.
_WINGS_OF_STAGES = ("headrace.pipeline.stages.", "headrace.pipeline.lowered.")


class OnItsWay(NamedTuple):
    """A batch, or what a conversion made of it, and the event behind which it is there."""

    batch: Any
    event: Event

    def arrived(self) -> Any:
        """Let the current stream wait for the batch, and return it."""
        self.event.wait()
        batch = self.batch
        use_here(kept_tensors(batch) if isinstance(batch, MiniBatch) else converted_tensors(batch))
        return self.batch


@dataclass(frozen=True, eq=False, repr=False)
class OnStream(PlainStage):
    """Launch the stages up to the next prefetch on a side stream of its threads, which continue before they are done.

    The pass ``stream_overlap`` adds it before a copy to a GPU, and `WaitStream` behind the prefetch. Copies are from
    pinned memory, and do not block. Without threads the stages run on the current stream.

    Parameters
    ----------
    place
        The GPU.
    """

    name: ClassVar[str] = "on_stream"
    lowered: ClassVar[bool] = True
    stream: ClassVar[str | None] = "launch"
    ranks: ClassVar[RankTraits] = RankTraits(same_parameters=False)  # each has its GPU
    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH, PADDED})
    gives: ClassVar[str | None] = None

    place: Place

    def run(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        return batch, {}

    def launcher_of(self) -> Callable[[MiniBatch, Callable[[MiniBatch], T]], tuple[T, Event]]:
        """Return the function that calls another one on the side stream, with a batch, and returns an event behind it.

        What the other one returns may still be in the making.
        """
        # With its index: a worker thread may have another current device.
        device = torch.empty(0, device=resolved(str(self.place))).device

        def launch(batch: MiniBatch, run: Callable[[MiniBatch], T]) -> tuple[T, Event]:
            # What is in memory of the host is there; what a GPU made before may still be in the making.
            in_the_making = not all(tensor.is_cpu for tensor in batch.tensors())
            batch = batch.pin_memory() if device.type == "cuda" and not in_the_making else batch
            with side_stream(device, behind_current=in_the_making):
                made = run(batch)
                return made, record(device)

        return launch


@dataclass(frozen=True, eq=False, repr=False)
class WaitStream(PlainStage):
    """Let the current stream wait for a batch on its way."""

    name: ClassVar[str] = "wait_stream"
    lowered: ClassVar[bool] = True
    stream: ClassVar[str | None] = "wait"
    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH, PADDED, CONVERTED})
    gives: ClassVar[str | None] = None

    def fits_behind(self, last: Stage) -> str | None:
        return None if last.threads else "no thread before it leaves work on a stream"

    def run(self, batch: Any) -> tuple[Any, Counts]:
        return batch.arrived() if isinstance(batch, OnItsWay) else batch, {}


def runs_on_stream(stage: Stage) -> TypeGuard[MapStage]:
    """Whether a stage behind a copy to a GPU may work there ahead of the training loop, on another stream.

    Functions of users may read what the training loop writes on its own stream.
    """
    is_own = type(stage).__module__.startswith(_WINGS_OF_STAGES) and not stage.calls_users
    return is_own and isinstance(stage, MapStage) and not isinstance(stage, WindowStage)
