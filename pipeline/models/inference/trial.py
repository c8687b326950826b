"""All layers on a batch of two or three nodes, before work starts: what they return, and whether in-edges suffice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.models.inference.batches import Batches
from headrace.pipeline.models.inference.layers import ROWS, Layer, apply_layer
from headrace.pipeline.storage.features import FeatureSource

#: Edges that are looked at for the nodes of the trial.
MOST_EDGES = 1 << 13

#: What rows may differ by, of the largest element: products of other sizes add up in another order, or in TF32.
TOLERANCE = 1e-2


class Returned(NamedTuple):
    """What a layer returns: the shape of a row, and the dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def try_layers(layers: Sequence[Layer], batches: Batches, rows: FeatureSource) -> list[Returned]:
    """Return what each layer returns.

    A node gets its row with others in the batch, and without. Layer by layer is right only where the two are the
    same: where a row is a function of the rows of its in-neighbours, its own row and the edges' features.

    Raises
    ------
    InputError
        If they differ, or a layer returns something else than a row for each destination.
    """
    nodes = telling_nodes(batches.graph)
    together, alone = batches.one(nodes, rows), batches.one(nodes[:1], rows)
    h, h_alone = together.node[ROWS], alone.node[ROWS]
    returned = []
    for number, layer in enumerate(layers):
        out = apply_layer(number, layer, h, together, batches.edge)
        out_alone = apply_layer(number, layer, h_alone, alone, batches.edge)
        if not _alike(out[:1], out_alone):
            raise InputError(
                f"inference: expected layer {number} to give a node the same row whatever other nodes are in its "
                f"batch, got different ones for node {nodes[0]} alone and beside {nodes[1:]}: it draws numbers, takes "
                "means over the batch, or counts degrees of sources, whose in-edges are not all there. A graph "
                'convolution takes hr.gcn_norm(graph) as a feature of edges: edge=["norm"], with normalize=False '
                "(norm='none' in DGL)"
            )
        returned.append(Returned(tuple(out.shape[1:]), out.dtype))
        # Rows of the next layer's input: any will do, as long as a node has the same one in both batches.
        h, h_alone = (out[batch.n_id % len(out)] for batch in (together, alone))
    return returned


def telling_nodes(graph: Graph) -> list[int]:
    """Return a node v, an in-neighbour u and another node that u is one of, as far as there are such.

    Beside v alone, u then gets in-edges, and one more out-edge: layers that count either are found out.
    """
    count = min(graph.num_edges, MOST_EDGES)
    if count == 0:
        return [0]
    source = graph.indices[:count].long()
    destination = torch.searchsorted(graph.indptr, torch.arange(count), right=True) - 1
    degrees = [graph.indptr[ends + 1] - graph.indptr[ends] for ends in (source, destination)]
    _, inverse, out_degrees = source.unique(return_inverse=True, return_counts=True)  # type: ignore[no-untyped-call]
    # The least work among the edges that tell most.
    lacks = 2 * (degrees[0] < 2).long() + (out_degrees[inverse] < 2).long() + 4 * (source == destination).long()
    best = int((lacks * 4 * (graph.num_edges + 1) + degrees[0] + degrees[1]).argmin())
    u, v = int(source[best]), int(destination[best])
    others = destination[source == u]
    others = others[(others != u) & (others != v)]
    return list(dict.fromkeys([v, u, *others[:1].tolist()]))


def check_returned(number: int, rows: Tensor, expected: Returned) -> None:
    """Check that a layer returns for every batch what it did at first.

    Raises
    ------
    InputError
        If it does not.
    """
    if tuple(rows.shape[1:]) != expected.shape or rows.dtype != expected.dtype:
        raise InputError(
            f"inference: expected layer {number} to return rows as for the batch before, "
            f"{describe(torch.empty(len(rows), *expected.shape, dtype=expected.dtype, device='meta'))}, got "
            f"{describe(rows)}; let its columns and dtype not depend on the batch"
        )


def _alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    one, other = one.double(), other.double()
    largest = float(other.nan_to_num(0.0, 0.0, 0.0).abs().max()) if other.numel() else 0.0
    return torch.allclose(one, other, rtol=0.0, atol=TOLERANCE * largest, equal_nan=True)
