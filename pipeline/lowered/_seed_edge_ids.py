"""Which edges the items of a plan are, by id: of edges between the same nodes hops leave out these alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.ops.forks import cached_property
from headrace.ops.gpu import placed
from headrace.pipeline.data import GraphView, edge_types_of, type_number
from headrace.pipeline.data.graph_machinery import destinations_of


@dataclass(frozen=True, eq=False, repr=False)
class SeedEdgeIds:
    """The edges that pairs are, and those that lead back.

    Parameters
    ----------
    there: int64[num_pairs]
        Ids of the whole graph.
    back: int64[num_pairs] or None
        Ids of their reverses, -1 for none; None where these stay.
    """

    there: Tensor
    back: Tensor | None = None

    def __repr__(self) -> str:
        return f"{len(self.there)} edges{'' if self.back is None else ' and their reverses'}"

    def take(self, pairs: Tensor) -> SeedEdgeIds:
        """Return those of some pairs, where their numbers are."""
        if self.there.device == pairs.device:
            return SeedEdgeIds(self.there[pairs], None if self.back is None else self.back[pairs])
        there, back = self._on(pairs.device)
        assert there is not None  # of all pairs
        return SeedEdgeIds(gather_rows(there, pairs), None if back is None else gather_rows(back, pairs))

    def of(self, is_back: bool) -> Tensor:
        """Return the edges of pairs, or those that lead back, int64[num_pairs], -1 for none."""
        if not is_back:
            return self.there
        return torch.full_like(self.there, -1) if self.back is None else self.back

    def _on(self, device: torch.device) -> list[Tensor | None]:
        """Return both where a GPU reads them, placed once."""
        known = self._placed.get(device)
        return self._placed.setdefault(device, placed((self.there, self.back), device)) if known is None else known

    @cached_property
    def _placed(self) -> dict[torch.device, list[Tensor | None]]:
        return {}


def seed_edge_ids(graph: GraphView, ids: Tensor, pairs: Tensor, reverse: Any) -> SeedEdgeIds:
    """Return them for all items of a plan.

    Parameters
    ----------
    graph
        Its edges are meant; of a shard those are looked at that it holds.
    ids: int64[num_items]
        Which of its edges each item is.
    pairs: int64[num_items, 2]
        The items.
    reverse
        False; the id of each edge's reverse, int64[num_edges]; or ``{edge_type: reverse_type}``, of which edges with
        the same number lead back.

    Raises
    ------
    InputError
        For ids that are not there, those of edges between other nodes, and reverses that do not lead back.
    """

    def refuse_item(item: int, src: int, dst: int) -> str:
        return (
            f"exclude_seed_edges: expected item {item}, the pair {tuple(pairs[item].tolist())}, to be an edge by its "
            f"id in edge_ids, got edge {int(ids[item])}, which goes from {src} to {dst}; give the ids of the items in "
            "the order of your edges"
        )

    _check_ids(graph, ids, "edge_ids")
    _check_ends(graph, ids, pairs, refuse_item)
    if reverse is False:
        return SeedEdgeIds(ids)
    back = _by_type(graph, ids, reverse) if isinstance(reverse, Mapping) else _by_id(graph, ids, reverse)

    def refuse_reverse(item: int, src: int, dst: int) -> str:
        return (
            f"exclude_seed_edges: expected reverse to lead back for each edge, got for edge {int(ids[item])}, from "
            f"{int(pairs[item, 0])} to {int(pairs[item, 1])}, edge {int(back[item])}, which goes from {src} to {dst}; "
            'give the ids of reverses, int64[num_edges], or leave out edges by="ends"'
        )

    _check_ends(graph, back, pairs.flip(1), refuse_reverse)
    return SeedEdgeIds(ids, back)


def _by_id(graph: GraphView, ids: Tensor, reverse: Tensor) -> Tensor:
    if reverse.shape != (graph.num_edges,):
        raise InputError(
            f"exclude_seed_edges: expected reverse to have an id for each of {graph.num_edges} edges, got "
            f"{list(reverse.shape)}; give -1 to an edge that has none"
        )
    back = reverse[ids].to(torch.int64)
    _check_ids(graph, back, "reverse")
    return back


def _by_type(graph: GraphView, ids: Tensor, reverse: Mapping[Any, Any]) -> Tensor:
    """Return the edges with the same numbers within the types that lead back."""
    types = edge_types_of(graph)
    numbers, back = types.numbers_of(ids), torch.full_like(ids, -1)
    for there, other in reverse.items():
        own, leading = type_number(types, there), type_number(types, other)
        first, end = types.offsets[leading], types.offsets[leading + 1]
        moved = torch.where(numbers == own, ids - types.offsets[own] + first, back)
        if bool((moved >= torch.where(numbers == own, end, moved + 1)).any()):
            raise InputError(
                f"exclude_seed_edges: expected as many edges of {types.names[leading]} as of {types.names[own]}, whose "
                f"edges of one number are reverses, got {int(end - first)}; give the ids of reverses, "
                'int64[num_edges], or leave out edges by="ends"'
            )
        back = moved
    unnamed = (back < 0).nonzero()
    if len(unnamed):
        name = types.names[int(numbers[unnamed[0, 0]])]
        raise InputError(
            f"exclude_seed_edges: expected the edge types of all items among the keys of reverse, {list(reverse)}, got "
            f"edges of {name}; name which type leads back"
        )
    return back


def _check_ids(graph: GraphView, ids: Tensor, what: str) -> None:
    if ids.numel() and int(ids.max()) >= graph.num_edges:
        first = int((ids >= graph.num_edges).nonzero()[0, 0])
        raise InputError(
            f"exclude_seed_edges: expected {what} to be ids of {graph.num_edges} edges, got {int(ids[first])} for item "
            f"{first}; count edges from 0, in the order in which the graph was given them"
        )


def _check_ends(graph: GraphView, ids: Tensor, pairs: Tensor, refusal: Callable[[int, int, int], str]) -> None:
    """Refuse the first edge that does not join its pair, as far as it is at hand; ids below 0 are none."""
    if bool(((pairs < 0) | (pairs >= graph.num_nodes)).any()):
        return  # samplers refuse what is no node
    own = graph.to_graph_ids(pairs.flatten()).view_as(pairs)
    named = ids >= 0
    wanted = torch.zeros(graph.num_edges, dtype=torch.bool, device="cpu")
    wanted[ids[named]] = True
    # Edges are looked at in the order of rows, which takes a fraction of the time of that of their ids.
    positions = wanted if graph.edge_permutation is None else wanted.index_select(0, graph.edge_permutation)
    positions = positions.nonzero().squeeze(1)
    numbers = wanted.cumsum(0, dtype=torch.int32 if graph.num_edges < 1 << 31 else torch.int64)
    there = numbers[graph.original_edge_ids(positions)].long() - 1
    ends = torch.full((2, int(numbers[-1]) if len(numbers) else 0), -1, device="cpu")
    ends[0, there] = gather_rows(graph.indices, positions).to(torch.int64)
    ends[1, there] = destinations_of(graph, positions)
    items = named.nonzero().squeeze(1)
    found = ends[:, numbers[ids[items]].long() - 1]
    others = (found[0] >= 0) & (found.t() != own[items]).any(1)
    if bool(others.any()):
        first = int(others.nonzero()[0, 0])
        raise InputError(refusal(int(items[first]), *map(int, graph.to_original_ids(found[:, first].contiguous()))))
