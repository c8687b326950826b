"""Leaving the edges between seeds out of their neighbourhoods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.data.arrays import as_ids, is_one_of
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
        With ``by="edge_id"`` ids, int64[num_edges], of each edge that of its reverse, -1 for none; by types the
        reverse of an edge is the one of its number within the other type. True would not say which of several it is.
    per
        ``"batch"`` (default): a batch's edges are left out for all its seeds, as they share their neighbourhood.
        ``"seed"``: those of a pair are left out in its own tree alone, so that it finds those of the other pairs of the
        batch, as it will where it is predicted by itself. Negatives are asked of the same graph as their pair: trees
        of their own leave out the pair's edges, too, or a model would tell them by an edge that no positive pair
        finds. For samplers with ``disjoint=True`` or ``time=``, and `sample_shadow`; subgraphs over a graph in shards
        take it with ``cooperative=True`` alone.
    by
        ``"ends"`` (default): all edges between the ends of a pair, such as earlier purchases of the same thing.
        ``"edge_id"``: the edge alone that the item is, ``ItemSampler(pairs, edge_ids=ids)``; others between the same
        nodes stay. With `time` take ``strictly_before=True`` in place of it, which leaves out all that is of the
        pair's own time, or both where repeats of that time are to stay.

    Raises
    ------
    InputError
        For another `reverse`, `per` or `by`; when a loader is made for types that the graph does not have, seeds of a
        type that is no key, items that are no edges by their ids, and reverses that do not lead back.
    PlanError
        If no sampler follows that can leave out edges, the seeds are no pairs, or `make_bidirectional` follows, which
        would turn an edge back around, and `reverse` is False; with ``per="seed"`` for a sampler without trees;
        with ``by="edge_id"`` for items without `edge_ids`.

    Examples
    --------
    >>> import headrace as hr, torch
    >>> bought = torch.tensor([[0, 0, 1], [2, 2, 2]])  # twice by 0
    >>> graph = hr.Graph.from_coo(*bought, num_nodes=3)
    >>> items = hr.ItemSampler(bought.t()[:2], edge_ids=[0, 1], batch_size=1)
    >>> plan = items.exclude_seed_edges(by="edge_id").sample_neighbor(graph, [-1])
    >>> [sorted(batch.e_id.tolist()) for batch in plan.loader()]
    [[1, 2], [0, 2]]
    """

    reverse: Any = field(default=False, kw_only=True)  # a bool, a mapping of edge types, or ids; a tensor of these then
    per: Literal["batch", "seed"] = field(default="batch", kw_only=True)
    by: Literal["ends", "edge_id"] = field(default="ends", kw_only=True)

    def __post_init__(self) -> None:
        if not is_one_of(self.per, ("batch", "seed")):
            raise InputError(f'exclude_seed_edges: expected per to be "batch" or "seed", got {self.per!r}')
        if not is_one_of(self.by, ("ends", "edge_id")):
            raise InputError(f'exclude_seed_edges: expected by to be "ends" or "edge_id", got {self.by!r}')
        if self.by == "edge_id":
            self._check_ids()
        elif not isinstance(self.reverse, bool | Mapping) or self.reverse == {}:
            advice = '; ids of reverses go with by="edge_id"' if isinstance(self.reverse, Tensor) else ""
            raise InputError(
                "exclude_seed_edges: expected reverse to be True, False or {edge_type: reverse_type}, got "
                f"{self.reverse!r}{advice}"
            )

    def _check_ids(self) -> None:
        if self.reverse is True:
            raise InputError(
                'exclude_seed_edges: expected reverse with by="edge_id" to name the edge that leads back, got True; '
                "pass ids, int64[num_edges], of each edge that of its reverse (-1 for none), or "
                "{edge_type: reverse_type}"
            )
        if self.reverse is False or (isinstance(self.reverse, Mapping) and self.reverse):
            return
        if self.reverse is None or isinstance(self.reverse, Mapping | str | int | float):
            raise InputError(
                'exclude_seed_edges: expected reverse with by="edge_id" to be False, {edge_type: reverse_type}, or '
                f"ids, int64[num_edges]; got {self.reverse!r}"
            )
        object.__setattr__(self, "reverse", as_ids(self.reverse, "exclude_seed_edges: reverse", InputError))

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"seeds"})

    @property
    def excludes(self) -> str | None:
        return self.by

    @property
    def edges(self) -> SeedEdges:
        """Return which edges are meant."""
        return seed_edges(self.reverse, by_tree=self.per == "seed")

    def decisive(self) -> dict[str, Any]:
        decisive = super().decisive()
        if self.by == "ends":  # checkpoints of before there was another stay valid
            del decisive["by"]
        return decisive

    def check(self, before: tuple[Stage, ...]) -> None:
        check_pairs_come(self.name, before)
        if any(isinstance(stage, ExcludeSeedEdges) for stage in before):
            raise PlanError("exclude_seed_edges: a stage before it excludes edges already; chain it once")
