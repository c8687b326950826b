"""All layers on a batch of a few nodes, before work starts: what they return, and whether in-edges suffice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data import Graph, MiniBatch, TypeName, describe, edge_types_of, node_types_of
from headrace.pipeline.models.inference.layers import Layer, Output, apply_layer
from headrace.pipeline.models.inference.rows import Batches, Kind, Rows, joined

#: Edges that are looked at for the nodes of the trial, and edge types of which there is a trial.
MOST_EDGES, MOST_TRIALS = 1 << 13, 32

#: Edges that are searched at once for those of a type.
_CHUNK = 1 << 22

#: What rows may differ by, of the largest element: products of other sizes add up in another order, or in TF32.
TOLERANCE = 1e-2


class Returned(NamedTuple):
    """What a layer returns: the shape of a row, and the dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class LayerReturns(NamedTuple):
    """What a layer returns for each node type that it gives rows, and whether it does so in a dictionary."""

    kinds: dict[Kind, Returned]
    by_type: bool


def try_layers(layers: Sequence[Layer], batches: Batches, rows: Rows) -> list[LayerReturns]:
    """Return what each layer returns.

    A node gets its row with others in the batch, and without. Layer by layer is right only where the two are the
    same: where a row is a function of the rows of its in-neighbours, its own row and the edges' features.

    Raises
    ------
    InputError
        If they differ, or a layer returns something else than a row for each destination.
    """
    returned: list[LayerReturns] = []
    for nodes in trials(batches.graph):
        # The node is neither the first nor the last one, as it is alone. Of every type there is a node, so that all
        # that a layer returns is known.
        node, others = nodes[0], [*nodes[1:], *_of_other_types(batches.graph, nodes)]
        if len(others) < 2:
            others += _another(batches.graph, nodes)
        together = batches.one([*others[:1], node, *others[1:]], rows)
        returned = _try_layers(layers, batches, rows, together, batches.one([node], rows), nodes)
    return returned


def _try_layers(
    layers: Sequence[Layer], batches: Batches, rows: Rows, together: MiniBatch, alone: MiniBatch, nodes: list[int]
) -> list[LayerReturns]:
    h: Any = rows.of(together)
    h_alone: Any = rows.of(alone)
    returned = []
    place, kind = _place_of(together, nodes[0])
    for number, layer in enumerate(layers):
        out = apply_layer(number, layer, h, together, batches.edge)
        out_alone = apply_layer(number, layer, h_alone, alone, batches.edge)
        if not _alike(out, out_alone, kind, place):
            raise InputError(
                f"inference: expected layer {number} to give a node the same row whatever other nodes are in its "
                f"batch, got different ones for node {nodes[0]} alone and beside {nodes[1:]}: it draws numbers, takes "
                "means over the batch, reads the first rows, or counts degrees of sources, whose in-edges are not all "
                'there. A graph convolution takes hr.gcn_norm(graph) as a feature of edges: edge=["norm"], with '
                "normalize=False (norm='none' in DGL)"
            )
        kinds = {kind: Returned(tuple(one.shape[1:]), one.dtype) for kind, one in out.rows.items()}
        returned.append(LayerReturns(kinds, out.by_type))
        h, h_alone = (_some_rows(out, batch) for batch in (together, alone))
    return returned


def _place_of(batch: MiniBatch, node: int) -> tuple[int, Kind]:
    """Return which row among those of its type a seed has, and that type."""
    place = int((batch.seeds == node).nonzero()[0])
    if batch.types is None:
        return place, None
    types = batch.types.types[: place + 1]
    return int((types[:place] == types[place]).sum()), batch.types.node_types.names[int(types[place])]


def _some_rows(out: Output, batch: MiniBatch) -> Tensor | dict[TypeName, Tensor]:
    """Return rows of the next layer's input: any will do, as long as a node has the same one in both batches."""
    if batch.types is None:
        return out.rows[None][batch.n_id % len(out.rows[None])]
    some = {
        kind: rows[batch.types.within(kind) % max(len(rows), 1)] for kind, rows in out.rows.items() if kind is not None
    }
    return some if out.by_type else joined(some, batch)


def trials(graph: Graph) -> Iterator[list[int]]:
    """Yield the nodes of each trial: `telling_nodes` of the graph, or of each edge type that has edges."""
    types = edge_types_of(graph)
    full = [number for number, name in enumerate(types.names) if len(types.id_range(name))]
    if graph.edge_types is None or not full:
        yield telling_nodes(graph)
    else:
        yield from (telling_nodes(graph, number) for number in full[:MOST_TRIALS])


