"""All edges among the nodes that were sampled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from headrace.ops import EdgePositions, PlanError, Subgraph, induced_subgraph
from headrace.ops.graphs.rows import starts_of
from headrace.ops.sampling.induced_trees import induced_in_trees
from headrace.pipeline.data import Block, GraphView, MiniBatch, trusted
from headrace.pipeline.lowered import Compact, Finder, SeedEdges, with_square_block
from headrace.pipeline.lowered._excluded import excluder, is_left_out
from headrace.pipeline.lowered.induce_hop import InduceHop
from headrace.pipeline.plan.checks import check_edge_ids, check_flags, check_graph
from headrace.pipeline.plan.plan import verb
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, Stage
from headrace.pipeline.plan.traits import RankTraits


@verb("induce_subgraph")
@dataclass(frozen=True, eq=False, repr=False)
class InduceSubgraph(MapStage):
    """Replace the sampled edges by all edges of the graph among the nodes of the batch.

    The batch then has *one* square block, which all layers of a model use: ``num_src == num_dst``. Nodes keep their
    order, seeds first. A model may have more layers than the sampler has hops. ``num_sampled_nodes`` has two counts,
    the seeds and all other nodes; ``num_sampled_edges`` has one count, all edges.

    Ranks that make batches together (``cooperative=True``) find the subgraph together. Each rank has the in-edges of
    the nodes that it owns: ``num_dst`` counts these nodes, ``num_src`` also the sources of other ranks. In a model
    `hr.cooperative` exchanges rows; or call ``batch.exchange(0, h)`` before each layer except the first, and
    ``batch.exchange(1, h)`` at the end.

    If each rank has its own share of the seeds, the sampler must grow trees (``disjoint=True``, `sample_shadow`):
    otherwise edges between nodes of two ranks would be missing.

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
        If several ranks each have a share of a batch and the sampler grows no trees, or if the sampler is temporal,
        because the subgraph would ignore times.
    """

    ranks: ClassVar[RankTraits] = RankTraits(cooperates=False)
    writes: ClassVar[frozenset[str]] = frozenset({"blocks", "num_sampled_nodes", "num_sampled_edges"})

    graph: GraphView
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)
        check_flags(self, "edge_ids")
        check_edge_ids(self.name, self.graph, self.edge_ids)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    def check(self, before: tuple[Stage, ...]) -> None:
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

    def found_by(self, finder: Finder, layer: int) -> tuple[Stage, ...]:
        """Return the stages that find the same after some hops, with ranks that do it together."""
        graph, edge_ids = self.graph, self.edge_ids
        hop = InduceHop(graph, layer=layer, finder=finder, edge_ids=edge_ids, exclude=self.left_out)
        return (hop, Compact(graph, edge_ids=edge_ids, keep="square"))

    def runner(self, settings: RunSettings) -> Runner:
        if settings.world_size > 1:
            raise PlanError(
                f"{self.name}: {settings.world_size} ranks would share each batch, but a subgraph cannot be cut into "
                "shares; let ranks make batches together, .loader(cooperative=True), grow trees, disjoint=True, or "
                "give each rank a loader of its own, with rank=0, world_size=1 and another seed"
            )
        return self.finder(settings)

    def finder(self, settings: RunSettings) -> Runner:
        """Return the function that finds the subgraph of this rank's nodes."""
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
            left_out = excluded(batch)
            if left_out is not None:
                subgraph = _without(subgraph, left_out, _trees(batch))
            edge_ids = graph.original_edge_ids(subgraph.positions) if self.edge_ids else None
            size = len(nodes)
            block = trusted(Block(subgraph.indptr, subgraph.indices, size, size, edge_ids, types=batch.types)).to(
                device
            )
            return with_square_block(batch, block), {"induced_edges": block.num_edges}

        return run


@dataclass(frozen=True, eq=False, repr=False)
class InduceWithout(InduceSubgraph):
    """Take all edges among the nodes of the batch except those that `exclude_seed_edges` excludes.

    Parameters
    ----------
    graph, edge_ids
        As for :class:`InduceSubgraph`.
    exclude
        Edges between seeds that are not there; None for no such edges.
    """

    name: ClassVar[str] = "induce_without"
    lowered: ClassVar[bool] = True

    exclude: SeedEdges | None = field(default=None, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | (frozenset() if self.exclude is None else frozenset({"seeds"}))

    @property
    def left_out(self) -> SeedEdges | None:
        return self.exclude


@dataclass(frozen=True, eq=False, repr=False)
class InduceInTrees(InduceWithout):
    """Take all edges among the nodes of each tree: the part of `induce_subgraph` for a rank's own trees.

    The pass ``sample_at_owners`` makes it where ranks share batches whose seeds grow trees. Parameters as for
    :class:`InduceWithout`.
    """

    name: ClassVar[str] = "induce_in_trees"

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | {"slot"}

    def runner(self, settings: RunSettings) -> Runner:
        return self.finder(settings)


def _trees(batch: MiniBatch) -> Tensor | None:
    """Return the trees of nodes among those of all ranks, int64[num_nodes]; None where there are none."""
    if batch.slot is None:
        return None
    return (batch.slot if batch.seed_slot is None else batch.seed_slot[batch.slot]).cpu()


def _without(subgraph: Subgraph, excluded: EdgePositions, trees: Tensor | None) -> Subgraph:
    """Return a subgraph without some edges of its graph, or of each tree without some."""
    of_edges = None if trees is None else trees.repeat_interleave(subgraph.indptr.diff())
    stays = ~is_left_out(excluded, subgraph.positions, of_edges)
    return Subgraph(starts_of(stays)[subgraph.indptr], subgraph.indices[stays], subgraph.positions[stays])
