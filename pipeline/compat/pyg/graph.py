"""The graph of a PyG object: what its loaders sample from."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.index import ptr2index
from torch_geometric.sampler.base import DataType

from headrace.ops.errors import GraphError
from headrace.pipeline.data.graph import Graph


def kind_of(data: Any) -> DataType:
    """Return what came: a ``Data``, a ``HeteroData``, or a (FeatureStore, GraphStore).

    Raises
    ------
    GraphError
        If it is none of them.
    """
    try:
        return DataType.from_data(data)
    except ValueError:
        raise GraphError(
            f"headrace.pyg: expected a Data, a HeteroData or a tuple (FeatureStore, GraphStore), got "
            f"{type(data).__name__}"
        ) from None


def graph_of(data: Any, weight_attr: str | None = None) -> Graph:
    """Return the graph of a ``Data``, or of a (FeatureStore, GraphStore) of one type.

    Edges keep their ids: those of ``edge_index``, whatever its order.

    Parameters
    ----------
    data
        The object of PyG.
    weight_attr
        The edge attribute that sampling goes by.

    Raises
    ------
    GraphError
        If the object has no edges in a form that can be read, lacks the attribute, or has types.
    """
    kind = kind_of(data)
    if kind == DataType.heterogeneous:
        raise GraphError("headrace.pyg: expected data of one type, got a HeteroData; types are not sampled yet")
    return _graph_of_stores(data, weight_attr) if kind == DataType.remote else _graph_of_data(data, weight_attr)


def _graph_of_data(data: Data, weight_attr: str | None) -> Graph:
    num_nodes = int(data.num_nodes or 0)
    weights = {}
    if weight_attr is not None:
        if not data.is_edge_attr(weight_attr):
            raise GraphError(
                f"headrace.pyg: expected weight_attr to name an edge attribute of data, got {weight_attr!r}; there are "
                f"{sorted(data.edge_attrs())}"
            )
        weights[weight_attr] = data[weight_attr].detach().cpu()
    if data.edge_index is not None:
        source, destination = data.edge_index.cpu().unbind(0)
        return Graph.from_coo(source, destination, num_nodes=num_nodes, edge_attrs=weights)
    if "adj_t" in data or "adj" in data:
        raise GraphError(
            "headrace.pyg: expected data.edge_index, got edges in a sparse matrix; convert it: "
            "data.edge_index = torch.stack(data.adj_t.coo()[1::-1])"
        )
    nothing = torch.empty(0, dtype=torch.int64)
    return Graph.from_coo(nothing, nothing, num_nodes=num_nodes)


def _graph_of_stores(stores: Any, weight_attr: str | None) -> Graph:
    _, graph_store = stores
    attributes = graph_store.get_all_edge_attrs()
    if len(attributes) == 0 or any(one.edge_type is not None for one in attributes):
        raise GraphError("headrace.pyg: expected a GraphStore with edges of one type, got one with edge types")
    if weight_attr is not None:
        raise GraphError("headrace.pyg: expected no weight_attr for a (FeatureStore, GraphStore), as PyG, got one")
    edges = attributes[0]
    source, destination = graph_store.get_edge_index(edges)
    # PyG's own conversion puts the edges of a node in no fixed order; here it is that of the user's edges.
    source = ptr2index(source) if edges.layout == EdgeLayout.CSR else source
    destination = ptr2index(destination) if edges.layout == EdgeLayout.CSC else destination
    num_nodes = None if edges.size is None else max(edges.size)
    return Graph.from_coo(source.cpu(), destination.cpu(), num_nodes=num_nodes)
