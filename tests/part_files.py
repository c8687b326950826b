"""Parts of a graph on disk, as tests write them."""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import headrace as hr

from plans import graph, store


@cache
def data() -> hr.Dataset:
    """A data set of the graph and the features of most tests."""
    place = TemporaryDirectory()
    atexit.register(place.cleanup)
    hr.save_dataset(f"{place.name}/data", graph(), store(), progress=False)
    return hr.open_dataset(f"{place.name}/data")


def write(
    path: Path, of: hr.Graph, partition: hr.Partition, rows: hr.FeatureStore | None = None, /, **options: Any
) -> Path:
    """Save a graph as a data set, and cut it."""
    with TemporaryDirectory() as place:
        hr.save_dataset(f"{place}/data", of, rows, progress=False)
        hr.open_dataset(f"{place}/data").partition(partition, path, **{"progress": False, **options})
    return path
