"""Data sets of other libraries: where an opened data set has their attributes, and what converts their folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.ops.names import no_attribute_of
from headrace.pipeline.storage.shard_meta import holds_shards

if TYPE_CHECKING:
    from headrace.pipeline.storage.dataset.open_dataset import Dataset

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

#: A file that tells a folder of another library, and the library.
_FOLDERS = (
    ("metadata.yaml", "GraphBolt"),
    ("meta.yaml", "DGL"),
    ("raw/edge.csv.gz", "OGB"),
    ("raw/triplet-type-list.csv.gz", "OGB"),
    ("raw/data.npz", "OGB"),
    ("processed/*/*.npy", "OGB"),
    ("*.toml", "tables with their description"),
)


def missing(data: Dataset, name: str) -> AttributeError:
    """Return the error for an attribute that a data set does not have: where it is, or the nearest name."""
    return no_attribute_of(data, "a Dataset", name, _INSTEAD.get)


def instead_of_folder(folder: Path) -> str | None:
    """Return what to do with a folder that holds no data set; None if it is of no known format."""
    if holds_shards(folder):
        return "it holds the shards of a graph: write hr.load_shards(folder)"
    if folder.is_file():
        near = folder.parent
        known = any(folder.match(pattern) for pattern, _ in _FOLDERS)
        return f"run `headrace convert {near} DATASET`, and open DATASET" if known else None
    for pattern, library in _FOLDERS:
        if any(folder.glob(pattern)):
            return f"it is a folder of {library}: run `headrace convert {folder} DATASET`, and open DATASET"
    return None
