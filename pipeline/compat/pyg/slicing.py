"""The rows of a PyG object that a sampled subgraph takes: every attribute of nodes and of edges."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import HeteroSamplerOutput
from torch_geometric.typing import TensorFrame
from torch_geometric.utils import is_sparse

from headrace.ops.features.gather import gather_rows
from headrace.pipeline.compat.pyg.adjacency import MATRICES, matrix_of, sliced_matrix


def sliced_data(data: Data, node: Tensor, edge_index: Tensor, edge: Tensor | None, *, num_threads: int = 1) -> Data:
    """Return a ``Data`` of the nodes and edges, with all else as it is.

    What belongs to nodes or edges the object says itself (``is_node_attr``, ``is_edge_attr``), and along which
    dimension (``__cat_dim__``).

    Parameters
    ----------
    data
        The whole graph.
    node: int64[num_nodes]
        Nodes.
    edge_index: int64[2, num_edges]
        Edges among them, in local ids.
    edge: int64[num_edges], optional
        Ids of the edges; without them attributes of edges are left out.
    num_threads
        Threads to copy rows by.
    """
    out = copy.copy(data)
    store, made = data._store, out._store  # noqa: SLF001 - PyG's own way to an attribute by its name
    _take_nodes(store, made, node, num_threads)
    _take_edges(store, made, edge_index, edge, (len(node), len(node)), num_threads)
    return out


def sliced_hetero_data(data: HeteroData, out: HeteroSamplerOutput, *, num_threads: int = 1) -> HeteroData:
    """Return a ``HeteroData`` of the sampled nodes and edges, with all else as it is.

    Parameters
    ----------
    data
        The whole graph.
    out
        What was sampled, edges by their ids in the whole graph. Types that it does not name have nothing.
    num_threads
        Threads to copy rows by.
    """
    batch = copy.copy(data)
    nothing = torch.empty(0, dtype=torch.int64, device="cpu")
    for node_type in batch.node_types:
        _take_nodes(data[node_type], batch[node_type], out.node.get(node_type, nothing), num_threads)
    for name in batch.edge_types:
        edge_index = stacked(out.row.get(name, nothing), out.col.get(name, nothing))
        edge = None if out.edge is None else out.edge.get(name, nothing)
        sizes = len(out.node.get(name[0], nothing)), len(out.node.get(name[2], nothing))
        _take_edges(data[name], batch[name], edge_index, edge, sizes, num_threads)
    return batch


def _take_nodes(store: Any, made: Any, node: Tensor, num_threads: int) -> None:
    for name, value in store.items():
        if name == "num_nodes":
            made.num_nodes = len(node)
        elif store.is_node_attr(name):
            made[name] = rows_of(value, node, dim_of(store, name, value), num_threads=num_threads)


def _take_edges(
    store: Any, made: Any, edge_index: Tensor, edge: Tensor | None, sizes: tuple[int, int], num_threads: int
) -> None:
    matrix = matrix_of(store)
    for name, value in store.items():
        if name == "edge_index":
            made.edge_index = edge_index.to(value.device)
        elif name in MATRICES and is_sparse(value):
            part = sliced_matrix(store, name, edge_index, edge, sizes) if name == matrix else None
            if part is None:
                del made[name]  # it has other edges
            else:
                made[name] = part
        elif store.is_edge_attr(name) and not (name == "num_nodes" or store.is_node_attr(name)):
            made[name] = (
                None if edge is None else rows_of(value, edge, dim_of(store, name, value), num_threads=num_threads)
            )


def dim_of(store: Any, name: str, value: Any) -> Any:
    """Return the dimension along which batches join an attribute, as its object says; None for a new one."""
    return store._parent().__cat_dim__(name, value, store)  # noqa: SLF001 - as PyG finds it


def rows_of(value: Any, ids: Tensor, dim: int = 0, *, num_threads: int = 1) -> Any:
    """Return the rows of an attribute: a tensor on any device, an array, a memory map, a list or a ``TensorFrame``."""
    if isinstance(value, Tensor):
        along_rows = dim == 0 or value.ndim + dim == 0
        plain = type(value) is Tensor and value.is_cpu and value.layout == torch.strided
        if along_rows and plain and not value.requires_grad:
            return gather_rows(value, ids, num_threads=num_threads)
        return value.index_select(dim, ids.to(value.device))
    if isinstance(value, np.ndarray):
        if dim == 0 and value.dtype.kind in "fiub":
            return gather_rows(value, ids, num_threads=num_threads)
        return torch.from_numpy(np.take(value, ids.numpy(), axis=dim))
    if isinstance(value, TensorFrame):
        return value[ids.to(value.device)]
    return type(value)(value[place] for place in ids.tolist())


def stacked(row: Tensor, col: Tensor) -> Tensor:
    """Return int64[2, n] of two rows, without a copy where they are the rows of one tensor already."""
    base = row._base  # noqa: SLF001 - what a row is a view of
    if base is not None and base is col._base and base.shape == (2, len(row)):  # noqa: SLF001
        first, second = base
        if (row.data_ptr(), col.data_ptr()) == (first.data_ptr(), second.data_ptr()) and row.stride() == first.stride():
            return base
    return torch.stack([row, col])
