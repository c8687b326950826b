"""Folders that hold no data set: of which library they are, and what to do with them."""

from __future__ import annotations

from pathlib import Path

from headrace.pipeline.storage.dataset.contents import MANIFEST, PART_SET
from headrace.pipeline.storage.opened_files import format_of

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

#: What ``hr.write_shards`` of before the parts wrote, and the format that it named.
_SHARDS, _SHARDS_FORMAT = "meta.json", "headrace shards"


def instead_of_folder(folder: Path) -> str | None:
    """Return what to do with a folder that holds no data set; None if it is of no known format."""
    if format_of(folder / _SHARDS, _SHARDS_FORMAT) is not None:
        return (
            "it holds shards of headrace 0.1, which had a format of their own: make parts of the data set, "
            "`headrace partition DATA OUT --parts P`, and open OUT"
        )
    if folder.is_file() and folder.name in (MANIFEST, PART_SET):
        return f"name its folder, {folder.parent}"
    if folder.is_file():
        near = folder.parent
        known = any(folder.match(pattern) for pattern, _ in _FOLDERS)
        return f"run `headrace convert {near} DATASET`, and open DATASET" if known else None
    for pattern, library in _FOLDERS:
        if any(folder.glob(pattern)):
            return f"it is a folder of {library}: run `headrace convert {folder} DATASET`, and open DATASET"
    below = sorted({one.parent.name for name in (MANIFEST, PART_SET) for one in folder.glob(f"*/{name}")})
    return f"these below it have one: {', '.join(below[:5])}; name one of them" if below else None
