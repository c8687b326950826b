"""The features in objects of PyG; PyG itself is not imported."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.graph_sources import labels_other_edges, warn_of_several_graphs
from headrace.pipeline.data.type_attributes import rows_in

#: Attributes of PyG's objects that are the graph, or items, and no features.
_NOT_FEATURES = ("edge_index", "adj_t", "adj", "num_nodes", "edge_label_index", "ptr", "batch")


def features_of_pyg(data: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the features of nodes and of edges; `hr.FeatureStore.from_pyg` documents them.

    Raises
    ------
    InputError
        If `data` is neither a ``Data`` nor a ``HeteroData``.
    """
    warn_of_several_graphs(data, "FeatureStore.from_pyg")
    left_out: list[str] = []
    node: dict[Any, Any]
    edge: dict[Any, Any]
    if hasattr(data, "edge_types") and hasattr(data, "_global_store"):
        node = {name: _rows(data[name], data[name].num_nodes, f"data[{name!r}]", left_out) for name in data.node_types}
        edge = {name: _rows(data[name], data[name].num_edges, f"data[{name}]", left_out) for name in data.edge_types}
        left_out += [f"data.{name}" for name in data._global_store]  # noqa: SLF001 - PyG has no other name for it
    elif hasattr(data, "edge_index") and hasattr(data, "is_node_attr"):
        names = sorted(_names(data))
        of_edges = [name for name in names if data.is_edge_attr(name)]
        node = _some(data, [name for name in names if name not in of_edges], data.num_nodes, "data", left_out)
        edge = _some(data, of_edges, data.num_edges, "data", left_out)
    else:
        raise InputError(
            f"FeatureStore.from_pyg: expected a torch_geometric Data or HeteroData, got {type(data).__name__}; "
            "FeatureStore(node={'x': x}) takes tensors and arrays"
        )
    if left_out:
        warn_user(
            f"FeatureStore.from_pyg: left out {', '.join(left_out)}: no array with a row for each node, or each edge",
        )
    return {name: rows for name, rows in node.items() if _any(rows)}, {k: v for k, v in edge.items() if _any(v)}


def _any(rows: Any) -> bool:
    return not isinstance(rows, dict) or bool(rows)


def _rows(storage: Any, count: int | None, label: str, left_out: list[str]) -> dict[str, Tensor]:
    return _some(storage, _names(storage), count, label, left_out)


def _names(storage: Any) -> list[str]:
    """Return the attributes that may be features; ``edge_label`` is one where it has no links of its own."""
    names = [name for name in storage.keys() if name not in _NOT_FEATURES]  # noqa: SIM118 - no dictionary
    return [name for name in names if not (name == "edge_label" and labels_other_edges(storage, name))]


def _some(storage: Any, names: list[str], count: int | None, label: str, left_out: list[str]) -> dict[str, Tensor]:
    """Return the attributes with a row for each of so many ids, and name the others."""
    found = {}
    for name in names:
        rows = None if count is None else rows_in(storage[name], int(count))
        if rows is None:
            left_out.append(f"{label}.{name} ({describe(storage[name])})")
        else:
            found[name] = rows
    return found
