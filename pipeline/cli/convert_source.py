"""What the command `convert` does."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import Any

from headrace.ops import InputError
from headrace.pipeline.cli.convert import ODD_ROWS, TABLES
from headrace.pipeline.cli.parser import answer
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.description import Description
from headrace.pipeline.convert.formats.described import description_of
from headrace.pipeline.convert.formats.source import read_source
from headrace.pipeline.convert.report import Report
from headrace.pipeline.data import TypeName

#: Fields of all tables in CSV.
CSV_FIELDS = ("separator", "comment", "skip", "null_values")

#: By section, the fields of columns with ids, and what these are by default.
_ID_COLUMNS: dict[str, list[tuple[str, str | None]]] = {
    "edges": [("src", "src"), ("dst", "dst")],
    "nodes": [("id", None)],
}


def convert(options: argparse.Namespace) -> None:
    """Convert, and print what was found, left out and added.

    Raises
    ------
    HeadraceError
        If what the options name is wrong, or a row is.
    OSError
        If the data set cannot be written.
    """
    given = _tables(options)
    alone = [one for one in (*CSV_FIELDS, "text_ids", "external") if getattr(options, one)]
    if alone and not given:
        raise InputError(
            f"expected --edges with --{alone[0].replace('_', '-')}, got a source that describes its tables; leave "
            "it out, or describe it there"
        )
    description = _described(options, given) if given else read_source(options.source)
    changes: dict[str, Any] = {field: value for field, *_ in ODD_ROWS if (value := getattr(options, field)) is not None}
    changes |= {name: True for name in ("reverse", "undirected") if getattr(options, name)}
    changes |= {} if options.time_unit is None else {"time_unit": options.time_unit}
    report = convert_tables(
        replace(description, options=replace(description.options, **changes)),
        options.folder,
        memory=options.memory,
        overwrite=options.overwrite,
        dry_run=options.dry_run,
    )
    answer(report_fields(report), str(report), as_json=options.json)


def _tables(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the fields of tables that options name, by section."""
    found: dict[str, dict[str, Any]] = {}
    for section, field, *_ in TABLES:
        value = getattr(options, f"{section}_{field}")
        if value is not None:
            found.setdefault(section, {})[field] = value
    return found


def _described(options: argparse.Namespace, given: dict[str, dict[str, Any]]) -> Description:
    for section, fields in given.items():
        if "files" not in fields:
            flags = [flag for one, field, flag, *_ in TABLES if one == section and field in fields]
            raise InputError(f"expected --{section} with {', '.join(flags)}: the files that have these columns")
    if "edges" not in given:
        raise InputError("expected --edges with --nodes: the files with the ends of edges")
    of_csv = {name: value for name in CSV_FIELDS if (value := getattr(options, name)) is not None}
    for fields in given.values():
        fields.update(of_csv)
    if options.text_ids:
        for section, columns in _ID_COLUMNS.items():
            names = [given[section].get(field, default) for field, default in columns] if section in given else []
            types = {name: "text" for name in names if name is not None}
            if types:
                given[section]["types"] = types
    if options.external:
        given.setdefault("nodes", {})["external"] = True
    if not options.source.is_dir():
        raise InputError(f"expected SOURCE to be the folder that --edges is in, got {options.source}")
    return description_of(given, options.source, "convert")


def report_fields(report: Report) -> dict[str, Any]:
    """Return a report in JSON."""
    fields = {**asdict(report), "folder": str(report.folder)}
    for what in ("nodes", "edges"):
        counts = getattr(report, what)
        fields[what] = {"edge" if name is None else _text(name): count for name, count in counts.items()}
    return fields


def _text(name: TypeName) -> str:
    return name if isinstance(name, str) else ",".join(name)
