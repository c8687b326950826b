"""Edges in a sparse matrix, ``adj_t`` or ``adj``: those of the graph, and those of a batch with their values."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.index import index2ptr, ptr2index
from torch_geometric.utils import is_sparse

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data.graph_sources import entries_of_matrix, values_of_matrix

#: The names of matrices whose entries are the edges, in the order in which PyG asks for them.
MATRICES = ("adj", "adj_t")

#: What was found of matrices that are still there, by the ids of matrix and ``edge_index``.
_found: dict[tuple[int, int], tuple[weakref.ref[Any], Any, Entries]] = {}


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of a matrix as edges, by destination, or in the order of the ``edge_index`` beside it.

    Parameters
    ----------
    source, destination: int64[num_edges]
        Edges.
    places: int64[num_edges], optional
        Where the value of each edge is among those of the matrix; None where they are in this order.
    fits
        Whether the matrix has the edges of the ``edge_index`` beside it.
    """

    source: Tensor
    destination: Tensor
    places: Tensor | None
    fits: bool = True


def edges_of(store: Any) -> tuple[Tensor, Tensor] | None:
    """Return the edges of a store of PyG, sources and destinations, or None where it has none.

    Edges of a matrix alone are numbered as in CSR of ``adj_t``. Beside an ``edge_index``, whose order counts, a matrix
    with other edges does not count: see `warn_of_other_edges`.

    Parameters
    ----------
    store
        Of ``Data``, or of an edge type.
    """
    name = matrix_of(store)
    edge_index = store.get("edge_index")
    if name is not None:
        found = entries_of(store, name)
        if found.fits:
            return found.source, found.destination
    if edge_index is None:
        return None
    source, destination = _on_cpu(edge_index).unbind(0)
    return source, destination


def _on_cpu(edge_index: Any) -> Tensor:
    if not isinstance(edge_index, Tensor):
        raise InputError(
            f"headrace.pyg: expected edge_index to be a tensor, got {type(edge_index).__name__}; write "
            "torch.as_tensor(edge_index)"
        )
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        turned = "; write edge_index.t()" if edge_index.ndim == 2 and edge_index.shape[1] == 2 else ""
        raise InputError(
            f"headrace.pyg: expected edge_index to be int[2, num_edges], got shape {list(edge_index.shape)}{turned}"
        )
    return edge_index.cpu()


def warn_of_other_edges(store: Any, label: str) -> None:
    """Warn of a matrix with other edges than the ``edge_index`` beside it: no batch has it.

    Parameters
    ----------
    store
        Of ``Data``, or of an edge type.
    label
        How a user writes it.
    """
    name = matrix_of(store)
    if name is not None and not entries_of(store, name).fits:
        warn_user(
            f"headrace.pyg: {label}.{name} has other edges than {label}.edge_index, which is sampled from, and is left "
            "out of batches; delete one of the two",
        )


def matrix_of(store: Any) -> str | None:
    """Return the name of the matrix of a store."""
    return next((name for name in MATRICES if name in store and is_sparse(store[name])), None)


def entries_of(store: Any, name: str) -> Entries:
    """Return the entries of a matrix, which are looked at once."""
    matrix, edge_index = store[name], store.get("edge_index")
    key = id(matrix), id(edge_index)
    known = _found.get(key)
    if known is not None and known[0]() is matrix and (edge_index is None or known[1]() is edge_index):
        return known[2]
    found = _entries(matrix, transposed=name == "adj_t")
    if edge_index is not None:
        found = _in_order_of(_on_cpu(edge_index), found)
    beside = None if edge_index is None else weakref.ref(edge_index)
    _found[key] = weakref.ref(matrix, lambda _: _found.pop(key, None)), beside, found
    return found


def sliced_matrix(store: Any, name: str, edge_index: Tensor, edge: Tensor | None, sizes: tuple[int, int]) -> Any:
    """Return the matrix of sampled edges, of the kind and the layout of that of the graph; None if it has others.

    Parameters
    ----------
    store, name
        The matrix of the whole graph.
    edge_index: int64[2, num_edges]
        Edges in local ids.
    edge: int64[num_edges], optional
        Their ids, for the values.
    sizes
        How many sources and destinations there are.
    """
    found, matrix = entries_of(store, name), store[name]
    if not found.fits:
        return None
    values = values_of_matrix(matrix)
    if values is not None:
        rows = None if edge is None else edge if found.places is None else found.places[edge]
        values = None if rows is None else values[rows.to(values.device)]
    row, col = edge_index if name == "adj" else edge_index.flip(0)
    shape = sizes if name == "adj" else sizes[::-1]
    if not isinstance(matrix, Tensor):
        row, col = row.to(matrix.device()), col.to(matrix.device())
        return type(matrix)(row=row, col=col, value=values, sparse_sizes=shape, is_sorted=False, trust_data=True)
    if values is None:
        values = torch.ones(edge_index.shape[1], dtype=matrix.dtype, device=matrix.device)
    return _as_layout(matrix.layout, row.to(matrix.device), col.to(matrix.device), values, shape)


def _entries(matrix: Any, *, transposed: bool) -> Entries:
    if not isinstance(matrix, Tensor):
        # A SparseTensor keeps its values by rows.
        starts, other, _ = matrix.csr() if transposed else matrix.csc()
        places = None if transposed else matrix.storage.csr2csc().cpu()
        return Entries(other.cpu(), ptr2index(starts.cpu()), places)
    row, col = (one.cpu() for one in entries_of_matrix(matrix))
    source, destination = (col, row) if transposed else (row, col)
    by_destination = torch.sparse_csr if transposed else torch.sparse_csc
    if matrix.layout == by_destination:
        return Entries(source.long(), destination.long(), None)
    order = _order(source.long(), destination.long())
    return Entries(source[order].long(), destination[order].long(), order)


def _order(source: Tensor, destination: Tensor) -> Tensor:
    """Return the order of edges by destination, then source."""
    by_source = source.argsort(stable=True)
    return by_source[destination[by_source].argsort(stable=True)]


def _in_order_of(edge_index: Tensor, found: Entries) -> Entries:
    source, destination = edge_index
    if found.source.shape != source.shape:
        return Entries(source, destination, None, fits=False)
    order, of_matrix = _order(source, destination), _order(found.source, found.destination)
    fits = torch.equal(source[order], found.source[of_matrix]) and torch.equal(
        destination[order], found.destination[of_matrix]
    )
    places = torch.empty_like(order)
    places[order] = of_matrix if found.places is None else found.places[of_matrix]
    return Entries(source, destination, places, fits)


def _as_layout(layout: torch.layout, row: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return a matrix of entries in a layout; entries of one place stay apart."""
    size = (*shape, *values.shape[1:])
    if layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(
            torch.stack([row, col]), values, size, device=values.device, check_invariants=False
        )
    by_row = layout == torch.sparse_csr
    major, minor = (row, col) if by_row else (col, row)
    order = _order(minor, major)
    starts = index2ptr(major[order], shape[0 if by_row else 1])
    return torch.sparse_compressed_tensor(
        starts, minor[order], values[order], size, layout=layout, device=values.device, check_invariants=False
    )
