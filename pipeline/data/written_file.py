"""New files, written as a stream, and on the disk when they are complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.pipeline.data.file_errors import named_in_errors


@contextmanager
def written_file(path: Path) -> Iterator[Callable[[bytes | memoryview], None]]:
    """Yield what writes bytes to a new file, which are on the disk when the block ends without an error.

    Raises
    ------
    OSError
        With the file, if it exists or cannot be written.
    """
    # Without a buffer: one that a full disk keeps from being written fails once more when it is closed.
    with path.open("xb", buffering=0) as file:

        def write(content: bytes | memoryview) -> None:
            left = memoryview(content).cast("B")
            with named_in_errors(path):
                while left:
                    left = left[file.write(left) :]

        yield write
        # What is renamed into place afterwards must not turn up empty after a loss of power.
        with named_in_errors(path):
            os.fsync(file.fileno())
