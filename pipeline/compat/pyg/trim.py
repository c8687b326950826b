"""The part of a batch that a layer needs: PyG's ``trim_to_layer``, and pairs of rows for layers that take them."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from torch import Tensor, nn
from torch_geometric import utils
from torch_geometric.edge_index import EdgeIndex
from torch_geometric.nn import HeteroConv, MessagePassing

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import whole_number

__all__ = ["trim_to_layer"]


def trim_to_layer(
    layer: int,
    num_sampled_nodes_per_hop: Any,
    num_sampled_edges_per_hop: Any,
    x: Any,
    edge_index: Any,
    edge_attr: Any = None,
    *,
    conv: nn.Module | None = None,
) -> tuple[Any, Any, Any]:
    """Return the rows and edges that a layer needs, as ``torch_geometric.utils.trim_to_layer`` does.

    A trimmed batch is still a square graph to PyG: a layer computes a row for each node that it reads, although the
    next layer reads fewer. Pass the layer as `conv`, and if it takes pairs ``(x_src, x_dst)``, as those of PyG do that
    annotate it (``SAGEConv``, ``GATConv``, ``GINConv``, ``GraphConv``, ``RGCNConv``, ...), `x` is such a pair, whose
    second half has the rows that are read next::

        for i, conv in enumerate(convs):
            x, edge_index, _ = trim_to_layer(
                i, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index, conv=conv
            )
            x = conv(x, edge_index).relu()

    The rows of the seeds are those that PyG's function gives. For layers that take no pairs (``GCNConv``,
    which reads the degrees of sources), for layers behind the last hop and for sparse adjacencies it does the same as
    PyG's. Norms that average over rows (``BatchNorm``) see only the rows that are read next.

    Parameters
    ----------
    layer
        The number of the layer, 0 for the one that reads the features.
    num_sampled_nodes_per_hop, num_sampled_edges_per_hop : list of int, or dict of lists by type
        ``batch.num_sampled_nodes`` and ``batch.num_sampled_edges``, seeds first; ``..._dict`` for a ``HeteroData``.
    x : [num_nodes, ...], or dict by node type
        The input of the layer. The output for a pair has too few rows for PyG's own function, not for this one.
    edge_index : int64[2, num_edges], or dict by edge type
        The edges, as the call for the layer before returned them. Also an ``EdgeIndex`` or a ``SparseTensor``.
    edge_attr : [num_edges, ...], or dict by edge type, optional
        Features of the edges.
    conv : torch.nn.Module, optional
        The layer. A ``HeteroConv`` whose layers all take pairs gets a dict of pairs by edge type.

    Returns
    -------
    tuple
        `x`, `edge_index` and `edge_attr`, trimmed: views, no copies.

    Raises
    ------
    InputError
        For a layer that is negative or beyond the hops, for numbers of nodes and edges that are not by hop, and for
        fewer rows or edges than the hops of the layer have.
    """
    layer = whole_number(layer, "trim_to_layer: layer", 0, InputError)
    hops = num_sampled_nodes_per_hop, num_sampled_edges_per_hop
    if None in hops:
        raise InputError(
            "trim_to_layer: expected numbers of sampled nodes and edges by hop, got None; batches of induced subgraphs "
            "have no hops, so call the layers on the whole batch"
        )
    if isinstance(edge_index, dict):
        if not all(map(_is_plain, edge_index.values())):
            return _as_pyg(layer, *hops, x, edge_index, edge_attr)
        return _by_type(layer, *hops, x, edge_index, edge_attr, conv)
    if not _is_plain(edge_index):
        return _as_pyg(layer, *hops, x, edge_index, edge_attr)
    _check_hops(layer, *hops)
    edges = _needed(num_sampled_edges_per_hop, layer)
    needed = _first(x, _needed(num_sampled_nodes_per_hop, layer), "x"), _first(edge_index, edges, "edge_index", dim=1)
    if layer > 0:
        x, edge_index = needed
        edge_attr = None if edge_attr is None else _first(edge_attr, edges, "edge_attr")
    if layer < len(num_sampled_edges_per_hop) and _takes_pairs(conv):
        x = x, _first(x, _needed(num_sampled_nodes_per_hop, layer + 1), "x")
    return x, edge_index, edge_attr


def _by_type(
    layer: int, nodes: Any, edges: Any, x: Any, edge_index: Any, edge_attr: Any, conv: nn.Module | None
) -> tuple[Any, Any, Any]:
    for name in edge_index:
        _check_hops(layer, nodes[name[0]], edges[name])
    if layer > 0:
        x = {name: _first(rows, _needed(nodes[name], layer), f"x[{name!r}]") for name, rows in x.items()}
        edge_index = {
            name: _first(ends, _needed(edges[name], layer), f"edge_index[{name!r}]", dim=1)
            for name, ends in edge_index.items()
        }
        if edge_attr is not None:
            edge_attr = {
                name: _first(rows, _needed(edges[name], layer), f"edge_attr[{name!r}]")
                for name, rows in edge_attr.items()
            }
    is_sampled = all(layer < len(edges[name]) for name in edge_index)
    if is_sampled and isinstance(conv, HeteroConv) and all(map(_takes_pairs, conv.convs.values())):
        next_x = {name: _first(rows, _needed(nodes[name], layer + 1), f"x[{name!r}]") for name, rows in x.items()}
        x = {name: (x.get(name[0]), next_x.get(name[-1])) for name in edge_index if {name[0], name[-1]} & x.keys()}
    return x, edge_index, edge_attr


def _as_pyg(*arguments: Any) -> tuple[Any, Any, Any]:
    found: tuple[Any, Any, Any] = utils.trim_to_layer(*arguments)
    return found


def _is_plain(edge_index: Any) -> bool:
    """Whether edges are a tensor that knows nothing of its size."""
    return isinstance(edge_index, Tensor) and not isinstance(edge_index, EdgeIndex)


def _check_hops(layer: int, nodes: list[int], edges: list[int]) -> None:
    if len(nodes) != len(edges) + 1:
        raise InputError(
            f"trim_to_layer: expected numbers of nodes for the seeds and each of {len(edges)} hops, got {len(nodes)}; "
            "pass batch.num_sampled_nodes, then batch.num_sampled_edges"
        )
    if layer > len(edges):
        raise InputError(f"trim_to_layer: expected a layer of a batch of {len(edges)} hops, got layer {layer}")


def _needed(per_hop: list[int], layer: int) -> int:
    """Return how many nodes or edges of the hops a layer still needs."""
    return sum(per_hop[: len(per_hop) - layer])


def _first(rows: Tensor, count: int, name: str, dim: int = 0) -> Tensor:
    if rows.shape[dim] < count:
        raise InputError(
            f"trim_to_layer: expected {name} to have at least {count} entries along dimension {dim}, as hops of the "
            f"layer have, got {list(rows.shape)}; pass what the layer before returned, and layers in their order"
        )
    return rows.narrow(dim, 0, count)


def _takes_pairs(conv: nn.Module | None) -> bool:
    conv = getattr(conv, "_orig_mod", conv)  # what torch.compile was given
    return isinstance(conv, MessagePassing) and _of_layers(type(conv))


def _of_layers(layer: type[nn.Module]) -> bool:
    return _layers_take_pairs(layer)  # type: ignore[arg-type] # classes are hashable


# What torch.compiler.assume_constant_result says, which takes seconds to import.
_of_layers._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001


@cache
def _layers_take_pairs(layer: type[nn.Module]) -> bool:
    """Whether layers say that they take pairs of rows with edges behind: by the annotations of their `forward`."""
    _, *names = inspect.signature(layer.forward).parameters
    if names[1:2] != ["edge_index"]:
        return False  # of positions, which would have to be pairs too
    try:
        annotation = get_type_hints(layer.forward).get(names[0])
    except (NameError, TypeError):  # names that are there for type checkers alone
        return False
    return any(get_origin(one) is tuple for one in get_args(annotation))
