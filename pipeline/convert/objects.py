"""Objects of PyG and DGL to data sets on disk; neither library is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.ops import InputError
from headrace.pipeline.convert.description import split_name
from headrace.pipeline.data import Graph, Items
from headrace.pipeline.storage.dataset.dataset import Dataset
from headrace.pipeline.storage.dataset.open_dataset import open_dataset
from headrace.pipeline.storage.dataset.write_dataset import save_dataset
from headrace.pipeline.storage.features import FeatureStore

#: Masks of nodes or edges with such names are items of the name before.
_MASK = "_mask"
_MASKS = (torch.bool, torch.uint8, torch.int8)

#: DGL's own names of features, which hold ids of the graph that a graph was cut from.
_BOOKKEEPING = ("_ID", "_TYPE")


def convert_object(
    data: Any, folder: str | os.PathLike[str], *, overwrite: bool = False, progress: bool = True
) -> Dataset:
    """Write an object of PyG or DGL to a data set; `hr.convert` documents it.

    Raises
    ------
    InputError
        If `data` is none of these objects, or `folder` exists and may not be replaced.
    """
    if hasattr(data, "canonical_etypes") and hasattr(data, "is_homogeneous"):
        graph, store, kind = Graph.from_dgl(data), _features_of_dgl(data), "DGL"
    elif hasattr(data, "edge_types") or (hasattr(data, "edge_index") and hasattr(data, "is_node_attr")):
        graph, store, kind = Graph.from_pyg(data), FeatureStore.from_pyg(data), "PyG"
    else:
        raise InputError(
            "convert: expected a path, a torch_geometric Data or HeteroData, or a dgl.DGLGraph, got "
            f"{type(data).__name__}; "
            "write other graphs by hr.save_dataset(folder, graph, store, items=...)"
        )
    items, features = _items_and_features(store)
    items |= _links_of_pyg(data) if kind == "PyG" else {}
    notes = {"source": f"{kind} {type(data).__name__}"}
    save_dataset(folder, graph, features, items=items, notes=notes, overwrite=overwrite, progress=progress)
    return open_dataset(folder)


def _features_of_dgl(graph: Any) -> FeatureStore:
    def kept(frame: Any) -> dict[str, Any]:
        return {name: rows for name, rows in frame.items() if name not in _BOOKKEEPING}

    if graph.is_homogeneous:
        return FeatureStore(kept(graph.ndata), kept(graph.edata))
    node = {name: kept(graph.nodes[name].data) for name in graph.ntypes}
    edge = {name: kept(graph.edges[name].data) for name in graph.canonical_etypes}
    return FeatureStore(*({name: rows for name, rows in one.items() if rows} for one in (node, edge)))


def _items_and_features(store: FeatureStore) -> tuple[dict[str, Any], FeatureStore]:
    """Take masks of nodes from the features, as items of the name before ``_mask``; of several splits with a number."""
    items: dict[str, dict[Any, Any]] = {}
    features = {}
    for key, source in store.node.items():
        of_type, name = (None, key) if isinstance(key, str) else key
        if not (name.endswith(_MASK) and source.dtype in _MASKS and len(source.shape) <= 2):
            features[key] = source
            continue
        mask = _read_mask(source, name)
        of_name = split_name(name.removesuffix(_MASK))
        columns = {of_name: mask} if mask.ndim == 1 else {f"{of_name}_{i}": one for i, one in enumerate(mask.t())}
        for one, rows in columns.items():
            of_types = items.setdefault(one, {})
            if of_type in of_types:
                raise InputError(f"convert: expected one mask of the items {one!r}, got several; leave one out")
            of_types[of_type] = rows.contiguous()
    plain = {name: of_types.get(None, of_types) for name, of_types in items.items()}
    return plain, FeatureStore(features, dict(store.edge))


def _read_mask(source: Any, name: str) -> Tensor:
    """Return a mask of booleans, [num_nodes] of one split or [num_nodes, num_splits]."""
    rows: Tensor = source.read(torch.arange(source.shape[0], device="cpu")).rows
    if bool(((rows != 0) & (rows != 1)).any()):
        raise InputError(
            f"convert: expected booleans or 0 and 1 in {name!r}, got other numbers; correct it, or give it a name "
            f"without {_MASK}"
        )
    return rows.squeeze(1).bool() if rows.ndim == 2 and rows.shape[1] == 1 else rows.bool()


def _links_of_pyg(data: Any) -> dict[str, Items]:
    """Return the links with labels that splits of PyG have: ``edge_label_index`` and ``edge_label``."""
    if not hasattr(data, "edge_types"):
        pairs, labels = getattr(data, "edge_label_index", None), getattr(data, "edge_label", None)
        return {} if pairs is None else {"edge_label": Items(_pairs(pairs), labels)}
    of_types = {name: data[name] for name in data.edge_types if "edge_label_index" in data[name]}
    by_type = {name: _pairs(one.edge_label_index) for name, one in of_types.items()}
    if not by_type:
        return {}
    labelled: Mapping[Any, Tensor] = {name: one.edge_label for name, one in of_types.items() if "edge_label" in one}
    return {"edge_label": Items(by_type, labelled if len(labelled) == len(by_type) else None)}


def _pairs(index: Tensor) -> Tensor:
    return index.t().contiguous()