def _of_other_types(graph: Graph, nodes: list[int]) -> list[int]:
    """Return the first node of each type of which there is none among these."""
    types = node_types_of(graph)
    ranges = [types.id_range(name) for name in types.names]
    return [ids.start for ids in ranges if len(ids) and not any(node in ids for node in nodes)]


def _another(graph: Graph, nodes: list[int]) -> list[int]:
    """Return a node that is none of these, one with few in-edges; none if there is none."""
    first = torch.arange(min(graph.num_nodes, MOST_TRIALS), device="cpu")
    fewest = (graph.indptr[first + 1] - graph.indptr[first]).argsort(stable=True)
    known: list[int] = graph.to_original_ids(first[fewest]).tolist()
    return [node for node in known if node not in nodes][:1]


def telling_nodes(graph: Graph, edge_type: int | None = None) -> list[int]:
    """Return a node v, an in-neighbour u and another node that u is one of, as far as there are such.

    Beside v alone, u then gets in-edges, and one more out-edge: layers that count either are found out. With the number
    of an edge type these are edges of that type.
    """
    places = (
        torch.arange(min(graph.num_edges, MOST_EDGES), device="cpu")
        if edge_type is None
        else _some_edges(graph, edge_type)
    )
    if not len(places):
        return [0]
    source = graph.indices[places].long()
    destination = torch.searchsorted(graph.indptr, places, right=True) - 1
    degrees = [graph.indptr[ends + 1] - graph.indptr[ends] for ends in (source, destination)]
    in_degrees = degrees[0] if edge_type is None else _counts(source, destination)
    # The least work among the edges that tell most.
    lacks = 2 * (in_degrees < 2).long() + (_counts(source, source) < 2).long() + 4 * (source == destination).long()
    best = int((lacks * 4 * (graph.num_edges + 1) + degrees[0] + degrees[1]).argmin())
    u, v = int(source[best]), int(destination[best])
    others = destination[source == u]
    others = others[(others != u) & (others != v)]
    nodes = torch.tensor(list(dict.fromkeys([v, u, *others[:1].tolist()])), device="cpu")
    ids: list[int] = graph.to_original_ids(nodes).tolist()
    return ids


def _counts(ids: Tensor, among: Tensor) -> Tensor:
    """Return how often each id is among others, int64[num_ids]."""
    there = among.sort().values
    return torch.searchsorted(there, ids, right=True) - torch.searchsorted(there, ids)


def _some_edges(graph: Graph, edge_type: int) -> Tensor:
    """Return the places of edges of a type, MOST_EDGES of them or all."""
    types = edge_types_of(graph)
    ids = types.id_range(types.names[edge_type])
    if graph.edge_permutation is None:
        return torch.arange(ids.start, min(ids.stop, ids.start + MOST_EDGES), device="cpu")
    found: list[Tensor] = []
    for start in range(0, graph.num_edges, _CHUNK):
        chunk = graph.edge_permutation[start : start + _CHUNK]
        found.append(((chunk >= ids.start) & (chunk < ids.stop)).nonzero()[:MOST_EDGES, 0] + start)
        if sum(map(len, found)) >= MOST_EDGES:
            break
    return torch.cat(found)[:MOST_EDGES]


def check_returned(number: int, kind: Kind, output: Output, expected: LayerReturns) -> Tensor:
    """Return the rows of a type, which a layer returns for every batch as it did at first.

    Raises
    ------
    InputError
        If it does not.
    """
    if kind not in output.rows or output.by_type != expected.by_type:
        came = f"those of {[*output.rows]}" if output.by_type else "a tensor"
        raise InputError(
            f"inference: expected layer {number} to return rows by type as for the batch before, those of "
            f"{[*expected.kinds]}, got {came}; let what it returns not depend on the batch"
        )
    rows, (shape, dtype) = output.rows[kind], expected.kinds[kind]
    if tuple(rows.shape[1:]) != shape or rows.dtype != dtype:
        raise InputError(
            f"inference: expected layer {number} to return rows as for the batch before, "
            f"{describe(torch.empty(len(rows), *shape, dtype=dtype, device='meta'))}, got "
            f"{describe(rows)}; let its columns and dtype not depend on the batch"
        )
    return rows


def _alike(together: Output, alone: Output, kind: Kind, place: int) -> bool:
    """Whether the node alone has the same row beside others, at a place; it has none where its type gets none."""
    if kind not in together.rows or kind not in alone.rows:
        return kind not in together.rows and kind not in alone.rows
    one, other = together.rows[kind][place : place + 1], alone.rows[kind]
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    largest = float(other.abs().nan_to_num(0.0, 0.0, 0.0).max()) if other.numel() else 0.0
    return torch.allclose(one, other, rtol=0.0, atol=TOLERANCE * largest, equal_nan=True)
