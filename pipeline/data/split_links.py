"""Edges for training, validation and test, with the graphs that a model may see for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.ops.errors import PlanWarning
from headrace.ops.names import Named
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.build_graph import ends_in_input_order
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.made_of_graph import with_edges
from headrace.pipeline.data.reverse_types import reverse_type
from headrace.pipeline.data.split_items import Items
from headrace.pipeline.data.split_shares import PARTS, cut_by_time, drawn, sizes_of
from headrace.pipeline.data.times import EARLIEST, ordered, times_of
from headrace.pipeline.data.types import TypeName, type_number

_STAGE = "split_links"
_LEAST_COMMON = 4


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """The parts of `split_links`, by "train", "val" and "test".

    Parameters
    ----------
    items
        The edges to predict, as `ItemSampler` takes them; with times if the split is by time.
    graphs
        The graph to sample for each part: without the edges of later parts.
    edges: int64[num_edges of the part's graph]
        The id in the whole graph of each edge of a part's graph: row i of its edge features is row ``edges[part][i]``.
    edge_ids: int64[num_items]
        The id of each item for training in ``graphs["train"]``, within its type: ``ItemSampler(edge_ids=...)``.
    """

    items: dict[str, Items]
    graphs: dict[str, Graph]
    edges: dict[str, Tensor]
    edge_ids: Tensor

    def __repr__(self) -> str:
        edges = ", ".join(f"{name!r}: {describe(ids)}" for name, ids in self.edges.items())
        parts = f"items={self.items}, graphs={self.graphs}, edges={{{edges}}}, edge_ids={describe(self.edge_ids)}"
        return f"LinkSplit({parts})"


def split_links(
    graph: Graph,
    *,
    edge_type: TypeName | None = None,
    val: float = 0.1,
    test: float = 0.1,
    time: str | None = None,
    reverse: TypeName | bool | None = None,
    seed: int = 0,
) -> LinkSplit:
    """Split the edges of a graph, or of one edge type, for link prediction.

    The graph for training has neither edges of validation and test nor their reverses, that for validation is the same,
    and that for test has the edges of validation, too. Batches for training still find their own edges:
    `exclude_seed_edges` leaves these out.

    At random, all edges between two nodes of one pair are in one part: repeats, and in a type between nodes of one type
    both directions. By time, the parts follow each other, edges of all types that have times are cut at the same times,
    and an edge has the latest of its own time and those of its ends. Edges without times stay, except reverses.

    Parameters
    ----------
    graph
        A whole graph.
    edge_type
        The type to split; by default that of a graph with one.
    val, test
        Fractions in [0, 1) of the edges, or numbers of edges; at random, of the pairs of nodes.
    time
        Name of the times to split by, as in samplers; without it the split is drawn.
    reverse
        The edge type with the reverses of `edge_type`. By default (destination, ``"rev_"`` + relation, source), if
        there is one; otherwise all types from destination to source that are such by their edges: at least half of the
        pairs of nodes of one of the two types are those of the other in reverse, and among nodes of one type hardly any
        are so in the same direction. A type whose pairs are there in both directions stays, with a warning. False:
        there is none.
    seed
        Of the draw. The split depends on the arguments alone, not on the machine.

    Raises
    ------
    InputError
        If val and test leave nothing for training, a part that was asked for gets no items, or `reverse` names a type
        between other nodes.
        If there is no such type or time, or several types and no `edge_type`.

    Warns
    -----
    PlanWarning
        If another type joins the same pairs, and its edges do not tell whether it has the reverses.

    Examples
    --------
    >>> import headrace as hr, torch
    >>> graph = hr.Graph.from_coo(torch.arange(20), torch.arange(20).roll(1)).undirected()
    >>> split = hr.split_links(graph, val=0.2, test=0.2)
    >>> [(len(split.items[part]), split.graphs[part].num_edges) for part in ("train", "val", "test")]
    [(24, 24), (8, 24), (8, 32)]
    """
    if not isinstance(graph, Graph):
        advice = "pass data.graph" if isinstance(getattr(graph, "graph", None), Graph) else "split before sharding"
        raise InputError(f"{_STAGE}: expected an hr.Graph, got {type(graph).__name__}; {advice}")
    own, name = _edges_of(graph, edge_type)
    src, dst = (one.long() for one in ends_in_input_order(graph))
    key = src * graph.num_nodes + dst
    mirrored = dst * graph.num_nodes + src
    of_one_type = not isinstance(name, tuple) or name[0] == name[2]
    pairs = torch.minimum(key, mirrored) if of_one_type else key
    part = torch.zeros(graph.num_edges, dtype=torch.int8, device="cpu")
    times = None
    is_cut_by_time = torch.zeros_like(part, dtype=torch.bool)
    if time is None:
        groups, group = torch.unique(pairs[own.start : own.stop], return_inverse=True)
        sizes = sizes_of(len(groups), val, test, _STAGE)
        part[own.start : own.stop] = drawn(len(groups), sizes, seed, _STAGE)[group]
    else:
        times, keys = _times_by_edge(graph, time, (src, dst))
        sizes = sizes_of(len(own), val, test, _STAGE)
        _, cuts = cut_by_time(times[own.start : own.stop], sizes, _STAGE)
        for number, cut in enumerate(cuts, 1):
            part[keys >= cut] = number
        is_cut_by_time = keys > EARLIEST
    for back in _reverses_of(graph, name, reverse, key, mirrored, is_cut_by_time):
        wanted = (torch.minimum(key, mirrored) if of_one_type else mirrored)[back.start : back.stop]
        latest = _latest_part(pairs[own.start : own.stop], part[own.start : own.stop], wanted)
        latest[is_cut_by_time[back.start : back.stop]] = 0
        part[back.start : back.stop] = torch.maximum(part[back.start : back.stop], latest)
    return _made(graph, own, name, part, (src, dst), times)


def _made(
    graph: Graph, own: range, name: TypeName | None, part: Tensor, ends: tuple[Tensor, Tensor], times: Tensor | None
) -> LinkSplit:
    """Return the items and graphs of parts of edges."""
    items: dict[str, Items] = {}
    graphs: dict[str, Graph] = {}
    edges: dict[str, Tensor] = {}
    for number, which in enumerate(PARTS):
        chosen = (part[own.start : own.stop] == number).nonzero().reshape(-1) + own.start
        if not len(chosen):
            continue
        items[which] = _items(graph, chosen, name, ends, times)
        before = max(0, number - 1)  # the last part that the model may see
        kept = part <= before
        same = next((one for one in graphs if int(kept.sum()) == graphs[one].num_edges), None)
        graphs[which] = with_edges(graph, kept) if same is None else graphs[same]
        edges[which] = kept.nonzero().reshape(-1) if same is None else edges[same]
    if "train" not in items:
        raise InputError(f"{_STAGE}: expected edges for training, got none; lower val and test")
    ids = torch.arange(len(items["train"]), device="cpu")  # all edges of the type that are left, in their order
    return LinkSplit(
        Named("LinkSplit.items", items), Named("LinkSplit.graphs", graphs), Named("LinkSplit.edges", edges), ids
    )


def _items(
    graph: Graph, chosen: Tensor, name: TypeName | None, ends: tuple[Tensor, Tensor], times: Tensor | None
) -> Items:
    """Return edges as pairs of nodes, of a graph with types by type."""
    src, dst = (graph.to_original_ids(end[chosen]) for end in ends)
    of_edges = None if times is None else times[chosen]
    if name is None:
        return Items(torch.stack((src, dst), 1), times=of_edges)
    if isinstance(name, tuple) and graph.node_types is not None:
        src = src - graph.node_types.id_range(name[0]).start
        dst = dst - graph.node_types.id_range(name[2]).start
    return Items({name: torch.stack((src, dst), 1)}, times=None if of_edges is None else {name: of_edges})


def _edges_of(graph: Graph, edge_type: TypeName | None) -> tuple[range, TypeName | None]:
    """Return the ids of the edges to split, and their type in full."""
    types = graph.edge_types
    if types is None:
        if edge_type is not None:
            raise InputError(f"{_STAGE}: expected no edge_type for a graph without them, got {edge_type!r}")
        return range(graph.num_edges), None
    if edge_type is None and types.num_types != 1:
        raise InputError(
            f"{_STAGE}: expected edge_type to name the edges to split, one of {list(types.names)}, got none"
        )
    name = types.names[0 if edge_type is None else type_number(types, edge_type)]
    return types.id_range(name), name


def _reverses_of(
    graph: Graph, name: TypeName | None, reverse: Any, key: Tensor, mirrored: Tensor, is_cut_by_time: Tensor
) -> list[range]:
    """Return the ids of the reverse edges by type; none where there are none, or they are of the type itself.

    `key` and `mirrored` identify the nodes of all edges, there and back.
    """
    types = graph.edge_types
    if name is None or types is None:
        if not (reverse is None or isinstance(reverse, bool)):
            raise InputError(
                f"{_STAGE}: expected no name of a reverse type for a graph without types, got {reverse!r}; leave it "
                "out: both directions of an edge are in one part"
            )
        return []
    if reverse is False:
        return []
    if reverse is True:
        raise InputError(
            f"{_STAGE}: expected reverse to name the edge type with the reverses, or False if there is none, got True; "
            "leave it out, and the type is found"
        )
    if reverse is not None:
        named = types.names[type_number(types, reverse)]
        if not _leads_back(named, name):
            raise InputError(
                f"{_STAGE}: expected reverse to name a type from the destinations of {name} to its sources, got "
                f"{named}; name another one, or False if there is none"
            )
        return [types.id_range(named)]
    if isinstance(name, tuple) and reverse_type(name) in types.names:
        return [types.id_range(reverse_type(name))]
    back = []
    own = types.id_range(name)
    for other in types.names:
        edges = types.id_range(other)
        if other == name or not _leads_back(other, name) or bool(is_cut_by_time[edges.start : edges.stop].all()):
            continue
        are_reverses = _are_reverses(
            key[edges.start : edges.stop], key[own.start : own.stop], mirrored[own.start : own.stop]
        )
        if are_reverses:
            back.append(edges)
        elif are_reverses is None:
            warn_user(
                f"{_STAGE}: {other} joins the same pairs of nodes as {name} and stays in the graphs, so a model may "
                f"find the pairs of val and test there; pass reverse={other!r} to take these out, or reverse=False",
                PlanWarning,
            )
    return back


def _leads_back(other: TypeName, name: TypeName) -> bool:
    """Whether edges of another type may be reverses of those of a type; a name that is text has no node types."""
    return isinstance(other, str) or isinstance(name, str) or (other[2], other[0]) == (name[0], name[2])


def _are_reverses(keys: Tensor, there: Tensor, back: Tensor) -> bool | None:
    """Whether edges are the reverses of others: at least half of one of the two are, each pair of nodes once.

    A few common pairs are a coincidence. Pairs that the others join in both directions do not tell a reverse from
    another relation of the same pairs: None if the rest do not tell it, either.

    Parameters
    ----------
    keys, there, back: int64[num_edges]
        Identify the ends of the edges, of the others, and of the others in reverse.
    """
    if torch.equal(keys, back):  # edge by edge, as `Graph.with_reverse` has them
        return True
    keys, there, back = torch.unique(keys), torch.unique(there), torch.unique(back)
    is_back, is_same = torch.isin(keys, back), torch.isin(keys, there)
    num_common = int(is_back.sum())
    if num_common < _LEAST_COMMON or 2 * num_common < min(len(keys), len(back)):
        return False
    num_back, num_same = int((is_back & ~is_same).sum()), int((is_same & ~is_back).sum())
    if max(num_back, num_same) < _LEAST_COMMON or max(num_back, num_same) < 2 * min(num_back, num_same):
        return None
    return num_back > num_same


def _times_by_edge(graph: Graph, name: str, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the times of all edges by input id, as they are and as `ordered`: no earlier than those of their ends."""
    times = times_of(graph, name)
    by_id = None
    if times.edges is not None:
        by_id = torch.empty_like(times.edges).scatter_(0, graph.edge_ids.long(), times.edges)
    if times.nodes is not None:
        for end in ends:
            of_nodes = gather_rows(times.nodes, end)
            by_id = of_nodes if by_id is None else torch.maximum(by_id, of_nodes)
    assert by_id is not None  # one of the two is there
    return by_id, ordered(by_id)


def _latest_part(pairs: Tensor, part: Tensor, wanted: Tensor) -> Tensor:
    """Return of each wanted pair the latest part that an edge of it is in, 0 for pairs without an edge."""
    known, group = torch.unique(pairs, return_inverse=True)
    latest = torch.zeros(len(known) + 1, dtype=torch.int8, device="cpu")
    latest[:-1] = latest[:-1].scatter_reduce(0, group, part, "amax")
    at = torch.searchsorted(known, wanted).clamp_(max=max(0, len(known) - 1))
    there = known[at] == wanted if len(known) else torch.zeros_like(wanted, dtype=torch.bool)
    return torch.where(there, latest[at], 0).to(torch.int8)
