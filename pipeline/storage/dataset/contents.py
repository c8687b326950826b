"""What headrace wrote to a folder: the files of a data set, and those of its parts, by paths in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.pipeline.storage.opened_files import format_of

#: The file that describes a data set or one part of one, and its format.
MANIFEST, FORMAT = "dataset.json", "headrace data set"

#: The file that describes what all parts of a graph share, and its format.
PART_SET, PARTS_FORMAT = "parts.json", "headrace parts"

#: Of a data set, the folder of its parts.
PARTS = "parts"


def holds_dataset(folder: Path) -> bool:
    """Whether a folder holds a data set, of any version; a part of one is none."""
    fields = format_of(folder / MANIFEST, FORMAT)
    return fields is not None and fields.get("part") is None


def holds_parts(folder: Path) -> bool:
    """Whether a folder holds the parts of a graph, of any version."""
    return format_of(folder / PART_SET, PARTS_FORMAT) is not None


def parts_inside(folder: Path) -> tuple[str, ...]:
    """Return the parts that ``headrace partition`` has put into a data set, which go when it is replaced."""
    try:
        inside = [one for one in (folder / PARTS).iterdir() if one.is_dir() and not one.name.startswith(".")]
        return tuple(sorted(f"{PARTS}/{one.name}" for one in inside))
    except OSError:
        return ()


def contents_of_dataset(folder: Path) -> set[str] | None:
    """Return what headrace wrote to a data set, its parts too; None of a folder without one.

    Of whatever version it is: each file of one is named by a field ``file``.
    """
    fields = format_of(folder / MANIFEST, FORMAT)
    if fields is None or fields.get("part") is not None:
        return None
    contents = {MANIFEST, PARTS, *_files_of(fields)}
    for inside in parts_inside(folder):
        contents |= {f"{inside}/{name}" for name in contents_of_parts(folder / inside) or ()}
    return contents


def contents_of_parts(folder: Path) -> set[str] | None:
    """Return what headrace wrote to a folder of parts; None of a folder without any, of whatever version."""
    fields = format_of(folder / PART_SET, PARTS_FORMAT)
    if fields is None:
        return None
    contents = {PART_SET, *_files_of(fields)}
    for part in folder.glob("part-*"):
        own = format_of(part / MANIFEST, FORMAT)
        if own is not None:
            contents |= {f"{part.name}/{name}" for name in (MANIFEST, *_files_of(own))}
    return contents


def _files_of(fields: dict[str, Any]) -> Iterator[str]:
    """Return the files that a manifest names, but for its notes, which may hold anything."""
    return _files_named({name: value for name, value in fields.items() if name != "notes"})


def _files_named(value: Any) -> Iterator[str]:
    """Yield the files that fields of JSON name."""
    if isinstance(value, dict):
        if isinstance(value.get("file"), str):
            yield value["file"]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _files_named(one)
