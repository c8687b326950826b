"""What the commands `info`, `head` and `verify` do: look at a data set."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.cli.cut_dataset import text_of_feature
from headrace.pipeline.cli.parser import answer, meant, say
from headrace.pipeline.data import FeatureName, TypeName, TypeOffsets, edge_types_of, node_types_of, whole_number
from headrace.pipeline.data.type_attributes import ALWAYS, always_in, value_without
from headrace.pipeline.storage.dataset.contents import PART_SET, holds_parts
from headrace.pipeline.storage.dataset.dataset import Dataset, check_as_written
from headrace.pipeline.storage.dataset.files import ArrayFile
from headrace.pipeline.storage.dataset.folder_writer import num_bytes
from headrace.pipeline.storage.dataset.manifest import arrays_of
from headrace.pipeline.storage.dataset.open_dataset import open_dataset
from headrace.pipeline.storage.features import FeatureSources
from headrace.pipeline.storage.parts.part_set import PartSet

#: Of a row with many numbers, those that are shown; edges that are looked through at a time for those of a type.
SHOWN_NUMBERS, EDGES_AT_A_TIME = 4, 1 << 20


def info(options: argparse.Namespace) -> None:
    """Say what a data set holds, or the parts of one.

    Raises
    ------
    InputError
        If the folder holds no data set.
    """
    if holds_parts(options.folder):
        _info_of_parts(options)
        return
    data = open_dataset(options.folder)
    inside = [one.parent for one in data.path.glob(f"**/{PART_SET}")] if data.part is None else []
    parts = sorted(str(one.relative_to(data.path)) for one in inside if holds_parts(one))
    text = [data.info(), *(f"  parts: {one}" for one in parts)]
    if data.notes:
        text.append(f"  notes on {', '.join(data.notes)}: --json has them")
    num = sum(map(num_bytes, arrays_of(data.manifest)))
    fields = {"folder": str(data.path), "bytes": num, "parts": parts, **asdict(data.manifest)}
    answer(fields, "\n".join(text), as_json=options.json)


def _info_of_parts(options: argparse.Namespace) -> None:
    parts = PartSet.read(options.folder)
    lines = [f"{options.folder}: {parts.num_parts} parts of {parts.num_nodes:,} nodes, {parts.num_edges:,} edges"]
    lines += [f"  {one.folder}: {one.num_own:,} nodes, {one.num_edges:,} edges" for one in parts.parts]
    lines.append(f"  owners: {parts.owners.kind}" + (f", of edges on a grid of {parts.grid}" if parts.grid else ""))
    lines += [f"  read whole by every rank: {one.of} feature {text_of_feature(one.key)}" for one in parts.features]
    lines += [f"  {name}: {sum(run.ids.shape[0] for run in runs):,} items" for name, runs in parts.items.items()]
    absent = [one.folder for one in parts.parts if not (options.folder / one.folder).exists()]
    if absent:
        lines.append(f"  not here: {', '.join(absent)}")
    answer({"folder": str(options.folder), **asdict(parts), "absent": absent}, "\n".join(lines), as_json=options.json)


def verify(options: argparse.Namespace) -> None:
    """Compare all files of a data set, or of those of its parts that are here, with their checksums.

    Raises
    ------
    InputError
        If a file is not the one that was written.
        If an id of the graph is out of range.
    """
    arrays, parts, absent = dict[str, ArrayFile](), list[str](), list[str]()
    if holds_parts(options.folder):
        described = PartSet.read(options.folder)
        arrays = {one.file: one for one in arrays_of(described)}
        check_as_written(options.folder, arrays.values())
        for rank, one in enumerate(described.parts):
            if (options.folder / one.folder).exists():
                arrays |= _verified(open_dataset(options.folder, rank=rank), arrays)
                parts.append(one.folder)
            else:
                absent.append(one.folder)
    else:
        data = open_dataset(options.folder)
        parts = [] if data.part is None else [f"part-{data.part.number}"]
        arrays = _verified(data, {})
    unsigned = [name for name, one in arrays.items() if one.sha256 is None]
    num, folder = sum(map(num_bytes, arrays.values())), options.folder.resolve()
    fields = {"folder": str(folder), "arrays": len(arrays), "bytes": num, "without_checksum": unsigned}
    text = f"{folder}: {len(arrays)} arrays of {num:,} bytes are as they were written"
    text += f"; without a checksum: {', '.join(unsigned)}" if unsigned else ""
    text += f"; not here: {', '.join(absent)}" if absent else ""
    answer({**fields, "parts": parts, "absent": absent}, text, as_json=options.json)


def _verified(data: Dataset, seen: Mapping[str, ArrayFile]) -> dict[str, ArrayFile]:
    """Compare the arrays of a data set or a part, but for those seen before, with their checksums; return them."""
    own = {one.file: one for one in arrays_of(data.manifest) if one.file not in seen}
    check_as_written(data.path, own.values())
    data.graph.content_digest()
    return own


def head(options: argparse.Namespace) -> None:
    """Show the first nodes, edges and items; edges in the order of their destinations.

    Raises
    ------
    InputError
        If there is no such type, or the folder holds no data set.
    """
    count = whole_number(options.count, "--count", 1, InputError)
    data = None if holds_parts(options.folder) else open_dataset(options.folder)
    if data is None or data.part is not None:
        raise InputError(
            f"head: expected a data set, got {'the parts' if data is None else 'a part'} of one in {options.folder}; "
            "name the data set"
        )
    nodes, edges = node_types_of(data.graph), edge_types_of(data.graph)
    known: dict[str, TypeName] = {_text(name): name for name in (*nodes.names, *edges.names)}
    if options.type is not None and options.type not in known:
        raise InputError(
            f"--type: expected one of {', '.join(known)}, got {options.type!r}{meant(options.type, known)}"
        )
    wanted = list(known.values()) if options.type is None else [known[options.type]]
    found = {
        "nodes": {_text(name): _nodes(data, nodes, name, count) for name in nodes.names if name in wanted},
        "edges": {_text(name): _edges(data, nodes, edges, name, count) for name in edges.names if name in wanted},
        "items": {
            f"{items} of {_text(name)}": rows
            for items in data.items
            for name, rows in _items(data, nodes, items, count)
            if name in wanted
        },
    }
    if options.json:
        answer(found, "", as_json=True)
        return
    for what, by_name in found.items():
        for name, rows in by_name.items():
            order = ", in the order of their destinations" if what == "edges" else ""
            say(f"{what} {'' if what == 'items' else 'of '}{name}{order}:")
            _say_table(rows)


def _nodes(data: Dataset, types: TypeOffsets, name: TypeName, count: int) -> list[dict[str, Any]]:
    of_type = types.id_range(name)
    ids = torch.arange(min(count, len(of_type)), device="cpu")
    attributes = {key: rows[of_type.start + ids] for key, rows in data.graph.node_attrs.items()}
    columns = {**attributes, **_features(data.store.node, name, ids, of_type.start)}
    return _rows({"id": _external(data, name, ids)}, columns)


def _edges(data: Dataset, nodes: TypeOffsets, edges: TypeOffsets, name: TypeName, count: int) -> list[dict[str, Any]]:
    graph, of_type = data.graph, edges.id_range(name)
    positions = torch.cat([torch.empty(0, dtype=torch.int64, device="cpu"), *_positions(data, of_type, count)])[:count]
    ids = graph.original_edge_ids(positions).long() - of_type.start
    ends = {"source": graph.indices[positions].long()}
    ends["destination"] = torch.searchsorted(graph.indptr, positions, right=True) - 1
    if graph.node_ids is not None:
        ends = {what: graph.node_ids[of_end] for what, of_end in ends.items()}
    shown: dict[str, list[Any]] = {"edge": ids.tolist()}
    for what, of_end in ends.items():
        shown[what] = [_external(data, *_within(nodes, int(one)))[0] for one in of_end]
    attributes = {key: rows[positions] for key, rows in graph.edge_attrs_csc.items()}
    return _rows(shown, {**attributes, **_features(data.store.edge, name, ids, of_type.start)})


def _positions(data: Dataset, of_type: range, count: int) -> Iterator[Tensor]:
    """Yield the places of the first edges of a type, in the order of their destinations."""
    found = 0
    for start in range(0, data.graph.num_edges, EDGES_AT_A_TIME):
        places = torch.arange(start, min(start + EDGES_AT_A_TIME, data.graph.num_edges), device="cpu")
        ids = data.graph.original_edge_ids(places)
        own = places[(ids >= of_type.start) & (ids < of_type.stop)]
        yield own
        found += len(own)
        if found >= count:
            return


def _items(
    data: Dataset, nodes: TypeOffsets, items: str, count: int
) -> Iterator[tuple[TypeName, list[dict[str, Any]]]]:
    given = data.items[items]
    by_type = given.ids if isinstance(given.ids, dict) else {None: given.ids}
    for name, all_ids in by_type.items():
        columns: dict[str, Tensor] = {}
        for what, rows in (("label", given.labels), ("time", given.times)):
            own = rows if name is None or rows is None else rows[name]
            columns |= {} if own is None else {what: own[:count]}
        ids = all_ids[:count].long()
        if ids.ndim == 1:
            node_type = nodes.names[0] if name is None else name
            yield node_type, _rows({"id": _external(data, node_type, ids)}, columns)
            continue
        ends = [name[0], name[2]] if isinstance(name, tuple) else [nodes.names[0]] * ids.shape[1]
        words = ["source", "destination"] if ids.shape[1] == 2 else [f"node {place}" for place in range(ids.shape[1])]
        shown = {
            word: _external(data, end, ids[:, place]) for place, (word, end) in enumerate(zip(words, ends, strict=True))
        }
        yield edge_types_of(data.graph).names[0] if name is None else name, _rows(shown, columns)


def _features(sources: FeatureSources, name: TypeName, ids: Tensor, first: int) -> dict[str, Tensor]:
    """Return the rows of the features that nodes or edges of a type have."""
    found = {}
    key: FeatureName
    for key in sources:
        if isinstance(key, str) or key[0] == name:
            own, wanted = (key, ids + first) if isinstance(key, str) else (key[1], ids)
            found[own] = sources.in_contract(key).read(wanted).rows
    return found


def _within(nodes: TypeOffsets, node: int) -> tuple[TypeName, Tensor]:
    name = next(name for name in nodes.names if node in nodes.id_range(name))
    return name, torch.tensor([node - nodes.id_range(name).start], device="cpu")


def _external(data: Dataset, name: TypeName, ids: Tensor) -> list[Any]:
    """Return the users' ids of nodes, or their numbers within the type."""
    own = data.ids.get(name) if isinstance(name, str) else None
    external = ids if own is None else own.external(ids)
    return external if isinstance(external, list) else external.tolist()


