"""The attributes that PyG's loaders set on their batches, and rows out of a (FeatureStore, GraphStore)."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from headrace.pipeline.compat.pyg.graph import edge_attributes, num_nodes_of
from headrace.pipeline.compat.pyg.slicing import sliced_data, sliced_hetero_data, stacked

#: A ``SamplerOutput``, or a ``HeteroSamplerOutput`` where there are types. PyG has no static types.
Output: TypeAlias = Any


def node_batch(
    data: Any, out: Output, permutation: Any, input_type: str | None, *, num_threads: int, custom_cls: Any = None
) -> Any:
    """Return the batch of a node loader.

    Parameters
    ----------
    data
        The whole graph: a ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore).
    out
        What the sampler found; ``metadata`` are the ids of the items and their times.
    permutation
        From the edges of the sampler to those of the user; None where they are the same.
    input_type
        The type of the seeds; None where there are no types.
    num_threads
        Threads to copy rows by.
    custom_cls
        What makes an empty batch of a (FeatureStore, GraphStore); a ``Data`` or a ``HeteroData`` without it.
    """
    batch = subgraph(data, out, permutation, num_threads=num_threads, custom_cls=custom_cls)
    store = batch if input_type is None else batch[input_type]
    items, times = out.metadata[:2]
    store.input_id = items
    store.seed_time = times
    store.batch_size = len(items)
    return batch


def link_batch(
    data: Any,
    out: Output,
    permutation: Any,
    input_type: Any,
    *,
    triplets: bool,
    num_threads: int,
    custom_cls: Any = None,
) -> Any:
    """Return the batch of a link loader; parameters as for `node_batch`, `input_type` is that of the links.

    ``metadata`` are the ids of the links, then the rows of their ends, labels and times; with `triplets` the rows of
    sources, of destinations and of negative destinations, and times.
    """
    batch = subgraph(data, out, permutation, num_threads=num_threads, custom_cls=custom_cls)
    links = batch if input_type is None else batch[input_type]
    sources = batch if input_type is None else batch[input_type[0]]
    destinations = batch if input_type is None else batch[input_type[-1]]
    links.input_id = out.metadata[0]
    if triplets:
        sources.src_index, destinations.dst_pos_index, destinations.dst_neg_index = out.metadata[1:4]
        sources.seed_time = destinations.seed_time = out.metadata[4]
        for name in ("edge_label_index", "edge_label_time"):
            if name in links:  # the whole graph's
                del links[name]
    else:
        links.edge_label_index, links.edge_label, links.edge_label_time = out.metadata[1:4]
    return batch


def subgraph(data: Any, out: Output, permutation: Any, *, num_threads: int, custom_cls: Any = None) -> Any:
    """Return what the batches of all loaders have: the sampled nodes and edges, their attributes, ids and counts."""
    if isinstance(out, HeteroSamplerOutput):
        return _typed_subgraph(data, out, permutation or {}, num_threads, custom_cls)
    if not isinstance(out, SamplerOutput):
        raise TypeError(f"expected a SamplerOutput or a HeteroSamplerOutput of PyG, got {type(out).__name__}")
    edge = _edge_ids(out.edge, permutation)
    edge_index = stacked(out.row, out.col)
    batch: Any
    if isinstance(data, Data):
        batch = sliced_data(data, out.node, edge_index, edge, num_threads=num_threads)
    else:
        feature_store, graph_store = data
        batch = data_of_stores(feature_store, graph_store, out.node, edge_index, edge, custom_cls)
    if "n_id" not in batch:
        batch.n_id = out.node
    if edge is not None and "e_id" not in batch:
        batch.e_id = edge
    batch.batch = out.batch
    batch.num_sampled_nodes = out.num_sampled_nodes
    batch.num_sampled_edges = out.num_sampled_edges
    if out.orig_row is not None and out.orig_col is not None:
        batch._orig_edge_index = torch.stack([out.orig_row, out.orig_col])  # noqa: SLF001 - PyG's name for it
    return batch


def _typed_subgraph(data: Any, out: HeteroSamplerOutput, permutations: Any, num_threads: int, custom_cls: Any) -> Any:
    if out.edge is not None:
        out.edge = {name: _edge_ids(edge, permutations.get(name)) for name, edge in out.edge.items()}
    batch: Any
    if isinstance(data, HeteroData):
        batch = sliced_hetero_data(data, out, num_threads=num_threads)
    else:
        feature_store, graph_store = data
        batch = hetero_data_of_stores(feature_store, graph_store, out, custom_cls)
    for name, node in out.node.items():
        if "n_id" not in batch[name]:
            batch[name].n_id = node
    for key, edge in (out.edge or {}).items():
        if edge is not None and "e_id" not in batch[key]:
            batch[key].e_id = edge
    batch.set_value_dict("batch", out.batch)
    batch.set_value_dict("num_sampled_nodes", out.num_sampled_nodes)
    batch.set_value_dict("num_sampled_edges", out.num_sampled_edges)
    for key in out.orig_row or {}:
        ends = torch.stack([out.orig_row[key], out.orig_col[key]])
        batch[key]._orig_edge_index = ends  # noqa: SLF001 - PyG's name for it
    return batch


def _edge_ids(edge: Tensor | None, permutation: Tensor | None) -> Tensor | None:
    if edge is None:
        return None
    edge = edge.to(torch.int64)
    return edge if permutation is None else permutation[edge]


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
