"""DuckDB for a conversion: tables in one file of the work folder, in bounded memory, made of what it is fed alone.

It opens no file of a user, loads no extension and looks up no variable of Python. Rows come to it in batches with their
number in a column, and queries that need an order name it: nothing relies on the order in which its threads work.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.arrow_columns import needed_library

#: Rows that are handed to DuckDB, or taken from it, at a time.
BATCH_ROWS = 1 << 17

#: The least room for arrays and DuckDB together.
LEAST_ROOM = 96 << 20

#: The share of memory that DuckDB may have: the rest is for batches on their way and what it does not count.
_SHARE = 0.68

_LIBRARIES = ("duckdb", "pyarrow")

#: The name by which a statement reads what it is fed.
INCOMING = "incoming"

#: Before anything is read: these cannot be changed afterwards.
_TAMED = (
    "SET enable_progress_bar = false",  # it would go to stdout
    # Of rows that are fed it cannot know how many there are: tables of keys are the ones to look in, as queries say.
    "SET disabled_optimizers = 'build_side_probe_side,join_order'",
    "SET enable_external_access = false",
    "SET streaming_buffer_size = '16MB'",  # so that it works on while a batch of its rows is written
    "SET lock_configuration = true",
)

_SQL_TYPES = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
    "float16": "FLOAT", "float32": "FLOAT", "float64": "DOUBLE", "bool": "BOOLEAN", "object": "VARCHAR",
}  # fmt: skip


class Database:
    """A connection to DuckDB; errors of rows that it is fed are raised as they were.

    Attributes
    ----------
    limit
        Bytes of memory that it may have.
    """

    def __init__(self, connection: Any, limit: int) -> None:
        self.limit = limit
        self._connection = connection
        self._fault: BaseException | None = None

    def execute(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement, and return its rows."""
        found: list[Any] = self._run(query, parameters).fetchall()
        return found

    def row(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first row of a query that has few, or None."""
        return next(iter(self.execute(query, parameters)), None)

    def value(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the only value of a query."""
        return self.row(query, parameters)[0]

    def arrays(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query that has few rows, none of which is null."""
        return {name: np.ma.getdata(rows) for name, rows in self._run(query, ()).fetchnumpy().items()}

    def batches(self, query: str, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Yield the rows of a query as record batches of pyarrow, in its order."""
        reader = self._connection.sql(query)
        # Of versions before 2 the method has another name.
        yield from (reader.to_arrow_reader if hasattr(reader, "to_arrow_reader") else reader.fetch_arrow_reader)(rows)

    @contextmanager
    def feed(self, names: Sequence[str], kinds: Sequence[Any], batches: Iterable[Sequence[Any]]) -> Iterator[None]:
        """Let one statement in the block read batches, once, as the table `INCOMING`.

        Parameters
        ----------
        names, kinds
            Of the columns, with their types of pyarrow.
        batches
            The columns of each batch.
        """
        import pyarrow as pa

        schema = pa.schema(list(zip(names, kinds, strict=True)))

        def kept() -> Iterator[Any]:
            try:
                for columns in batches:
                    yield pa.record_batch(list(columns), schema=schema)
            except BaseException as error:
                self._fault = error
                raise

        self._fault = None
        self._connection.register(INCOMING, pa.RecordBatchReader.from_batches(schema, kept()))
        try:
            yield
        finally:
            self._connection.unregister(INCOMING)
            self._fault = None

    def _run(self, query: str, parameters: Sequence[Any]) -> Any:
        try:
            return self._connection.execute(query, list(parameters))
        except Exception:
            if self._fault is not None:
                raise self._fault from None
            raise


def has_database() -> bool:
    """Whether DuckDB is installed, and pyarrow, by which it is fed."""
    return all(find_spec(name) is not None for name in _LIBRARIES)


def needed_database(what: str) -> None:
    """Refuse a missing library of these.

    Raises
    ------
    InputError
        With what to install.
    """
    for name in _LIBRARIES:
        needed_library(name, what)


def sql_type(dtype: np.dtype[Any]) -> str:
    """Return the type of SQL for the numbers or texts of a column."""
    return _SQL_TYPES[dtype.name]


def literal(value: float, dtype: np.dtype[Any]) -> str:
    """Return a number of a dtype in SQL."""
    text = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, repr(value))
    return f"CAST('{text}' AS {sql_type(dtype)})"


def drop(base: Database, name: str) -> None:
    """Drop a table or a view, if there is one."""
    for kind in ("view", "table"):
        if base.value(f"SELECT count(*) FROM duckdb_{kind}s() WHERE {kind}_name = ?", [name]):
            base.execute(f"DROP {kind} {name}")


@contextmanager
def database(folder: Path, room: int) -> Iterator[Database]:
    """Yield the database of a work folder, which keeps its tables until the next run.

    Raises
    ------
    InputError
        If DuckDB or pyarrow is not installed, or memory does not suffice.
    OSError
        If the disk is full, or cannot be written.
    KeyboardInterrupt
        If a query was interrupted.
    """
    needed_database("a table")
    import duckdb
    import pyarrow as pa

    limit = max(int(room * _SHARE), 64 << 20)
    (folder / "spilled").mkdir(exist_ok=True)  # which DuckDB cannot make once it is tamed
    config = {
        "memory_limit": f"{limit}B",
        "temp_directory": str(folder / "spilled"),
        "threads": _threads(limit),
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
    }
    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())  # others keep what was let go of
    try:
        base = _opened(folder / "tables.duckdb", config)
        with _ended_by_signals(base), closing(base):  # which waits for what still runs
            yield Database(base, limit)
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as cause:
        _explain(cause, folder)
        raise
    finally:
        pa.set_memory_pool(pool)


