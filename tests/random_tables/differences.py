"""How a data set differs from the answer: the first row of each array that does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from random_tables.answer import Answer, ItemRows, in_csc_order
from random_tables.cells import FLOATS, added_value
from random_tables.described import ends_of
from random_tables.tables import EARLIEST, Mark, Numbers


def differences(data: Any, answer: Answer) -> Iterator[str]:
    """Yield what differs, nodes first."""
    yield from _nodes(data, answer)
    yield from _edges(data, answer)
    yield from _attributes(data, answer)
    yield from _features(data, answer)
    yield from _items(data, answer)
    yield from _notes(data, answer)


def _nodes(data: Any, answer: Answer) -> Iterator[str]:
    wanted = {name: len(nodes.order) for name, nodes in answer.nodes.items()}
    if set(data.ids) != set(wanted):
        yield f"types of nodes: expected {list(wanted)}, got {list(data.ids)}"
        return
    for name, nodes in answer.nodes.items():
        ids = data.ids[name]
        if len(ids) != len(nodes.order):
            yield f"nodes of {name}: expected {len(nodes.order)}, got {len(ids)}"
            continue
        external = ids.external(list(range(len(ids)))) if len(ids) else []
        external = external if isinstance(external, list) else external.tolist()
        yield from _first(f"ids of {name}", nodes.order, external)
        if nodes.order and external == nodes.order:
            yield from _first(f"numbers of ids of {name}", list(range(len(ids))), ids.ours(external).tolist())


def _edges(data: Any, answer: Answer) -> Iterator[str]:
    graph = data.graph
    if None not in answer.edges and graph.edge_types.names != tuple(answer.edges):
        yield f"types of edges: expected {list(answer.edges)}, got {graph.edge_types.names}"
    starts, start = {}, 0
    for name, nodes in answer.nodes.items():
        starts[name] = start
        start += len(nodes.order)
    ends = [
        tuple(starts[end] + node for end, node in zip(ends_of(kind), pair, strict=True))
        for kind, edges in answer.edges.items()
        for pair in edges.ends
    ]
    order = in_csc_order(answer)
    indptr = torch.as_tensor(graph.indptr)
    dst = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.long().diff()).tolist()
    ids = range(len(dst)) if graph.edge_ids is None else graph.edge_ids.tolist()
    got = list(zip(dst, ids, graph.indices.tolist(), strict=True))
    wanted = [(ends[edge][1], edge, ends[edge][0]) for edge in order]
    yield from _first("edges in CSC order (destination, id, source)", wanted, got)


def _attributes(data: Any, answer: Answer) -> Iterator[str]:
    graph = data.graph
    for what, attrs, by_name, types in (
        ("edges", graph.edge_attrs, answer.edge_attrs, {one: len(edges.ends) for one, edges in answer.edges.items()}),
        ("nodes", graph.node_attrs, answer.node_attrs, {one: len(nodes.order) for one, nodes in answer.nodes.items()}),
    ):
        if set(attrs) != set(by_name):
            yield f"attributes of {what}: expected {sorted(by_name)}, got {sorted(attrs)}"
        for name in set(attrs) & set(by_name):
            absent = EARLIEST if name == "time" else 1
            values: list[Any] = []
            dtypes: list[frozenset[str] | None] = []
            for one, count in types.items():
                rows = by_name[name].get(one, Numbers([absent] * count))
                values += rows.values
                dtypes += [rows.dtypes] if rows.values else []
            same = dtypes[0] if dtypes and len(set(dtypes)) == 1 else None
            yield from _rows(f"attribute {name} of {what}", Numbers(values, same), attrs[name])


def _features(data: Any, answer: Answer) -> Iterator[str]:
    stores = {"node": data.store.node, "edge": data.store.edge}
    for (of, owner, name), rows in answer.features.items():
        key = name if owner in (None, "node") else (owner, name)
        if key not in stores[of]:
            yield f"feature {key} of {of}s: not there"
            continue
        source = stores[of][key]
        yield from _rows(f"feature {key} of {of}s", rows, source.read(torch.arange(source.num_rows)).rows)
    wanted = {(of, name if owner in (None, "node") else (owner, name)) for of, owner, name in answer.features}
    if more := {(of, name) for of, store in stores.items() for name in store} - wanted:
        yield f"features: not expected {sorted(map(str, more))}"


def _items(data: Any, answer: Answer) -> Iterator[str]:
    wanted = {name: runs for name, runs in answer.items.items() if any(one.ids for one in runs.values())}
    got = {name: items for name, items in data.items.items() if len(items)}
    if set(got) != set(wanted):
        yield f"names of items: expected {sorted(wanted)}, got {sorted(got)}"
    for name in sorted(set(got) & set(wanted)):
        items = got[name]
        runs: Mapping[Any, ItemRows] = {kind: one for kind, one in wanted[name].items() if one.ids}
        by_type = {field: getattr(items, field) for field in ("ids", "labels", "times")}
        if not isinstance(items.ids, Mapping):
            by_type = {field: value if value is None else {None: value} for field, value in by_type.items()}
            runs = dict(zip([None], runs.values(), strict=True))
        for kind, run in runs.items():
            what = f"items {name} of {kind}"
            ids = by_type["ids"].get(kind)
            if ids is None:
                yield f"{what}: not there"
                continue
            as_tuples = [tuple(one) if isinstance(one, list) else one for one in torch.as_tensor(ids).tolist()]
            yield from _first(what, run.ids, as_tuples)
            for field in ("labels", "times"):
                rows, given = getattr(run, field), by_type[field] and by_type[field].get(kind)
                if (rows is None) != (given is None):
                    yield f"{what}: expected {'no' if rows is None else 'some'} {field}"
                elif rows is not None:
                    yield from _rows(f"{field} of {what}", rows, given)


def _notes(data: Any, answer: Answer) -> Iterator[str]:
    notes = data.notes
    if dict(notes["counts"]) != answer.counts:
        yield f"counts: expected {answer.counts}, got {dict(notes['counts'])}"
    if notes["options"]["time_unit"] != answer.time_unit:
        yield f"unit of times: expected {answer.time_unit}, got {notes['options']['time_unit']}"
    got = {
        (source["files"][0]["file"].rpartition("/")[2], name): classes
        for source in notes["sources"]
        for name, classes in source.get("classes", {}).items()
    }
    for key, classes in answer.classes.items():
        yield from _first(f"classes of {key}", classes, got.get(key, []))
    if more := set(got) - set(answer.classes):
        yield f"classes: not expected {more}"


def _first(what: str, wanted: Sequence[Any], got: Sequence[Any]) -> Iterator[str]:
    """Yield the first place where two lists differ."""
    if len(wanted) != len(got):
        yield f"{what}: expected {len(wanted)}, got {len(got)}"
    for place, (one, other) in enumerate(zip(wanted, got, strict=False)):
        if one != other or type(one) is not type(other):
            yield f"{what}, {place}: expected {one!r}, got {other!r}"
            return


def _rows(what: str, wanted: Numbers, got: Any) -> Iterator[str]:
    """Yield the first row of an array that is none of those that the numbers may become."""
    got = torch.as_tensor(got)
    dtype = str(got.dtype).removeprefix("torch.")
    if wanted.values and wanted.dtypes is not None and dtype not in wanted.dtypes:
        yield f"{what}: expected {' or '.join(sorted(wanted.dtypes))}, got {dtype}"
    rows = got.tolist() if got.dtype != torch.float16 else got.double().tolist()
    if len(rows) != len(wanted.values):
        yield f"{what}: expected {len(wanted.values)} rows, got {len(rows)}"
        return
    width = wanted.width
    if rows and got.shape[1:] != (() if width is None else (width,)):
        yield f"{what}: expected rows of {width or 'one number'}, got the shape {tuple(got.shape)}"
        return
    for place, (value, row) in enumerate(zip(wanted.values, rows, strict=True)):
        values = value if isinstance(value, tuple) else [value] * (1 if width is None else width)
        row_values = row if width is not None else [row]
        is_exact = wanted.dtypes is None
        if not all(
            is_value(one, other, dtype, is_exact=is_exact) for one, other in zip(values, row_values, strict=True)
        ):
            yield f"{what}, row {place}: expected {', '.join(map(str, values))}, got {row} ({dtype})"
            return


def is_value(wanted: Any, got: Any, dtype: str, *, is_exact: bool) -> bool:
    """Whether a number of a dtype is the wanted one, or the nearest that the dtype has."""
    if isinstance(wanted, Mark):
        wanted = added_value(wanted, dtype)
    if isinstance(wanted, float) and (math.isnan(wanted) or math.isinf(wanted)):
        return got == wanted or (math.isnan(wanted) and got != got)  # noqa: PLR0124
    if dtype not in FLOATS:
        return Fraction(wanted) == int(got)
    if got != got:  # noqa: PLR0124
        return False
    if wanted == 0:
        return got == 0 and math.copysign(1, got) == math.copysign(1, float(wanted))
    exact = Fraction(wanted)
    if is_exact and isinstance(wanted, int):
        return not math.isinf(got) and Fraction(got) == exact
    return got in nearest(wanted, exact, dtype)


def nearest(wanted: Any, exact: Fraction, dtype: str) -> set[float]:
    """The numbers of a dtype that are nearest to one, also by way of float64."""
    try:
        double = float(wanted)
    except OverflowError:
        double = math.copysign(math.inf, wanted)
    if dtype == "float64":
        return {double}
    kind = np.dtype(dtype).type
    with np.errstate(over="ignore"):
        first = kind(double)
    around = [first, np.nextafter(first, kind(np.inf)), np.nextafter(first, kind(-np.inf))]
    finite = [float(one) for one in around if np.isfinite(one)]
    best = min((abs(Fraction(one) - exact) for one in finite), default=Fraction(0))
    return {float(first)} | {one for one in finite if abs(Fraction(one) - exact) == best}
