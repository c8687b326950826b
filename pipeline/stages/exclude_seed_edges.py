"""Leaving the edges between seeds out of their neighbourhoods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.lowered.excluded import SeedEdges, seed_edges
from headrace.pipeline.plan.checks import check_pairs_come
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.verbs import verb


@verb("exclude_seed_edges")
@dataclass(frozen=True, eq=False, repr=False)
class ExcludeSeedEdges(Stage):
    """Let the sampler behind it pick no edge that the model is to predict.

    A model that predicts edge u -> v must not find that edge in the neighbourhood of v, nor its reverse in that of u.
    The edges between the pairs of a batch, parallel ones included and those of negatives left out, are not there for
    any hop: fanouts, probabilities and weights are those of the graph without them, so that nothing is lost of what
    is left. Pairs need not have an edge. It takes `sample_neighbor`, `sample_layer_neighbor`, `sample_ladies`,
    `sample_in_subgraph`, `sample_shadow` and `induce_subgraph`, and stands ahead of them. Ranks that share a batch
    leave out the edges of all of its pairs.

    Parameters
    ----------
    reverse
        False (default): the edges u -> v. True: the edges v -> u, too, which a graph has where every edge is there in
        both directions. Of a graph with types either means the edges of any type; a dictionary ``{edge_type:
        reverse_type}`` means those of its keys, among which the seeds' own type must be, and back those of its values.
    per
        ``"batch"`` (default): a batch's edges are left out for all its seeds, as they share their neighbourhood.
        ``"seed"``: those of a pair are left out in its own tree alone, so that it finds those of the other pairs of the
        batch, as it will where it is predicted by itself. Negatives are asked of the same graph as their pair: trees
        of their own leave out the pair's edges, too, or a model would tell them by an edge that no positive pair
        finds. For samplers with ``disjoint=True`` or ``time=``, and `sample_shadow`; subgraphs over a graph in shards
        take it with ``cooperative=True`` alone.

    Raises
    ------
    InputError
        For another `reverse` or `per`; when a loader is made for types that the graph does not have, and seeds of a
        type that is no key.
    PlanError
        If no sampler follows that can leave out edges, the seeds are no pairs, or `make_bidirectional` follows, which
        would turn an edge back around, and `reverse` is False; with ``per="seed"`` for a sampler without trees.
    """

    reverse: Any = field(default=False, kw_only=True)  # a bool, or a mapping of edge types
    per: Literal["batch", "seed"] = field(default="batch", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.reverse, bool | Mapping) or self.reverse == {}:
            raise InputError(
                f"exclude_seed_edges: reverse must be True, False or {{edge_type: reverse_type}}; {self.reverse!r} came"
            )
        if self.per not in ("batch", "seed"):
            raise InputError(f'exclude_seed_edges: per must be "batch" or "seed"; {self.per!r} came')

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"seeds"})

    @property
    def edges(self) -> SeedEdges:
        """Return which edges are meant."""
        return seed_edges(self.reverse, by_tree=self.per == "seed")

    def check(self, before: tuple[Stage, ...]) -> None:
        check_pairs_come(self.name, before)
        if any(isinstance(stage, ExcludeSeedEdges) for stage in before):
            raise PlanError("exclude_seed_edges: a stage before it excludes edges already; chain it once")
