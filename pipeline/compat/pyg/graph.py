"""The graph of a PyG object: what its loaders sample from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, remote_backend_utils
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.index import ptr2index
from torch_geometric.sampler.base import DataType

from headrace.ops.errors import GraphError
from headrace.pipeline.data.graph import Graph

EdgeType = tuple[str, str, str]


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
    """Return the graph of a ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore).

    Edges keep their ids: those of ``edge_index``, whatever its order, and of several types one type after the other,
    as nodes do.

    Parameters
    ----------
    data
        The object of PyG.
    weight_attr
        The edge attribute that sampling goes by. Edges of types without it count alike.

    Raises
    ------
    GraphError
        If the object has no edges in a form that can be read, or lacks the attribute.
    """
    kind = kind_of(data)
    if kind == DataType.homogeneous:
        return _graph_of_data(data, weight_attr)
    if kind == DataType.heterogeneous:
        return _joined(_sizes_of(data), list(_relations_of(data, weight_attr)), weight_attr)
    if weight_attr is not None:
        raise GraphError("headrace.pyg: expected no weight_attr for a (FeatureStore, GraphStore), as PyG, got one")
    return _graph_of_stores(*data)


def _graph_of_data(data: Data, weight_attr: str | None) -> Graph:
    num_nodes = int(data.num_nodes or 0)
    weights = {}
    if weight_attr is not None:
        if not data.is_edge_attr(weight_attr):
            raise _no_weights(weight_attr, sorted(data.edge_attrs()))
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


@dataclass(frozen=True)
class _Relation:
    """The edges of one type, in ids that count within the types of their ends."""

    name: EdgeType
    source: Tensor
    destination: Tensor
    weight: Tensor | None = None


def _sizes_of(data: HeteroData) -> dict[str, int]:
    """Return the number of nodes of each type."""
    sizes = {}
    for name in data.node_types:
        size = data[name].num_nodes
        if size is None:
            raise GraphError(
                f"headrace.pyg: node type {name!r} does not say how many nodes it has; set data[{name!r}].num_nodes"
            )
        sizes[name] = int(size)
    missing = {end for source, _, destination in data.edge_types for end in (source, destination)} - sizes.keys()
    if missing:
        raise GraphError(f"headrace.pyg: edges lead to node types that data does not have: {sorted(missing)}")
    return sizes


def _relations_of(data: HeteroData, weight_attr: str | None) -> Iterator[_Relation]:
    """Yield the edges of each type."""
    if weight_attr is not None and not any(weight_attr in store for store in data.edge_stores):
        raise _no_weights(weight_attr, sorted({name for store in data.edge_stores for name in store.edge_attrs()}))
    for name, store in data.edge_items():
        if "edge_index" not in store:
            raise GraphError(
                f"headrace.pyg: expected edge_index of edge type {name}, got none; convert its adj_t first"
            )
        source, destination = store.edge_index.cpu().unbind(0)
        weight = store[weight_attr].detach().cpu() if weight_attr is not None and weight_attr in store else None
        yield _Relation(name, source, destination, weight)


def _joined(sizes: dict[str, int], relations: list[_Relation], weight_attr: str | None = None) -> Graph:
    """Return one graph of all types."""
    offsets, end = {}, 0
    for name, size in sizes.items():
        offsets[name], end = end, end + size
    sources = [torch.empty(0, dtype=torch.int64)]
    destinations, weights = list(sources), []
    for one in relations:
        for ids, node_type in ((one.source, one.name[0]), (one.destination, one.name[2])):
            if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < sizes[node_type]:
                raise GraphError(
                    f"headrace.pyg: edges {one.name} have ids of {node_type!r} from {int(ids.min())} to "
                    f"{int(ids.max())}, expected ids below {sizes[node_type]}"
                )
        sources.append(one.source.long() + offsets[one.name[0]])
        destinations.append(one.destination.long() + offsets[one.name[2]])
        weights.append(torch.ones(len(one.source)) if one.weight is None else one.weight)
    return Graph.from_coo(
        torch.cat(sources),
        torch.cat(destinations),
        num_nodes=end,
        edge_attrs={} if weight_attr is None else {weight_attr: torch.cat(weights)},
        node_types=sizes,
        edge_types={one.name: len(one.source) for one in relations},
    )


def _graph_of_stores(feature_store: Any, graph_store: Any) -> Graph:
    attributes = edge_attributes(graph_store)
    if not attributes:
        raise GraphError("headrace.pyg: expected a GraphStore with edges, got one without")
    edges = {name: _coo(graph_store, one) for name, one in attributes.items()}
    if None in edges:
        source, destination = edges[None]
        size = attributes[None].size
        return Graph.from_coo(source, destination, num_nodes=None if size is None else max(size))
    relations = [_Relation(name, *ends) for name, ends in edges.items() if name is not None]
    ends = [end for one in relations for end in (one.name[0], one.name[2])]
    groups = [one.group_name for one in feature_store.get_all_tensor_attrs() if isinstance(one.group_name, str)]
    sizes = {
        name: int(remote_backend_utils.num_nodes(feature_store, graph_store, name))
        for name in dict.fromkeys((*groups, *ends))
    }
    return _joined(sizes, relations)


def edge_attributes(graph_store: Any) -> dict[EdgeType | None, Any]:
    """Return for each edge type, None where there are none, how its edges are kept: in what needs the least work."""
    best: dict[EdgeType | None, Any] = {}
    order = (EdgeLayout.CSC, EdgeLayout.COO, EdgeLayout.CSR)
    for one in graph_store.get_all_edge_attrs():
        known = best.get(one.edge_type)
        if known is None or order.index(one.layout) < order.index(known.layout):
            best[one.edge_type] = one
    return best


def _coo(graph_store: Any, attribute: Any) -> tuple[Tensor, Tensor]:
    # PyG's own conversion puts the edges of a node in no fixed order; here it is that of the user's edges.
    source, destination = graph_store.get_edge_index(attribute)
    source = ptr2index(source) if attribute.layout == EdgeLayout.CSR else source
    destination = ptr2index(destination) if attribute.layout == EdgeLayout.CSC else destination
    return source.cpu(), destination.cpu()


def _no_weights(name: str, there: list[str]) -> GraphError:
    return GraphError(
        f"headrace.pyg: expected weight_attr to name an edge attribute of data, got {name!r}; there are {there}"
    )
