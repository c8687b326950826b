"""The arrays of one folder, as its manifest describes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data import FeatureName, Items
from headrace.pipeline.data.arrays import as_cpu_tensor
from headrace.pipeline.storage.array_file import open_stored
from headrace.pipeline.storage.dataset.files import ArrayFile, FeatureFile, ItemFiles
from headrace.pipeline.storage.dataset.folder_writer import num_bytes, sha256_of
from headrace.pipeline.storage.quantized_feature import with_scale

#: Arrays of at most as many bytes are compared with their checksum where that is asked for when they are opened.
SMALL_BYTES = 4 << 20


class Reader:
    """Opens the files of one folder.

    Parameters
    ----------
    folder
        The folder.
    memory_map
        Leave arrays on disk.
    compare
        Compare arrays of at most `SMALL_BYTES` with their checksums: files of other parts may have the same shape.
    """

    def __init__(self, folder: Path, *, memory_map: bool, compare: bool = False) -> None:
        self._folder = folder
        self._memory_map = memory_map
        self._compare = compare
        self._sizes: dict[Path, int] = {}

    def path(self, described: ArrayFile) -> Path:
        """Return the file of an array, which must be below the folder."""
        path, root = self._folder / described.file, self._folder
        if self._compare and "/" in described.file:  # the folder of a part may be elsewhere, as on a disk of its rank
            root = Path(os.path.realpath(self._folder / described.file.partition("/")[0]))
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise InputError(
                f"open_dataset: expected {path} to be below the folder, got a link to outside; copy the file there"
            )
        return path

    def check_sizes(self) -> None:
        """Refuse files that changed their size since they were opened, as those do that are being copied."""
        for path, size in self._sizes.items():
            try:
                now: int | None = path.stat().st_size
            except OSError:
                now = None
            if now != size:
                raise InputError(
                    f"open_dataset: expected {path} to keep its {size} bytes, but it has {now or 'none'} now; wait "
                    "until the folder is copied, and open it again"
                )

    def array(self, described: ArrayFile) -> NDArray[Any]:
        """Return an array as the manifest describes it."""
        path = self.path(described)
        array = open_stored(path, described.torch_dtype, described.shape, memory_map=self._memory_map)
        self._check(path, described)
        return array

    def needed_tensor(self, described: ArrayFile) -> Tensor:
        """Return an array as a tensor."""
        return as_cpu_tensor(self.array(described), described.file).view(described.torch_dtype)

    def _check(self, path: Path, described: ArrayFile) -> None:
        """Refuse another file than the one that was written."""
        if not self._compare:
            return
        self._sizes[path] = path.stat().st_size
        is_compared = described.sha256 is not None and num_bytes(described) <= SMALL_BYTES
        if is_compared and sha256_of(path) != described.sha256:
            raise InputError(
                f"open_dataset: expected in {path} what was written there, got something else: it is of another "
                "part or another cut, or damaged; copy it once more"
            )

    def tensor(self, described: ArrayFile | None) -> Tensor | None:
        """Return an array as a tensor, if there is one."""
        return None if described is None else self.needed_tensor(described)


def read_features(reader: Reader, files: tuple[FeatureFile, ...]) -> dict[str, dict[FeatureName, Any]]:
    """Return whole features of nodes and of edges, by their keys."""
    features: dict[str, dict[FeatureName, Any]] = {"node": {}, "edge": {}}
    for one in files:
        features[one.of][one.key] = with_scale(reader.array(one.rows), one.quantization)
    return features


def read_items(reader: Reader, runs: tuple[ItemFiles, ...]) -> Items:
    """Return items, by type if they have types."""
    by_type = {run.type: tuple(reader.tensor(one) for one in (run.ids, run.labels, run.times)) for run in runs}
    if None in by_type and len(runs) == 1:
        own = by_type[None]
        return Items(own[0], own[1], own[2])
    if None in by_type or len(by_type) < len(runs) or not runs:
        raise InputError(f"open_dataset: expected items of different types, or of none, got {list(by_type)}")
    columns = [{name: parts[column] for name, parts in by_type.items()} for column in range(3)]
    for name, column in zip(("labels", "times"), columns[1:], strict=True):
        lacking = [one for one, rows in column.items() if rows is None]
        if 0 < len(lacking) < len(column):
            raise InputError(f"open_dataset: expected {name} of all types of items or of none, got none of {lacking}")
    ids, labels, times = (None if None in column.values() else column for column in columns)
    return Items(ids, labels, times)
