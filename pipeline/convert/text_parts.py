"""Texts with numbers in files by their hash: equal texts are in one file, and those of a file fit in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.pipeline.convert.duck_database import Database, Rows, memory_of
from headrace.pipeline.convert.work_folder import WorkFolder

#: Files that are open at a time.
MOST_PARTS = 128

#: What DuckDB takes at most for a text and its number, which it may hold twice.
TEXT_BYTES = 200


def parts_for(num_rows: int, room: int) -> int:
    """Return in how many parts so many texts fit in memory, one at a time."""
    return max(1, min(MOST_PARTS, -(-num_rows * TEXT_BYTES // memory_of(room))))


@dataclass(frozen=True)
class TextParts:
    """Texts, each with a number.

    Parameters
    ----------
    name
        What their files are called.
    """

    work: WorkFolder
    name: str
    num_parts: int

    def write(self, base: Database, rows: Rows) -> None:
        """Write texts, null among them, which has a part as well."""
        self.remove()
        base.receive(rows)
        query = f"SELECT id, row, (hash(id) % {self.num_parts})::INTEGER AS part FROM incoming"  # noqa: S608
        with ExitStack() as stack:
            writers: list[Any] = []
            for batch in base.batches(query):
                if not writers:
                    schema = batch.schema.remove(2)
                    paths = map(self._path, range(self.num_parts))
                    writers += [stack.enter_context(_writer(one, schema)) for one in paths]
                of_part = batch.column(2).to_numpy(zero_copy_only=False)
                ordered = batch.remove_column(2).take(np.argsort(of_part, kind="stable"))
                start = 0
                for part, size in enumerate(np.bincount(of_part, minlength=self.num_parts).tolist()):
                    if size:
                        writers[part].write_batch(ordered.slice(start, size))
                    start += size

    def rows(self, part: int) -> Rows:
        """Yield the texts of a part."""
        import pyarrow as pa

        if self._path(part).exists():  # there is none of a table without rows
            with self._path(part).open("rb") as file:
                for batch in pa.ipc.open_stream(file):
                    yield batch.column(0).cast(pa.large_string()), batch.column(1)

    def remove(self) -> None:
        """Remove the files that are there."""
        for part in range(self.num_parts):
            self._path(part).unlink(missing_ok=True)

    def _path(self, part: int) -> Path:
        return self.work.file(f"{self.name}.part{part}")


@contextmanager
def _writer(path: Path, schema: Any) -> Iterator[Any]:
    """Yield a writer of batches, which are on the disk when it ends."""
    import pyarrow as pa

    with path.open("wb") as file:
        with pa.ipc.new_stream(file, schema) as writer:
            yield writer
        file.flush()
        os.fsync(file.fileno())
