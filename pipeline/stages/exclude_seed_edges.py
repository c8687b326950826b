"""Leaving the edges between seeds out of their neighbourhoods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor

from headrace.pipeline.data import argument, as_ids, is_one_of
from headrace.pipeline.lowered._excluded import SeedEdges, seed_edges
from headrace.pipeline.plan import InputError, PlanError, Stage, verb
from headrace.pipeline.plan.checks import check_pairs_come


@verb("exclude_seed_edges")
@dataclass(frozen=True, eq=False, repr=False)
class ExcludeSeedEdges(Stage):
    """Leave the edges that the model should predict out of the sampler that follows.

    A model that predicts edge u -> v must not find that edge in the neighbourhood of v, nor its reverse in that of u.
    All hops sample the graph without the edges between the positive pairs of the batch, including parallel edges; edges
    between negative pairs stay. Fanouts, probabilities and weights are those of the graph without the excluded edges.
    Pairs need not have an edge. The stage precedes `sample_neighbor`, `sample_layer_neighbor`, `sample_ladies`,
    `sample_in_subgraph`, `sample_shadow` or `induce_subgraph`. Ranks that share a batch leave out the edges of all its
    pairs.

    Parameters
    ----------
    reverse
        False (default): leave out the edges u -> v. True: leave out the edges v -> u, too, for graphs with every edge
        in both directions. In a graph with types, both apply to the edges of all types. A dictionary ``{edge_type:
        reverse_type}`` leaves out the edges u -> v of its keys, which must include the seeds' own type, and the edges v
        -> u of its values. Edges of other types between the pairs stay: a view that a purchase follows tells the model
        of the purchase. Take True, unless such edges are known when the model predicts. With ``by="edge_id"`` pass
        int64[num_edges]: for each edge the id of its reverse, -1 for none. With ``by="edge_id"`` and a dictionary, the
        reverse of an edge has the same number within the other type. With ``by="edge_id"`` True is refused, because it
        does not identify one of several edges v -> u.
    per
        ``"batch"`` (default): the edges of all pairs of the batch are left out for all its seeds, which share their
        neighbourhood. ``"seed"``: the edges of a pair are left out only in its own tree. It then finds the edges of the
        other pairs of the batch, as in a prediction for that pair alone. The trees of negatives leave out the edges of
        their positive pair, too: otherwise a model could tell negatives by an edge that positive pairs never find.
        "seed" needs a sampler with ``disjoint=True`` or ``time=``, or `sample_shadow`. Subgraphs over a graph in shards
        take it only with ``cooperative=True``.
    by
        ``"ends"`` (default): leave out all edges between the ends of a pair, such as earlier purchases of the same
        thing. ``"edge_id"``: leave out only the edge that the item is, ``ItemSampler(pairs, edge_ids=ids)``; other
        edges between the same nodes stay. With `time`, ``strictly_before=True`` of the sampler is the alternative: it
        leaves out all edges of the pair's own time. To keep repeats of that time, use ``"edge_id"``.

    Raises
    ------
    InputError
        For an invalid `reverse`, `per` or `by`. When the loader is made: for types that the graph does not have, seeds
        of a type that is not a key, items that are not the edges of their ids, and reverses that do not lead back.
    PlanError
        If no sampler follows that can leave out edges; if the seeds are not pairs; if `reverse` is False and
        `make_bidirectional` follows, which would add an excluded edge again; with ``per="seed"`` for a sampler without
        trees; with ``by="edge_id"`` for items without `edge_ids`.

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

    reads: ClassVar[frozenset[str]] = frozenset({"seeds"})

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
        object.__setattr__(self, "reverse", as_ids(self.reverse, "exclude_seed_edges: reverse"))
        self.keep_seen(argument("exclude_seed_edges", "reverse", self.reverse))

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
