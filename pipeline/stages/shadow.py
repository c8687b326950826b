"""ShaDow: a small subgraph around each seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.pipeline.plan import MOST_HOPS, MacroStage, Stage, check_edge_ids, check_flags, make_positive, verb
from headrace.pipeline.plan.checks import counts_by_hop
from headrace.pipeline.stages.induce_subgraph import InduceSubgraph
from headrace.pipeline.stages.neighbor import SampleNeighbor
from headrace.pipeline.stages.sampler import Sampler


@verb("sample_shadow")
@dataclass(frozen=True, eq=False, repr=False)
class SampleShadow(MacroStage, Sampler):
    """Give each seed its own ego net: ShaDow's k-hop sampler (arXiv 2201.07858).

    Neighbours are sampled hop by hop from each seed, up to `fanout` for each node. The ego net has all edges of the
    graph among the nodes found. Ego nets share no nodes: a node in two of them has two entries. The batch is their
    union, *one* square block, for a model of any depth; ``batch.slot`` is the ego net of each entry of ``n_id``. The
    seeds are first, repeats included, so their output is ``out[: batch.num_seeds]``. Each rank finds the ego nets of
    its share of the seeds, or, with ``cooperative=True``, all ranks find all of them together.

    Parameters
    ----------
    graph
        The graph to sample from.
    depth
        Hops from the seed.
    fanout
        In-edges to draw for each node in each hop, in a graph with types for each edge type; -1 takes all.
    replace
        Whether to draw with replacement.
    edge_ids
        Whether the block carries the original ids of its edges.

    Raises
    ------
    InputError
        For a subject that is not a graph, a depth below 1, or a fanout below -1.
    PlanError
        If ranks share edges (`hr.EdgePartition`).
    """

    with_types: ClassVar[bool] = True

    depth: int
    fanout: int
    replace: bool = field(default=False, kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        make_positive(self, "depth", most=MOST_HOPS)
        check_flags(self, "replace", "edge_ids")
        check_edge_ids(self.name, self.graph, self.edge_ids)
        object.__setattr__(self, "fanout", counts_by_hop(self.name, "fanout", [self.fanout])[0])

    @property
    def num_hops(self) -> int:
        return self.depth

    def parts(self) -> tuple[Stage, ...]:
        sampler = SampleNeighbor(
            self.graph,
            (self.fanout,) * self.depth,
            replace=self.replace,
            expand="new",
            edge_ids=self.edge_ids,
            disjoint=True,
        )
        return (*sampler.parts(), InduceSubgraph(self.graph, edge_ids=self.edge_ids))
