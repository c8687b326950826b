"""Hop-by-hop samplers with optional trees for seeds, which are bounded by times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.ops.errors import GraphError, InputError
from headrace.pipeline.data.times import check_window, times_of
from headrace.pipeline.lowered.plant_trees import PlantTrees
from headrace.pipeline.lowered.trees import Trees
from headrace.pipeline.plan.checks import check_flags
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.hop_sampler import HopSampler


@dataclass(frozen=True, eq=False, repr=False)
class TreeSampler(HopSampler):
    """Base of these samplers."""

    disjoint: bool = field(default=False, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    window: float | None = field(default=None, kw_only=True)
    strictly_before: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self, "disjoint", "strictly_before")
        if self.time is None:
            for name, default in (("window", None), ("strictly_before", False)):
                if getattr(self, name) is not default:
                    raise InputError(f"{self.name}: expected time= beside {name}={getattr(self, name)!r}, got none")
            return
        if not isinstance(self.time, str):
            raise InputError(
                f"{self.name}: expected time to be the name of times of edges or nodes, got "
                f'{type(self.time).__name__}; give them to the graph, edge_attrs={{"time": ...}}, those of seeds to '
                'ItemSampler(items, time=...), and pass time="time"'
            )
        try:
            times = times_of(self.graph, self.time)
        except GraphError as error:
            raise GraphError(f"{self.name}: {error}") from error
        if self.window is not None:
            window = check_window(self.name, self.window, times, strictly_before=self.strictly_before)
            object.__setattr__(self, "window", window)

    @property
    def in_trees(self) -> bool:
        """Whether each seed grows a tree of its own; by time it does."""
        return self.disjoint or self.time is not None

    def decisive(self) -> dict[str, Any]:
        # Checkpoints of before there were trees stay valid.
        defaults = {"disjoint": False, "time": None, "window": None, "strictly_before": False}
        decisive = super().decisive()
        return {name: value for name, value in decisive.items() if value != defaults.get(name, _NO_DEFAULT)}

    def parts(self) -> tuple[Stage, ...]:
        if not self.in_trees:
            return super().parts()
        graph = self.graph if self.time is None else self.graph.by_time(self.time)
        trees = Trees(self.time, self.window, self.strictly_before)
        return (PlantTrees(self.graph, time=self.time), *self.hops(graph, trees))


_NO_DEFAULT = object()
