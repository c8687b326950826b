"""Attributes of data sets of other libraries: where an opened data set has them."""

from __future__ import annotations

from headrace.ops.names import no_attribute_of

_ITEMS = 'data.items["train"] has the items of a split; data.notes.get("tasks") has names and numbers of classes'
_STORE = 'data.store has the features: data.store.node["x"], data.store.edge["w"]'
_SPLIT = 'data.items has the splits by name, such as data.items["train"]'
_NOTES = 'data.notes has notes of the conversion, of GraphBolt data.notes["tasks"]'

_INSTEAD: dict[str, str] = {
    **dict.fromkeys(("tasks", "task"), _ITEMS),
    **dict.fromkeys(("train_set", "validation_set", "test_set", "train_mask", "val_mask", "test_mask"), _SPLIT),
    **dict.fromkeys(("train", "val", "test", "all_nodes_set", "splits", "get_idx_split"), _SPLIT),
    **dict.fromkeys(("feature", "features", "feature_store", "x", "y", "labels", "ndata", "edata"), _STORE),
    **dict.fromkeys(("num_classes", "dataset_name", "name", "metadata"), _NOTES),
    **{name: f"data.graph.{name} has it" for name in ("num_nodes", "num_edges", "node_types", "edge_types")},
    "edge_index": "data.graph is the graph: data.graph.indptr and data.graph.indices are its edges by destination",
    "load": "hr.open_dataset has opened it",
}


def missing(data: object, name: str) -> AttributeError:
    """Return the error for an attribute that a data set does not have: where it is, or the nearest name."""
    return no_attribute_of(data, "a Dataset", name, _INSTEAD.get)
