"""Between the ids by which the caller knows nodes and those of a reordered graph: before and behind its hops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from headrace.pipeline.data import GraphView, MiniBatch
from headrace.pipeline.plan import Counts, PlainStage, Stage, check_graph


@dataclass(frozen=True, eq=False, repr=False)
class TranslateIds(PlainStage):
    """Base of the two translations; the nodes of the batch stay the same."""

    lowered: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"n_id"})
    writes: ClassVar[frozenset[str]] = frozenset({"n_id"})

    graph: GraphView

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph)


@dataclass(frozen=True, eq=False, repr=False)
class ToGraphIds(TranslateIds):
    """Let the batch name its nodes by the ids of the graph, for the hops that follow."""

    name: ClassVar[str] = "to_graph_ids"

    def run(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        return batch.replace(n_id=self.graph.to_graph_ids(batch.n_id)), {}


@dataclass(frozen=True, eq=False, repr=False)
class ToOriginalIds(TranslateIds):
    """Let the batch name its nodes again by the ids that the caller knows."""

    name: ClassVar[str] = "to_original_ids"

    def run(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        return batch.replace(n_id=self.graph.to_original_ids(batch.n_id)), {}


def in_graph_ids(graph: GraphView, stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Return stages that find nodes, between the two translations where the graph has ids of its own."""
    if graph.node_ids is None:
        return tuple(stages)
    return (ToGraphIds(graph), *stages, ToOriginalIds(graph))
