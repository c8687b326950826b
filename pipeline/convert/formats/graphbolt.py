"""On-disk data sets of GraphBolt before their preprocessing: ``metadata.yaml`` with CSV, ``.npy`` and their tasks.

Sets become the items "train", "val" and "test", with the name of the task before them where there are several; the
notes keep names and other fields of tasks, such as ``num_classes``. Edge attributes for sampling
(``graph.feature_data``) stay with their edges, which they do not in GraphBolt 2.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.ops.errors import InputError
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.description import Columns, Description, EdgeTable, EdgeType, Items, NodeTable
from headrace.pipeline.convert.formats.fields import Fields
from headrace.pipeline.convert.formats.source_files import PICKLES, holds_objects, inside, refuse_pickle, text_of
from headrace.pipeline.convert.formats.views import Beside
from headrace.pipeline.convert.formats.yaml_text import parse_yaml
from headrace.pipeline.convert.npy_table import NpyTable
from headrace.pipeline.convert.table import Table

_SETS = {"train_set": "train", "validation_set": "val", "test_set": "test"}
_SEEDS = ("seeds", "seed_nodes", "node_pairs")
_TIMES = ("time", "timestamp", "timestamps")

#: Fields of metadata.yaml, and of features; there may be others, which are the user's own.
_TOP = ("dataset_name", "graph", "feature_data", "tasks")
_OF_FEATURES = ("domain", "type", "name", "format", "path", "in_memory", "num_classes")

#: What is kept with a set that a data set does not have.
_NEGATIVES = ("negative_srcs", "negative_dsts", "indexes")


def read_graphbolt(folder: Path) -> Description:
    """Return the description of a folder with ``metadata.yaml``.

    Raises
    ------
    InputError
        If a field is missing or of another kind, or a file is missing, malformed, elsewhere, or a pickle.
    """
    path = folder / "metadata.yaml"
    top = Fields(parse_yaml(text_of(path), str(path)), str(path)).check_spelling(_TOP)
    graph_fields = top.take("graph", dict) if "graph" in top.value else {}
    if not graph_fields and "graph_topology" in top.value:
        refuse_pickle(
            "graph_topology.pt", f"convert the folder above it, {folder.absolute().parent}, with the files as given"
        )
    graph = Fields(graph_fields, f"{path}, graph", ("nodes", "edges", "feature_data", "edge_type"))
    nodes = {one.maybe("type", str): one.take("num", int) for one in graph.each("nodes", ("type", "num"))}
    attributes = _features(graph.each("feature_data"), folder)
    features = _features(top.each("feature_data"), folder)
    edges = [_edges(one, folder, attributes, features) for one in graph.each("edges", ("type", "format", "path"))]
    tables = [_nodes(name, count, attributes, features) for name, count in nodes.items()]
    left = [key for found in (attributes, features) for key in found]
    if left:
        raise InputError(f"convert: {path}: expected features of types of the graph, got some of {left[0]}")
    tasks = top.each("tasks")
    items = [one for task in tasks for one in _items(task, folder, prefix=len(tasks) > 1)]
    known = [{name: value for name, value in task.value.items() if name not in _SETS} for task in tasks]
    return Description(edges, tables, items, tasks=[one for one in known if one])


Features = dict[tuple[str, Any], dict[str, list[Path]]]


def _features(entries: list[Fields], folder: Path) -> Features:
    """Return the files of features by domain and type."""
    found: Features = {}
    for one in entries:
        one.check_spelling(_OF_FEATURES)
        domain = one.take("domain", str)
        if domain not in ("node", "edge"):
            raise InputError(f"convert: {one.what}: expected features of nodes or edges, got those of a {domain}")
        name = one.maybe("type", str)
        key = (domain, name if name is None or domain == "node" else _edge_type(name, one.what))
        found.setdefault(key, {})[one.take("name", str)] = _array(one, folder)
    return found


def _array(one: Fields, folder: Path) -> list[Path]:
    form, path = one.take("format", str), one.take("path", str)
    if form != "numpy":
        _refuse_objects(form, path, folder)
        raise InputError(f"convert: {one.what}: expected format: numpy, got {form!r}; write numpy.save(path, array)")
    return inside(folder, path)


def _refuse_objects(form: str, path: str, folder: Path) -> None:
    """Refuse tensors of torch, with the code that writes them as an array."""
    if form == "torch" or path.lower().endswith(PICKLES):
        array = Path(path).with_suffix(".npy").as_posix()
        read, write = str(folder / path), str(folder / array)
        raise holds_objects(
            f"{path} (format: {form})",
            f"write numpy.save({write!r}, torch.load({read!r}, weights_only=True).numpy()), and in metadata.yaml "
            f"format: numpy, path: {array}",
        )


def _edges(one: Fields, folder: Path, attributes: Features, features: Features) -> EdgeTable:
    name = one.maybe("type", str)
    edge_type = None if name is None else _edge_type(name, one.what)
    form, path = one.take("format", str), one.take("path", str)
    if form == "csv":
        table: Table = CsvTable(inside(folder, path), names=["src", "dst"])
    elif form == "numpy":
        files = inside(folder, path)
        table = NpyTable({"src": (files, 0), "dst": (files, 1)})
    else:
        _refuse_objects(form, path, folder)
        raise InputError(f"convert: {one.what}: expected format: csv or numpy, got {form!r}")
    own = attributes.pop(("edge", edge_type), {})
    more = features.pop(("edge", edge_type), {})
    both = [name for name in own if name in more]
    columns = {**{f"feature {name}": file for name, file in more.items()}, **own}
    if columns:
        table = Beside([table, NpyTable(dict(columns))])
    time = next((name for name in own if name in _TIMES), None)
    rest = {name: name for name in own if name != time}
    if both:
        raise InputError(
            f"convert: {one.what}: expected an attribute or a feature {both[0]!r}, got both; leave one out"
        )
    wide = [name for name in rest if table.column(name).shape]
    named: dict[str, Columns] = {**{name: f"feature {name}" for name in more}, **{name: name for name in wide}}
    flat = {name: column for name, column in rest.items() if name not in wide}
    return EdgeTable(table, edge_type, "src", "dst", flat, named, None, time)


def _nodes(name: str | None, count: int, attributes: Features, features: Features) -> NodeTable:
    own = {**features.pop(("node", name), {}), **attributes.pop(("node", name), {})}
    of_type = "node" if name is None else name
    if not own:
        return NodeTable(of_type, num_nodes=count)
    table = NpyTable(dict(own))
    time = next((one for one in own if one in _TIMES and not table.column(one).shape), None)
    columns: dict[str, Columns] = {one: one for one in own if one != time}
    return NodeTable(of_type, table, None, count, False, columns, {}, time)


def _items(task: Fields, folder: Path, *, prefix: bool) -> Iterator[Items]:
    own = f"{task.maybe('name', str) or 'task'}." if prefix else ""
    for theirs, ours in _SETS.items():
        for one in task.each(theirs, ("type", "data")):
            entries = {entry.take("name", str): entry for entry in one.each("data")}
            odd = [name for name in entries if name in _NEGATIVES]
            if odd:
                raise InputError(
                    f"convert: {one.what}: expected seeds, labels and times, got {odd[0]!r}; leave it out of "
                    "metadata.yaml: negatives are drawn by sample_uniform_negative, or are pairs with labels"
                )
            names = [name for name in _SEEDS if name in entries]
            known = (*_SEEDS, "labels", *_TIMES)
            unknown = [name for name in entries if name not in known]
            if len(names) != 1 or unknown:
                raise InputError(f"convert: {one.what}: expected one of {_SEEDS} and labels, got {list(entries)}")
            yield _items_of(own + ours, one, names[0], {name: _array(entries[name], folder) for name in entries})


def _items_of(name: str, one: Fields, seeds: str, files: dict[str, list[Path]]) -> Items:
    text = one.maybe("type", str)
    kind: str | EdgeType | None = _edge_type(text, one.what) if text is not None and ":" in text else text
    ids = files.pop(seeds)
    width = NpyTable({"ids": ids}).column("ids").shape
    columns: dict[str, Any] = {"ids": ids} if not width else {"src": (ids, 0), "dst": (ids, 1)}
    if width not in ((), (2,)):
        raise InputError(f"convert: {one.what}: expected seeds [n] or [n, 2], got rows of {list(width)}")
    time = next((extra for extra in files if extra in _TIMES), None)
    labels = "labels" if "labels" in files else None
    return Items(name, NpyTable({**columns, **files}), list(columns) if width else "ids", kind, labels, time)


def _edge_type(name: str, what: str) -> EdgeType:
    parts = re.split(r":", name)
    if len(parts) != 3 or not all(parts):
        raise InputError(f"convert: {what}: expected an edge type such as user:buys:item, got {name!r}")
    return parts[0], parts[1], parts[2]