@contextmanager
def _ended_by_signals(connection: Any) -> Iterator[None]:
    """End statements in the block where Ctrl-C comes: DuckDB looks for signals between its tasks, which may take hours.

    The byte that Python writes for each signal wakes a thread, whatever the main thread is in. Of a program that has a
    handler of its own DuckDB's looks have to do.
    """
    import duckdb

    is_main = threading.current_thread() is threading.main_thread()  # to which signals come
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    has_ended = threading.Event()
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        while number := ours.recv(1):  # nothing once the other end is closed
            if before >= 0:
                with suppress(OSError):  # it may be full, or closed
                    os.write(before, number)
            while number[0] == signal.SIGINT and not has_ended.wait(0.05):
                with suppress(duckdb.Error):  # it may be closed
                    connection.interrupt()  # again, as a query that begins forgets what interrupted it before

    watcher = threading.Thread(target=watch, name="headrace-convert-signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        try:
            has_ended.set()
        finally:
            signal.set_wakeup_fd(before)
            theirs.close()
        watcher.join()
        ours.close()


def load_database(folder: Path) -> None:
    """Load DuckDB by a query of one row, so that it is known how much memory it takes.

    Raises
    ------
    InputError
        If it is not installed.
    """
    needed_database("a table")
    import duckdb
    import pyarrow as pa

    with duckdb.connect(":memory:", config={"threads": 1, "temp_directory": str(folder)}) as connection:
        base = Database(connection, LEAST_ROOM)
        with base.feed(["key"], [pa.large_string()], [[pa.array(["a"], pa.large_string())]]):
            base.execute(f"CREATE TABLE one AS SELECT key FROM {INCOMING}")
        list(base.batches("SELECT key FROM one ORDER BY key"))


def _opened(file: Path, config: dict[str, Any]) -> Any:
    """Open the file of a former run, or a new one where that is of another version or cut short."""
    import duckdb

    try:
        base = duckdb.connect(str(file), config=config)
    except duckdb.Error:
        if not file.exists():
            raise
        for one in (file, file.with_name(f"{file.name}.wal")):
            one.unlink(missing_ok=True)
        base = duckdb.connect(str(file), config=config)
    for statement in _TAMED:
        base.execute(statement)
    return base


def _explain(cause: Exception, folder: Path) -> None:
    """Raise an error of DuckDB that a user can do something about as one of headrace's."""
    import duckdb

    is_interrupted = isinstance(cause, RuntimeError | duckdb.Error) and "Query interrupted" in str(cause)
    if is_interrupted or isinstance(cause, duckdb.InterruptException):
        raise KeyboardInterrupt from None
    if isinstance(cause, duckdb.OutOfMemoryException) or "Out of Memory" in str(cause):
        raise InputError(f"convert: expected more memory for tables ({cause}); raise memory (--memory)") from cause
    told = str(cause).lower()
    faults = {"space": errno.ENOSPC, "file too large": errno.EFBIG, "quota": errno.EDQUOT}
    number = next((number for words, number in faults.items() if words in told), errno.EIO)
    # A commit that cannot be written is an error of the transaction.
    if isinstance(cause, duckdb.IOException | duckdb.TransactionException) or (
        isinstance(cause, OSError) and cause.errno is None
    ):
        raise OSError(number, str(cause), str(folder)) from cause


def _threads(limit: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, limit // (64 << 20)))  # each thread has buffers of its own
