"""JSON files that describe graphs: of GraphStorm's construction, or of a graph that DGL has cut."""

from __future__ import annotations

from pathlib import Path

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Description
from headrace.pipeline.convert.formats.dgl_parts import is_dgl_partition, read_dgl_parts
from headrace.pipeline.convert.formats.gconstruct import read_gconstruct
from headrace.pipeline.storage.opened_files import parse_json, read_limited


def read_json(path: Path) -> Description:
    """Return the description in a JSON file, whose files are below its folder.

    Raises
    ------
    InputError
        If it is no JSON, a field is not read or of another kind, or a file is missing, malformed or elsewhere.
    """
    try:
        fields = parse_json(read_limited(path))
    except ValueError as cause:
        raise InputError(f"convert: expected JSON in {path}, but {cause}") from cause
    is_cut = isinstance(fields, dict) and is_dgl_partition(fields)
    return read_dgl_parts(fields, path) if is_cut else read_gconstruct(fields, path)
