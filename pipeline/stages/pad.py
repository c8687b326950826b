"""Padding: a few shapes for all batches of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from headrace.ops.errors import InputError, PlanError
from headrace.ops.sampling.rules import ByRelation
from headrace.pipeline.data import TypeName, TypeOffsets, as_list, edge_types_of, node_types_of, whole_number
from headrace.pipeline.data.padding import Sizes
from headrace.pipeline.lowered import Compact, SampleHop
from headrace.pipeline.lowered.pad_batch import PadBatch
from headrace.pipeline.plan.checks import LARGEST_COUNT
from headrace.pipeline.plan.plan import Plan, verb
from headrace.pipeline.plan.source import source_of
from headrace.pipeline.plan.stage import MINIBATCH, PADDED, Stage
from headrace.pipeline.plan.traits import RankTraits, graphs_of
from headrace.pipeline.stages.other_sources import NodeSource
from headrace.pipeline.stages.steps import Prefetch

#: Numbers, one for each hop; by type in a graph with types.
Chosen: TypeAlias = tuple[int, ...] | Mapping[TypeName, tuple[int, ...]]

#: Epochs that are sampled before the first batch.
MOST_EPOCHS = 1 << 16

#: Shapes by default where batches differ much in size.
SHAPES_OF_VARIED = 4

#: Each shape has 1.25 times the rows of the next smaller: 20 of them divide the rows by 70.
MOST_SHAPES = 20


@verb("pad")
@dataclass(frozen=True, eq=False, repr=False)
class Pad(Stage):
    """Pad seeds, nodes and edges of each hop to sizes that batches share, for ``torch.compile`` and CUDA graphs.

    Without `num_nodes` and `num_edges` the sizes are those of the largest batch. A pass over the first epoch finds them
    before the first batch, by sampling without features; a terminal or a notebook shows its progress. A ``transform``
    before `pad`, which may change sizes, runs in that pass too, on the features that it may read. The last batch, and
    all others with fewer seeds, have a second, smaller shape: a compiled model compiles at most twice. The pass is
    exact for `epochs` epochs, because a batch depends on the seed, the epoch and its index alone. A short batch of a
    later epoch that is larger than its shape has the other one; if a full batch is, its hops have 1.25 times the sizes,
    or a power of that, which compiles once more. ``loader.stats()`` counts such batches as ``larger_batches``.

    The batch behind it has the fields of a `MiniBatch`. Padding holds:

    ====================================================  ====================================================
    ``seeds``, ``item_index``                             -1
    ``n_id``, ``e_id``                                    -1, less the number of the type
    ``seed_index``                                        a row of the output of a model that is padding
    ``y``                                                 -100, which ``cross_entropy`` ignores; nan in floats
    ``node``, ``edge``                                    0
    ``blocks``                                            edges of weight 1 from padding to padding
    ====================================================  ====================================================

    Real seeds are the first; ``batch.seed_mask`` marks them. Nodes of each hop are followed by the padding of the hop,
    so that destinations are still the first sources: row i of the output still belongs to the i-th distinct seed.
    ``num_seeds``, ``num_sampled_nodes``, ``num_sampled_edges`` and ``num_global_seeds`` count real ones. In a graph
    with types, nodes and edges of each type have sizes of their own, so that ``block.relation(edge_type)`` has one
    shape.

    Outputs of seeds and gradients do not depend on the values of padding, in any bit, in layers of `hr.nn` and with a
    loss that ignores padded seeds; without padding, products over fewer rows may differ in the last bits. Other modules
    see padding as rows: use ``hr.nn.BatchNorm`` in place of torch's. For a loss that cannot ignore labels, take the
    first ``batch.num_seeds`` of ``out[batch.seed_index]`` and of ``batch.y``.

    Chain it behind the last fetch. Only ``transform``, ``prefetch``, ``copy_to`` and conversions may follow. Behind
    ``copy_to("cuda")`` the GPU pads, and the copy is smaller. Ranks that take shares of a batch all have the same
    shapes, for which each samples the shares of all.

    >>> import headrace as hr, torch
    >>> graph = hr.Graph.from_coo([1, 2, 3, 4], [0, 0, 1, 2], num_nodes=5)
    >>> loader = hr.ItemSampler(4, batch_size=2).sample_neighbor(graph, [2]).pad().loader()
    >>> for batch in loader:
    ...     print(batch.seeds.tolist(), batch.n_id.tolist(), batch.blocks)
    [0, 1, -1] [0, 1, -1, 2, 3, -1] (PaddedBlock(6 -> 3 nodes, 3 edges),)
    [2, 3, -1] [2, 3, -1, 4, -1, -1] (PaddedBlock(6 -> 3 nodes, 3 edges),)

    Parameters
    ----------
    num_nodes
        Sizes that you choose: distinct seeds, then the nodes that each hop finds first, as in ``num_sampled_nodes``,
        with one more of each than a batch has. Of a graph with types a dictionary with all node types, ``{"paper":
        [129, 600], "author": [1, 300]}``.
    num_edges
        The edges of each hop; of a graph with types a dictionary with all edge types. Chosen sizes hold for all
        batches; a larger batch has 1.25 times as many, as above.
    epochs
        The number of epochs, from the first, over which the sizes are exact.
    shapes
        The number of shapes, each with 1.25 times the rows of the next smaller; a batch has the smallest that it fits.
        Default: 4 if a hop takes all in-edges or seeds have trees, whose batches differ much in size, otherwise 1.

    Raises
    ------
    PlanError
        For `num_nodes` without `num_edges` or the reverse, and with `epochs`; when the loader is made, for chosen sizes
        that are not of the graph's types, for ranks that make batches together, and where the sizes of batches cannot
        be found beforehand: over a torchdata node, a graph in shards on several ranks, and ``items_per_rank=True``.
    InputError
        For sizes below 0; for labels of an unsigned dtype, which have no number that losses ignore.
    """

    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH})
    gives: ClassVar[str | None] = PADDED
    ranks: ClassVar[RankTraits] = RankTraits(cooperates=False, keeps_rows=True)
    reads: ClassVar[frozenset[str]] = frozenset({"seeds", "n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})
    writes: ClassVar[frozenset[str]] = frozenset({"n_id", "blocks"})

    num_nodes: Chosen | None = None
    num_edges: Chosen | None = None
    epochs: int = field(default=1, kw_only=True)
    shapes: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        epochs = whole_number(self.epochs, "pad: epochs", 1, PlanError, MOST_EPOCHS)
        object.__setattr__(self, "epochs", epochs)
        if self.shapes is not None:
            shapes = whole_number(self.shapes, "pad: shapes", 1, PlanError, MOST_SHAPES)
            object.__setattr__(self, "shapes", shapes)
        if (self.num_nodes is None) != (self.num_edges is None):
            raise PlanError("pad: expected both num_nodes and num_edges, or neither, got one of them")
        if self.num_nodes is None:
            return
        if epochs != 1:
            raise PlanError("pad: expected sizes or epochs, got both: chosen sizes hold for every epoch")
        lengths: list[set[int]] = []
        for name in ("num_nodes", "num_edges"):
            given = getattr(self, name)
            by_type = isinstance(given, Mapping)
            parts = {one: _counts(sizes, name) for one, sizes in (given.items() if by_type else ((None, given),))}
            lengths.append({len(sizes) for sizes in parts.values()})
            object.__setattr__(self, name, parts if by_type else parts[None])
        nodes, edges = lengths
        if isinstance(self.num_nodes, Mapping) != isinstance(self.num_edges, Mapping):
            raise PlanError("pad: expected both num_nodes and num_edges by type, or neither, got one of them")
        if len(nodes) != 1 or len(edges) != 1 or max(nodes) != max(edges) + 1 or not max(edges):
            raise PlanError(
                f"pad: expected num_nodes to have the seeds and then as many hops as num_edges, got "
                f"{' or '.join(map(str, sorted(nodes)))} and {' or '.join(map(str, sorted(edges)))}"
            )

    def given(self, types: tuple[TypeOffsets, TypeOffsets] | None) -> Sizes | None:
        """Return the chosen sizes, for a graph with types or one without.

        Raises
        ------
        PlanError
            If they are not of its types.
        """
        if self.num_nodes is None or self.num_edges is None:
            return None
        if isinstance(self.num_nodes, Mapping) and isinstance(self.num_edges, Mapping):
            nodes = _by_hop(self.num_nodes, None if types is None else types[0], "num_nodes", "node")
            edges = _by_hop(self.num_edges, None if types is None else types[1], "num_edges", "edge")
            return Sizes(1 + sum(max(count - 1, 0) for count in nodes[0]), nodes, edges)
        if types is not None:
            raise PlanError(
                "pad: expected sizes by type for a graph with types, got lists; give dictionaries, or leave them out, "
                "and a pass over epochs= epochs finds those of each type"
            )
        assert not isinstance(self.num_nodes, Mapping)
        assert not isinstance(self.num_edges, Mapping)
        return Sizes.plain(self.num_nodes[0], self.num_nodes, self.num_edges)

    def behind(self, before: tuple[Stage, ...], world_size: int) -> PadBatch:
        """Return the stage that pads behind others, which passes have expanded, on one of several ranks.

        Raises
        ------
        PlanError
            If the sizes of their batches cannot be found, or those that were chosen are of another number of hops.
        """
        written = tuple({id(stage.origin): stage.origin for stage in before}.values())
        made = next(stage for stage in reversed(before) if "blocks" in stage.writes)
        of_hops = isinstance(made, Compact)
        graphs = [graph for stage in before for graph in graphs_of(stage) if graph.is_typed]
        given = self.given((node_types_of(graphs[0]), edge_types_of(graphs[0])) if graphs else None)
        if given is None:
            _check_can_be_found(written, world_size)
        else:
            _check_hops(given, sum(stage.num_hops for stage in before) if of_hops else made.num_hops or 1)
        shapes = self.shapes or (SHAPES_OF_VARIED if any(map(_varies, before)) else 1)
        return PadBatch(_sampling(written), given, self.epochs, shapes, not of_hops)


def _counts(sizes: Any, name: str) -> tuple[int, ...]:
    listed = as_list(sizes, f"pad: {name}", "numbers, one for each hop")
    return tuple(whole_number(one, f"pad: a number of {name}", 0, InputError, LARGEST_COUNT) for one in listed)


def _by_hop(
    chosen: Mapping[TypeName, tuple[int, ...]], types: TypeOffsets | None, name: str, kind: str
) -> tuple[tuple[int, ...], ...]:
    """Return for each hop the sizes of all types, in the order of the graph."""
    if types is None or set(chosen) != set(types.names):
        known = "a graph without types" if types is None else f"the {kind} types {list(types.names)}"
        raise PlanError(f"pad: expected {name} of each of the types of the graph, got {list(chosen)} for {known}")
    return tuple(zip(*(chosen[one] for one in types.names), strict=True))


def _check_hops(given: Sizes, hops: int) -> None:
    """Refuse sizes of another number of hops."""
    if len(given.num_edges) != hops:
        raise PlanError(f"pad: expected num_edges of {hops} hops, got {list(given.num_edges)}")


def _sampling(stages: tuple[Stage, ...]) -> Plan:
    """Return the plan of the sizes of batches: without fetches that nothing of the user reads, and without threads."""
    kept: list[Stage] = []
    needed = False  # whether a stage behind needs whatever a batch has
    found = False  # whether a stage behind makes its sizes
    for stage in reversed(stages):
        needed = needed or stage.calls_users
        found = found or needed or bool(stage.writes & {"seeds", "n_id", "blocks"})
        if found and not isinstance(stage, Prefetch) and (needed or stage.wants is None):
            kept.append(stage)
    return Plan(reversed(kept))


def _varies(stage: Stage) -> bool:
    """Whether a hop takes all in-edges, or seeds have trees of their own."""
    if not isinstance(stage, SampleHop):
        return stage.plants_trees
    rule = stage.hop.rule
    return any(one.count == -1 for one in (rule.rules if isinstance(rule, ByRelation) else (rule,)))


def _check_can_be_found(stages: tuple[Stage, ...], world_size: int) -> None:
    """Refuse batches that no other run can make."""
    source = source_of(Plan(stages))
    remedy = "give the sizes, pad(num_nodes=[...], num_edges=[...])"
    if isinstance(source, NodeSource):
        raise PlanError(f"pad: expected a source that draws an epoch again, got {source.name}; {remedy}")
    if world_size == 1:
        return
    if source.own_data():
        raise PlanError(f"pad: expected the same items on all ranks, got items of each rank's own; {remedy}")
    if any(one.part is not None for stage in stages for one in stage.divided()):
        raise PlanError(f"pad: expected a whole graph on each rank, got one in shards; {remedy}")
