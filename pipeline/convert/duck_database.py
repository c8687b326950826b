"""DuckDB for one pass: in bounded memory, with a folder to spill to, over rows that Python yields."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.ops import InputError
from headrace.pipeline.convert.arrow_columns import needed_library

#: Rows that are handed to DuckDB, or taken from it, at a time.
BATCH_ROWS = 1 << 17

#: Texts and their numbers, as arrays of pyarrow.
Rows = Iterator[tuple[Any, Any]]

#: What ids that are texts need at least.
LEAST_ROOM = 96 << 20

#: The share of memory that DuckDB may have: the rest is for batches on their way and what it does not count.
_SHARE = 0.6


class Database:
    """A connection to DuckDB that keeps the error of rows that it reads: it passes on no more than a text.

    Attributes
    ----------
    fault
        What was raised while rows were read.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.fault: BaseException | None = None

    def execute(self, query: str) -> None:
        """Run a statement."""
        self._connection.execute(query)

    def batches(self, query: str) -> Iterator[Any]:
        """Yield the rows of a query, batch by batch."""
        yield from self._connection.sql(query).to_arrow_reader(BATCH_ROWS)

    def only_row(self, query: str) -> Any:
        """Return the row of a query that has at most one, or None."""
        return next(iter(self._connection.execute(query).fetchall()), None)

    def receive(self, rows: Rows) -> None:
        """Let the next statement read rows by the name ``incoming``, once."""
        import pyarrow as pa

        def kept() -> Iterator[Any]:
            try:
                for texts, numbers in rows:
                    yield pa.record_batch([texts, numbers], schema=schema)
            except BaseException as error:
                self.fault = error
                raise

        schema = pa.schema([("id", pa.large_string()), ("row", pa.int64())])
        self._connection.register("incoming", pa.RecordBatchReader.from_batches(schema, kept()))


def memory_of(room: int) -> int:
    """Return the bytes that DuckDB may have of the room for arrays."""
    return max(int(room * _SHARE), 64 << 20)


@contextmanager
def database(folder: Path, room: int) -> Iterator[Database]:
    """Yield a database in memory that spills to a folder."""
    needed_library("duckdb", "ids that are texts")
    needed_library("pyarrow", "ids that are texts")
    import duckdb
    import pyarrow as pa

    limit = memory_of(room)
    base = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{limit}B",
            "temp_directory": str(folder),
            "preserve_insertion_order": False,
            "threads": _threads(limit),
        },
    )
    base.execute("SET enable_progress_bar = false")  # it would go to stdout
    wrapped = Database(base)
    try:
        yield wrapped
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as cause:  # pyarrow's are of rows on their way
        if wrapped.fault is not None:
            raise wrapped.fault from None
        _explain(cause, folder)
        raise
    finally:
        base.close()


def load_database(folder: Path) -> None:
    """Load DuckDB by a query of one row, so that it is known how much memory it takes.

    Raises
    ------
    InputError
        If it is not installed.
    """
    with database(folder, LEAST_ROOM) as base:
        import pyarrow as pa

        base.receive(iter([(pa.array(["a"], pa.large_string()), pa.array([0]))]))
        list(base.batches("SELECT id FROM incoming ORDER BY id"))


def _explain(cause: Exception, folder: Path) -> None:
    """Raise an error of DuckDB that a user can do something about as one of headrace's."""
    import duckdb

    if isinstance(cause, RuntimeError) and str(cause) == "Query interrupted":  # of a signal while a query runs
        raise KeyboardInterrupt from None
    if isinstance(cause, duckdb.OutOfMemoryException) or "Out of Memory" in str(cause):
        raise InputError(f"convert: expected more memory for ids that are texts ({cause}); raise memory") from cause
    if isinstance(cause, duckdb.IOException) or (isinstance(cause, OSError) and cause.errno is None):
        number = errno.ENOSPC if "space" in str(cause).lower() else errno.EIO
        raise OSError(number, f"convert: {cause}", str(folder)) from cause


def _threads(limit: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, limit // (128 << 20)))  # each thread has buffers of its own
