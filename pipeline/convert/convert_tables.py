"""Make a data set of tables, in bounded memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headrace.ops import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.convert.checked import Checked, checked
from headrace.pipeline.convert.conversion import Conversion
from headrace.pipeline.convert.database import LEAST_ROOM, database, has_database, load_database
from headrace.pipeline.convert.description import Description
from headrace.pipeline.convert.id_columns import with_ids_alike
from headrace.pipeline.convert.in_memory import convert_in_memory
from headrace.pipeline.convert.memory import room
from headrace.pipeline.convert.report import Report, planned, unused_columns
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.unused_ids import warnings_of_first_rows
from headrace.pipeline.convert.work_folder import with_remedy, work_folder
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.data.memory_size import as_memory
from headrace.pipeline.data.new_folder import check_is_free, new_folder
from headrace.pipeline.storage.dataset.contents import contents_of_dataset, parts_inside
from headrace.pipeline.storage.dataset.manifest import Manifest, arrays_of
from headrace.pipeline.storage.terminal import progress_bar

#: Of the passes and their files: a work folder of another one is not used.
_PASSES_VERSION = 5


def convert_tables(
    description: Description,
    folder: str | os.PathLike[str],
    *,
    memory: int | str = "4GB",
    overwrite: bool = False,
    dry_run: bool = False,
    progress: bool = True,
) -> Report:
    """Make a data set of tables, for `open_dataset`.

    Tables are read in chunks, and edges are sorted by destination through files beside `folder`, in
    ``.NAME.converting``. That folder has a journal of finished passes: a conversion that was killed, or whose disk was
    full, goes on behind the last of them when it is started again, and yields the same bytes. The bytes do not depend
    on memory or threads either. The data set gets its name when it is complete.

    Parameters
    ----------
    description
        The tables, and what to do with odd rows.
    folder
        The data set to make.
    memory
        What the process may take at most, in bytes or as a text such as "4GB". What does not fit is in files.
    overwrite
        Replace a data set at `folder`, with the parts inside it; anything else there stays, and is an error with its
        name.
    dry_run
        Write nothing; the report has types, counts, dtypes, passes, and about what disk and memory they take. Read are
        the first rows of CSV, which tell types and with the size of the file how many there are, and labels that are
        texts.
    progress
        Show a bar for each pass.

    Returns
    -------
    Report
        What was found, left out and added.

    Raises
    ------
    InputError
        If a row is malformed, an id is unknown or repeated, or a value is null, with its file and row; a column is
        missing; files change while they are read; or memory does not suffice.
    OSError
        If the disk is full, or `folder` cannot be written.
    KeyboardInterrupt
        If it is interrupted, with the folder that a later run goes on from.

    Warns
    -----
    UserWarning
        If nodes are numbered by their rows though a column seems to have their ids, or half of the rows of a table of
        edges or more are left out.
    """
    check_switches("convert", overwrite=overwrite, dry_run=dry_run, progress=progress)
    tables, limit = with_ids_alike(checked(description)), as_memory(memory)
    # Of the name in a folder that is no link: the work folder is beside it.
    target = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay as they are
    check_is_free(target, overwrite=overwrite, contents=contents_of_dataset, what="a data set")
    if "?" in str(target):  # behind which DuckDB reads options of its file
        raise InputError(f"convert: expected a folder whose path has no question mark, got {str(target)!r}; move it")
    removed = parts_inside(target)
    _load_libraries(tables, target)
    if dry_run:
        report = planned(tables, target, limit)
        found = tuple(warnings_of_first_rows(tables.nodes.values()))
        for one in found:
            warn_user(f"convert: {one}")
        return replace(report, removed=removed, warnings=found)
    before = _stamps(tables)
    if not has_database():
        notes = _notes(tables, before)
        manifest = convert_in_memory(tables, target, notes, overwrite=overwrite, progress=progress)
        return replace(_report(tables, manifest, target, limit), removed=removed)
    left = room(limit, LEAST_ROOM)
    target.parent.mkdir(parents=True, exist_ok=True)

    def bar(what: str, total: int | None) -> Any:
        return progress_bar(
            shown=progress, desc=what, total=total, unit="B" if "write" in what else "", unit_scale=True
        )

    with (
        with_remedy(target),
        work_folder(target, _fingerprint(tables, before)) as work,
        database(work.path, left) as base,
    ):
        conversion = Conversion(tables, work, base, left, bar, lambda: _refuse_changes(tables, before))
        manifest = conversion.run(_notes(tables, before))
        with new_folder(target, overwrite=overwrite, contents=contents_of_dataset, what="a data set") as draft:
            conversion.output.publish(draft, arrays_of(manifest))
            manifest.write(draft)
        passes, warnings = tuple(work.done()), tuple(conversion.warnings)
        return replace(_report(tables, manifest, target, limit), removed=removed, passes=passes, warnings=warnings)


def _load_libraries(tables: Checked, target: Path) -> None:
    """Load what takes memory beside arrays, so that it is known how much is left."""
    for table in tables.tables():
        table.load()
    if has_database():
        load_database(target.parent)


def _report(tables: Checked, manifest: Manifest, target: Path, limit: int) -> Report:
    arrays = {array.file.removesuffix(".npy"): array for array in arrays_of(manifest)}
    nodes: dict[str, int | None] = {next(iter(tables.nodes)): manifest.num_nodes}
    edges: dict[Any, int | None] = {None: manifest.num_edges}
    if manifest.node_types is not None and manifest.edge_types is not None:
        nodes = {str(name): count for name, count in manifest.node_types}
        edges = {name: count for name, count in manifest.edge_types}  # noqa: C416 - None in others
    return Report(
        target,
        nodes,
        edges,
        {name: f"{one.dtype}[{', '.join(map(str, one.shape))}]" for name, one in arrays.items()},
        manifest.notes["counts"],
        limit,
        sum((target / array.file).stat().st_size for array in arrays.values()),
        unused=unused_columns(tables),
    )


def _stamps(tables: Checked) -> list[Any]:
    return [[table.name, table.stamps()] for table in tables.tables()]


def _refuse_changes(tables: Checked, before: list[Any]) -> None:
    """Refuse files that are no longer as they were.

    Raises
    ------
    InputError
        With the first one.
    """
    for (name, old), (_, new) in zip(before, _stamps(tables), strict=True):
        for one, other in zip(old, new, strict=False):
            if one != other:
                raise InputError(f"convert: {one[0]} changed while it was read; convert again when it is complete")
        if len(old) != len(new):
            raise InputError(f"convert: the files of {name} changed while they were read; convert again")


def _notes(tables: Checked, stamps: list[Any]) -> dict[str, Any]:
    """Return what the manifest says of the sources: names and sizes, and what was done with odd rows."""
    sources: list[dict[str, Any]] = [
        {"name": name, "files": [{"file": Path(path).name, "bytes": size} for path, size, _ in files]}
        for name, files in stamps
    ]
    for source, table in zip(sources, tables.tables(), strict=True):
        if table.classes:
            source["classes"] = {name: list(texts) for name, texts in table.classes.items()}
    tasks = {"tasks": [dict(one) for one in tables.tasks]} if tables.tasks else {}
    return {
        **tables.notes,
        "converter": "headrace convert",
        "sources": sources,
        "options": asdict(tables.options),
        **tasks,
    }


def _fingerprint(tables: Checked, stamps: list[Any]) -> str:
    """Return a digest of everything that the result depends on."""
    parts = {
        "version": _PASSES_VERSION,
        "stamps": stamps,
        "nodes": [_fields(one) for one in tables.nodes.values()],
        "edges": [_fields(one) for _, one in tables.edge_tables()],
        "items": [_fields(one) for one in tables.items],
        "options": asdict(tables.options),
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _fields(one: Any) -> list[Any]:
    return [[name, _field(value)] for name, value in vars(one).items()]


def _field(value: Any) -> Any:
    if isinstance(value, Table):
        columns = [(name, str(column.dtype), column.shape) for name, column in value.columns.items()]
        return [value.name, value.identity, columns, value.num_rows]
    return list(map(list, value.items())) if isinstance(value, Mapping) else value