def _rows(shown: dict[str, list[Any]], columns: dict[str, Tensor]) -> list[dict[str, Any]]:
    """Return rows by the names of their columns."""
    lists: dict[str, list[Any]] = shown | {name: _values(name, rows) for name, rows in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _values(name: str, rows: Tensor) -> list[Any]:
    """Return the values of rows; None for times of what has always been there."""
    earliest = always_in(rows.dtype) if value_without(name) == ALWAYS and rows.ndim == 1 else None
    return [None if earliest is not None and row.item() == earliest else _value(row) for row in rows]


def _value(row: Tensor) -> Any:
    """Return a number, or the first of a row of many."""
    flat = (row.double() if row.is_floating_point() else row).reshape(-1).tolist()
    flat = [float(f"{one:.6g}") if isinstance(one, float) else one for one in flat[: SHOWN_NUMBERS + 1]]
    if row.ndim == 0:
        return flat[0]
    return flat if len(flat) <= SHOWN_NUMBERS else [*flat[:SHOWN_NUMBERS], "..."]


def _say_table(rows: list[dict[str, Any]]) -> None:
    if not rows:
        say("  none")
        return
    texts = [list(rows[0]), *([_cell(one) for one in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        say("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)


def _text(name: TypeName) -> str:
    return name if isinstance(name, str) else ",".join(name)
