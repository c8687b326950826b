"""Batches out of a (FeatureStore, GraphStore)."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.sampler import HeteroSamplerOutput

from headrace.pipeline.compat.pyg.graph import edge_attributes, num_nodes_of
from headrace.pipeline.compat.pyg.slicing import stacked


def data_of_stores(
    feature_store: Any,
    graph_store: Any,
    node: Tensor,
    edge_index: Tensor,
    edge: Tensor | None,
    custom_cls: Any = None,
) -> Data:
    """Return a ``Data`` of sampled nodes and edges with their rows of every tensor in the feature store.

    A tensor of as many rows as there are edges belongs to the edges; where nodes are as many, its name decides, which
    then has "edge" in it. A graph that does not say how many nodes it has, has those that its edges name.

    Parameters
    ----------
    feature_store, graph_store
        PyG's stores, of one type of nodes and edges.
    node: int64[num_nodes]
        Nodes.
    edge_index: int64[2, num_edges]
        Edges among them, in local ids.
    edge: int64[num_edges], optional
        Ids of the edges; without them attributes of edges are left out.
    custom_cls
        What makes the empty object in the place of ``Data``.
    """
    attribute = edge_attributes(graph_store)[None]
    ends = graph_store.get_edge_index(attribute)
    num_edges = len(ends[1 if attribute.layout == EdgeLayout.CSR else 0])
    data = Data() if custom_cls is None else custom_cls()
    data.edge_index = edge_index
    data.num_nodes = len(node)
    wanted = []
    for one in feature_store.get_all_tensor_attrs():
        wanted_one = copy.copy(one)
        shape = feature_store.get_tensor_size(wanted_one)
        rows = None if shape is None else int(shape[0])
        named = "edge" in str(wanted_one.attr_name)
        of_edges = rows == num_edges and (named or rows != num_nodes_of(attribute, ends))
        if of_edges and edge is None:
            continue
        wanted_one.index = edge if of_edges else node
        wanted.append(wanted_one)
    for attribute, rows_found in zip(wanted, feature_store.multi_get_tensor(wanted), strict=True):
        data[attribute.attr_name] = rows_found
    return data


def hetero_data_of_stores(
    feature_store: Any, graph_store: Any, out: HeteroSamplerOutput, custom_cls: Any = None
) -> HeteroData:
    """Return a ``HeteroData`` of what was sampled, with the rows of every tensor whose group is a type there.

    `custom_cls` makes the empty object in its place.
    """
    data = HeteroData() if custom_cls is None else custom_cls()
    wanted = []
    for one in feature_store.get_all_tensor_attrs():
        ids = out.node.get(one.group_name) if isinstance(one.group_name, str) else None
        if ids is None and isinstance(one.group_name, tuple):
            ids = (out.edge or {}).get(one.group_name)
        if ids is not None:
            attribute = copy.copy(one)
            attribute.index = ids
            wanted.append(attribute)
    for name, node in out.node.items():
        data[name].num_nodes = len(node)
    for attribute, rows_found in zip(wanted, feature_store.multi_get_tensor(wanted), strict=True):
        data[attribute.group_name][attribute.attr_name] = rows_found
    for name in edge_attributes(graph_store):
        if name in out.row:
            data[name].edge_index = stacked(out.row[name], out.col[name])
    return data
