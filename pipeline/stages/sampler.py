"""The base of all samplers: a graph, and a position in a plan."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.plan import Stage, check_graph
from headrace.pipeline.plan.checks import check_name


@dataclass(frozen=True, eq=False, repr=False)
class Sampler(Stage):
    """Base of the stages that begin at the seeds of a batch and give it nodes and blocks; a plan has one of them."""

    with_types: ClassVar[bool] = False
    """Whether a graph may have types."""

    keeps_ids_sound: ClassVar[bool] = True
    first_hop: ClassVar[int | None] = 0

    graph: GraphView

    def __post_init__(self) -> None:
        check_graph(check_name(self), self.graph, with_types=self.with_types)

    @property
    @abstractmethod
    def num_hops(self) -> int:
        """Hops that this stage samples."""

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})
