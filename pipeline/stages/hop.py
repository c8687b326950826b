"""One hop of neighbour sampling, not yet compacted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from headrace.ops.errors import InputError
from headrace.ops.rng import NEIGHBOR, stream_key
from headrace.ops.rules import Rule
from headrace.ops.sample import sample_hop
from headrace.pipeline.batch import MiniBatch
from headrace.pipeline.graph import Graph
from headrace.pipeline.stage import MapStage, Runner, RunSettings, Stage, verb

Expand = Literal["all", "new"]


@verb("sample_hop")
@dataclass(frozen=True, eq=False, repr=False)
class SampleHop(MapStage):
    """Sample in-neighbours of the frontier and leave them, with global ids, for :class:`Compact` to number.

    Parameters
    ----------
    graph
        The graph to sample from.
    rule
        How to choose among the in-neighbours of one vertex.
    layer
        Which hop this is, 0 next to the seeds.
    key_layer
        The layer that keys the randomness; equal for all hops when they depend on each other (LABOR).
    expand
        ``"all"``: the frontier is every vertex seen so far. ``"new"``: only those that the previous hop reached first.
    weight
        Edge attribute to sample by; None for uniform sampling.
    edge_ids
        Whether blocks carry the original ids of the sampled edges.
    """

    on_host: ClassVar[bool] = True

    graph: Graph
    rule: Rule
    layer: int = field(kw_only=True)
    key_layer: int = field(kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_graph_and_rule("sample_hop", self.graph, self.expand)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hop"})

    def check(self, upstream: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, upstream)

    def runner(self, settings: RunSettings) -> Runner:
        weights = None if self.weight is None else self.graph.edge_weights(self.weight)

        def run(batch: MiniBatch) -> MiniBatch:
            frontier = (
                batch.n_id if self.expand == "all" else batch.n_id[len(batch.n_id) - batch.num_sampled_nodes[-1] :]
            )
            hop = sample_hop(
                self.graph.indptr,
                self.graph.indices,
                frontier,
                self.rule,
                stream_key(settings.seed, batch.epoch, batch.index, self.key_layer, NEIGHBOR),
                weights=weights,
                num_threads=settings.num_threads,
            )
            return batch.replace(hop=hop)

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        del before
        assert after.hop is not None
        return {"edges": len(after.hop.neighbors)}


def check_graph_and_rule(verb: str, graph: Graph, expand: str) -> None:
    """Refuse a subject that is not a graph and a hop rule that does not exist.

    Raises
    ------
    InputError
        Naming the stage.
    """
    if not isinstance(graph, Graph):
        raise InputError(f"{verb}: the first argument must be an hr.Graph; {type(graph).__name__} came")
    if expand not in ("all", "new"):
        raise InputError(f"{verb}: expand must be 'all' or 'new'; {expand!r} came")


def check_items_fit(stage: Stage, graph: Graph, upstream: tuple[Stage, ...]) -> None:
    """Refuse items that are not vertices of the graph.

    Raises
    ------
    InputError
        Naming the stage, the largest item and the number of vertices.
    """
    from headrace.pipeline.stages.item_sampler import ItemSampler

    source = upstream[0]
    if isinstance(source, ItemSampler) and source.items.largest_id() >= graph.num_nodes:
        raise InputError(
            f"{stage.verb}: item {source.items.largest_id()} is not a vertex of the graph, which has "
            f"{graph.num_nodes} vertices (ids 0..{graph.num_nodes - 1}); do the items index another graph?"
        )
