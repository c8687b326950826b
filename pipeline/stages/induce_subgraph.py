"""All edges among the nodes that were sampled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.graphs.rows import starts_of
from headrace.ops.sampling.find_edges import EdgePositions
from headrace.ops.sampling.induced_trees import induced_in_trees
from headrace.ops.sampling.saint import Subgraph, induced_subgraph
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.lowered.excluded import SeedEdges, excluder
from headrace.pipeline.plan.checks import check_edge_ids, check_flags, check_graph, check_items_fit, divided_graph
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Divided, MapStage, Runner, Stage
from headrace.pipeline.plan.verbs import verb


@verb("induce_subgraph")
@dataclass(frozen=True, eq=False, repr=False)
class InduceSubgraph(MapStage):
    """Take, in place of the sampled edges, all edges of the graph among the nodes of the batch.

    The batch then has *one* square block, which all layers of a model use: ``num_src == num_dst``, nodes stay in their
    order, seeds first. A model may have more layers than the sampler has hops. ``num_sampled_nodes`` are the seeds and
    all others, ``num_sampled_edges`` all edges: hops are not told apart any more.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([1, 2, 0], [0, 1, 2], num_nodes=3)
    >>> plan = hr.ItemSampler([0]).sample_neighbor(graph, [1, 1], expand="new").induce_subgraph(graph)
    >>> next(iter(plan.loader())).blocks[0].edge_index.tolist()
    [[1, 2, 0], [0, 1, 2]]

    Parameters
    ----------
    graph
        The graph that was sampled.
    edge_ids
        Whether the block carries the original ids of its edges.

    Raises
    ------
    InputError
        For a subject that is not a graph, or items that are not in it.
    PlanError
        If several ranks would share a batch, or the sampler keeps to times, which the subgraph would not.
    """

    graph: GraphView
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)
        check_flags(self, "edge_ids")
        check_edge_ids(self.name, self.graph, self.edge_ids)

    @property
    def cooperates(self) -> bool:
        return False

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"blocks", "num_sampled_nodes", "num_sampled_edges"})

    def divided(self) -> tuple[Divided, ...]:
        return divided_graph(self.graph)

    def check(self, before: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, before)
        timed = [stage for stage in before if stage.num_hops and getattr(stage, "time", None) is not None]
        if timed:
            raise PlanError(
                f"{self.name}: expected a sampler without times, got {timed[0].origin.name} with time=; edges that are "
                "later than a seed would be in its subgraph"
            )

    @property
    def left_out(self) -> SeedEdges | None:
        """Which edges between seeds are not there."""
        return None

    def runner(self, settings: RunSettings) -> Runner:
        if settings.world_size > 1:
            raise PlanError(
                f"{self.name}: {settings.world_size} ranks would share each batch, but a subgraph cannot be cut into "
                "shares; give each rank a loader of its own, with rank=0, world_size=1 and another seed"
            )
        graph = self.graph
        excluded = excluder(self.left_out, graph, settings)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            device = batch.n_id.device  # behind hops that a GPU sampled; the edges are looked up in CPU memory
            nodes = graph.to_graph_ids(batch.n_id.cpu())
            threads = settings.num_threads
            if batch.slot is None:
                subgraph = induced_subgraph(graph.indptr, graph.indices, nodes, num_threads=threads)
            else:
                slots = batch.slot.cpu()
                subgraph = induced_in_trees(graph.indptr, graph.indices, nodes, slots, num_threads=threads)
            subgraph = _without(subgraph, excluded(batch), batch.slot)
            edge_ids = graph.original_edge_ids(subgraph.positions) if self.edge_ids else None
            block = Block(subgraph.indptr, subgraph.indices, len(nodes), len(nodes), edge_ids, types=batch.types).to(
                device
            )
            return with_square_block(batch, block), {"induced_edges": block.num_edges}

        return run


@dataclass(frozen=True, eq=False, repr=False)
class InduceWithout(InduceSubgraph):
    """Take all edges among the nodes of the batch but some between its seeds: what `exclude_seed_edges` asks for.

    Parameters
    ----------
    graph, edge_ids
        As for :class:`InduceSubgraph`.
    exclude
        Edges between seeds that are not there.
    """

    name: ClassVar[str] = "induce_without"
    lowered: ClassVar[bool] = True

    exclude: SeedEdges = field(kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | {"seeds"}

    @property
    def left_out(self) -> SeedEdges:
        return self.exclude


def _without(subgraph: Subgraph, excluded: EdgePositions | None, slots: Tensor | None) -> Subgraph:
    """Return a subgraph without some edges of its graph, or of each tree without some."""
    if excluded is None:
        return subgraph
    found, gone = subgraph.positions, excluded.positions
    if excluded.slots is not None:
        assert slots is not None  # hops in trees stand before it
        size = 1 + max(found.max().item() if len(found) else 0, gone.max().item() if len(gone) else 0)
        found = found + size * slots.cpu().repeat_interleave(subgraph.indptr.diff())
        gone = gone + size * excluded.slots.repeat_interleave(excluded.starts.diff())
    stays = ~torch.isin(found, gone)
    return Subgraph(starts_of(stays)[subgraph.indptr], subgraph.indices[stays], subgraph.positions[stays])


def with_square_block(batch: MiniBatch, block: Block) -> MiniBatch:
    """Return the batch with one block for all layers, in which hops are not told apart."""
    num_seeds = batch.num_sampled_nodes[0]
    return batch.replace(
        blocks=(block,),
        num_sampled_nodes=(num_seeds, len(batch.n_id) - num_seeds),
        num_sampled_edges=(block.num_edges,),
    )
