"""Edges for training, validation and test, with the graphs that a model may see for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headrace.ops import GraphError, InputError, gather_rows
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.build_graph import ends_in_input_order
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.items import Items
from headrace.pipeline.data.made_of_graph import with_edges
from headrace.pipeline.data.reverse_types import reverse_type
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
    and an edge has the later of its own time and that of its source. Edges without times stay, except reverses.

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
        there is one; otherwise, between two node types, all types from destination to source that are such by their
        edges: at least half of the pairs of nodes of one of the two types are those of the other in reverse. False:
        there is none.
    seed
        Of the draw. The split depends on the arguments alone, not on the machine.

    Raises
    ------
    InputError
        If val and test leave nothing for training, or a part gets no items.
    GraphError
        If there is no such type or time, or several types and no `edge_type`.

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
        raise GraphError(f"{_STAGE}: expected an hr.Graph, got {type(graph).__name__}; {advice}")
    own, name = _edges_of(graph, edge_type)
    src, dst = (one.long() for one in ends_in_input_order(graph))
    key = src * graph.num_nodes + dst
    mirrored = dst * graph.num_nodes + src
    of_one_type = not isinstance(name, tuple) or name[0] == name[2]
    pairs = torch.minimum(key, mirrored) if of_one_type else key
    part = torch.zeros(graph.num_edges, dtype=torch.int8, device="cpu")
    times = None
    if time is None:
        groups, group = torch.unique(pairs[own.start : own.stop], return_inverse=True)
        sizes = sizes_of(len(groups), val, test, _STAGE)
        part[own.start : own.stop] = drawn(len(groups), sizes, seed, _STAGE)[group]
    else:
        times, keys = _times_by_edge(graph, time)
        sizes = sizes_of(len(own), val, test, _STAGE)
        _, cuts = cut_by_time(times[own.start : own.stop], sizes, _STAGE)
        for number, cut in enumerate(cuts, 1):
            part[keys >= cut] = number
    for back in _reverses_of(graph, name, reverse, key, mirrored):
        wanted = (torch.minimum(key, mirrored) if of_one_type else mirrored)[back.start : back.stop]
        latest = _latest_part(pairs[own.start : own.stop], part[own.start : own.stop], wanted)
        if time is not None:  # the others are cut by times of their own
            latest[keys[back.start : back.stop] > EARLIEST] = 0
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
    return LinkSplit(items, graphs, edges, ids)


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
            raise GraphError(f"{_STAGE}: expected no edge_type for a graph without them, got {edge_type!r}")
        return range(graph.num_edges), None
    if edge_type is None and types.num_types != 1:
        raise GraphError(
            f"{_STAGE}: expected edge_type to name the edges to split, one of {list(types.names)}, got none"
        )
    name = types.names[0 if edge_type is None else type_number(types, edge_type)]
    return types.id_range(name), name


def _reverses_of(graph: Graph, name: TypeName | None, reverse: Any, key: Tensor, mirrored: Tensor) -> list[range]:
    """Return the ids of the reverse edges by type; none where there are none, or they are of the type itself.

    `key` and `mirrored` identify the nodes of all edges, there and back.
    """
    types = graph.edge_types
    if types is None or reverse is False:
        return []
    if reverse is True:
        raise InputError(
            f"{_STAGE}: expected reverse to name the edge type with the reverses, or False if there is none, got True; "
            "leave it out, and the type is found"
        )
    if reverse is not None:
        return [types.id_range(types.names[type_number(types, reverse)])]
    if not isinstance(name, tuple):
        return []
    usual = reverse_type(name)
    if usual in types.names:
        return [types.id_range(usual)]
    if name[0] == name[2]:  # relations between the same nodes share many pairs
        return []
    back = [other for other in types.names if isinstance(other, tuple) and (other[2], other[0]) == (name[0], name[2])]
    if not back:
        return []
    own = types.id_range(name)
    wanted = torch.unique(mirrored[own.start : own.stop])
    return [one for one in map(types.id_range, back) if _are_reverses(key[one.start : one.stop], wanted)]


def _are_reverses(keys: Tensor, wanted: Tensor) -> bool:
    """Whether edges are the reverses of others: at least half of one of the two are, each pair of nodes once.

    A few common pairs are a coincidence.
    """
    keys = torch.unique(keys)
    num_common = int(torch.isin(keys, wanted).sum())
    return num_common >= _LEAST_COMMON and 2 * num_common >= min(len(keys), len(wanted))


def _times_by_edge(graph: Graph, name: str) -> tuple[Tensor, Tensor]:
    """Return the times of all edges by input id, as they are and as `ordered`: no earlier than those of the sources."""
    times = times_of(graph, name)
    of_edges = times.edges
    if times.nodes is not None:
        of_sources = gather_rows(times.nodes, graph.indices)
        of_edges = of_sources if of_edges is None else torch.maximum(of_edges, of_sources)
    assert of_edges is not None  # one of the two is there
    by_id = torch.empty_like(of_edges).scatter_(0, graph.edge_ids.long(), of_edges)
    return by_id, ordered(by_id)


def _latest_part(pairs: Tensor, part: Tensor, wanted: Tensor) -> Tensor:
    """Return of each wanted pair the latest part that an edge of it is in, 0 for pairs without an edge."""
    known, group = torch.unique(pairs, return_inverse=True)
    latest = torch.zeros(len(known) + 1, dtype=torch.int8, device="cpu")
    latest[:-1] = latest[:-1].scatter_reduce(0, group, part, "amax")
    at = torch.searchsorted(known, wanted).clamp_(max=max(0, len(known) - 1))
    there = known[at] == wanted if len(known) else torch.zeros_like(wanted, dtype=torch.bool)
    return torch.where(there, latest[at], 0).to(torch.int8)
