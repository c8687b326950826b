"""Work of a GPU on a side stream, beside the training loop's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeGuard, TypeVar

import torch

from headrace.ops.gpu import Event, record, resolved, side_stream, use_here
from headrace.pipeline.data import FeatureName, GraphView, MiniBatch, Place, Seen
from headrace.pipeline.interop.conversions import converted_tensors
from headrace.pipeline.plan.stage import (
    MINIBATCH,
    ON_ITS_WAY,
    Counts,
    MapStage,
    Runner,
    RunSettings,
    Stage,
    WindowStage,
)
from headrace.pipeline.plan.traits import Divided, KnownNodes, RankTraits, Watched, graphs_of
from headrace.pipeline.storage.rows import add_counts

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
        use_here(self.batch.tensors() if isinstance(self.batch, MiniBatch) else converted_tensors(self.batch))
        return self.batch


@dataclass(frozen=True, eq=False, repr=False)
class OnStream(MapStage):
    """Run stages on a side stream of the thread that runs this one, and continue before they are done.

    The pass ``stream_overlap`` makes it from a copy to a GPU, and the sampling and fetches behind it. Copies are from
    pinned memory, and do not block. Lowering gives each stage a record of its own.

    Parameters
    ----------
    stages
        The copy, and the stages behind it on the GPU.
    place
        The GPU.
    """

    name: ClassVar[str] = "on_stream"
    lowered: ClassVar[bool] = True
    gives: ClassVar[str | None] = ON_ITS_WAY

    stages: tuple[MapStage, ...]
    place: Place

    @property
    def reads(self) -> frozenset[str]:
        written: set[str] = set()
        read: set[str] = set()
        for stage in self.stages:
            read |= stage.reads - written
            written |= stage.writes
        return frozenset(read)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(name for stage in self.stages for name in stage.writes)

    @property
    def fetches(self) -> frozenset[tuple[str, FeatureName]]:
        return frozenset(feature for stage in self.stages for feature in stage.fetches)

    @property
    def first_hop(self) -> int | None:
        return next((stage.first_hop for stage in self.stages if stage.first_hop is not None), None)

    @property
    def num_hops(self) -> int:
        return sum(stage.num_hops for stage in self.stages)

    @property
    def ranks(self) -> RankTraits:
        traits = [stage.ranks for stage in self.stages]
        return RankTraits(
            collective=any(one.collective for one in traits),
            shares_layers=any(one.shares_layers for one in traits),
            same_parameters=False,  # each rank has its GPU
        )

    @property
    def graphs(self) -> tuple[GraphView, ...]:
        return tuple(graph for stage in self.stages for graph in graphs_of(stage))

    def divided(self) -> tuple[Divided, ...]:
        return tuple(one for stage in self.stages for one in stage.divided())

    def known_nodes(self) -> tuple[KnownNodes, ...]:
        return tuple(one for stage in self.stages for one in stage.known_nodes())

    def watched(self) -> tuple[Watched, ...]:
        return tuple(one for stage in self.stages for one in stage.watched())

    def tables_of(self) -> tuple[Seen, ...]:
        return tuple(one for stage in self.stages for one in stage.tables_of())

    @property
    def moves_to(self) -> Place | None:
        return self.place

    def runner(self, settings: RunSettings) -> Runner:
        runners = self.launchers(settings)
        launch = self.launcher_of()

        def run(batch: MiniBatch) -> tuple[OnItsWay, Counts]:
            totals: dict[str, int] = {}

            def launched(batch: Any) -> Any:
                for runner in runners:
                    batch, counts = runner(batch)
                    add_counts(totals, counts)
                return batch

            made, event = launch(batch, launched)
            return OnItsWay(made, event), totals

        return run

    def launchers(self, settings: RunSettings) -> list[Callable[[Any], tuple[Any, Counts]]]:
        """Return the launcher of each stage."""
        return [stage.launcher(settings) for stage in self.stages]

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
class WaitStream(MapStage):
    """Let the current stream wait for a batch on its way."""

    name: ClassVar[str] = "wait_stream"
    lowered: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset({ON_ITS_WAY})
    gives: ClassVar[str | None] = MINIBATCH

    def fits_behind(self, last: Stage) -> str | None:
        return None if last.gives == ON_ITS_WAY or last.threads else "no stage before it left work on a stream"

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(coming: OnItsWay) -> tuple[MiniBatch, Counts]:
            return coming.arrived(), {}

        return run


def runs_on_stream(stage: Stage) -> TypeGuard[MapStage]:
    """Whether a stage behind a copy to a GPU may work there ahead of the training loop, on another stream.

    Functions of users may read what the training loop writes on its own stream.
    """
    is_own = type(stage).__module__.startswith(_WINGS_OF_STAGES) and not stage.calls_users
    return is_own and isinstance(stage, MapStage) and not isinstance(stage, WindowStage)
