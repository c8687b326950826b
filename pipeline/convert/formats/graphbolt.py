"""On-disk data sets of GraphBolt: ``metadata.yaml`` with CSV, ``.npy`` and their tasks, or what GraphBolt made of them.

Sets become the items "train", "val" and "test", with the name of the task before them where there are several; the
notes keep names and other fields of tasks, such as ``num_classes``, and fields of features that GraphBolt does not
know. Edge attributes for sampling (``graph.feature_data``) stay with their edges, which they do not in GraphBolt 2.1;
of nodes they are features, but times are times. Of a folder ``preprocessed`` the graph is read as
`headrace.pipeline.convert.formats.graphbolt_graph` has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.description import Columns, Description, EdgeTable, EdgeType, Items, NodeTable
from headrace.pipeline.convert.formats.fields import Fields
from headrace.pipeline.convert.formats.graphbolt_graph import SamplingGraph
from headrace.pipeline.convert.formats.source_files import (
    PICKLES,
    array_table,
    holds_objects,
    inside,
    refuse_outside,
    text_of,
)
from headrace.pipeline.convert.formats.views import Beside
from headrace.pipeline.convert.formats.yaml_text import parse_yaml
from headrace.pipeline.convert.table import Table

_SETS = {"train_set": "train", "validation_set": "val", "test_set": "test"}
_SEEDS = ("seeds", "seed_nodes", "node_pairs")
_TIMES = ("time", "timestamp", "timestamps", "__timestamp__")

#: Fields of metadata.yaml, and of features; there may be others, which are the user's own.
_TOP = ("dataset_name", "graph", "feature_data", "tasks")
_OF_FEATURES = ("domain", "type", "name", "format", "path", "in_memory")

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
    is_preprocessed = not graph_fields and "graph_topology" in top.value
    folder = folder.absolute().parent if is_preprocessed else folder  # paths begin with preprocessed/
    graph = Fields(graph_fields, f"{path}, graph", ("nodes", "edges", "feature_data", "edge_type"))
    of_graph, beside = graph.each("feature_data"), top.each("feature_data")
    attributes, features = _features(of_graph, folder), _features(beside, folder)
    nodes: dict[str | None, int | None]
    if is_preprocessed:
        sampled = SamplingGraph(_topology(top, folder))
        nodes = {**sampled.num_nodes}
        edges = [_preprocessed_edges(name, sampled, features, str(path)) for name in sampled.edges]
    else:
        nodes = {one.maybe("type", str): one.take("num", int) for one in graph.each("nodes", ("type", "num"))}
        edges = [_edges(one, folder, attributes, features) for one in graph.each("edges", ("type", "format", "path"))]
    tables = [_nodes(name, count, attributes, features, str(path)) for name, count in nodes.items()]
    left = [key for found in (attributes, features) for key in found]
    if left:
        raise InputError(f"convert: {path}: expected features of types of the graph, got some of {left[0]}")
    tasks = top.each("tasks")
    items = [one for task in tasks for one in _items(task, folder, prefix=len(tasks) > 1)]
    known = [{name: value for name, value in task.value.items() if name not in _SETS} for task in tasks]
    own_fields = [fields for one in [*of_graph, *beside] if (fields := _own_fields(one))]
    notes = {"features": own_fields} if own_fields else {}
    return Description(edges, tables, items, tasks=[one for one in known if one], notes=notes)


Features = dict[tuple[str, Any], dict[str, list[Path]]]


def _own_fields(one: Fields) -> dict[str, Any]:
    """Return the fields of a feature that are the user's own, with its name; nothing if there are none."""
    own = {name: value for name, value in one.value.items() if name not in _OF_FEATURES}
    named = {name: one.value[name] for name in ("domain", "type", "name") if name in one.value}
    return {**named, **own} if own else {}


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
        # Ids are numbers below num: a header, or any other text, is refused with its row.
        table: Table = CsvTable(inside(folder, path), names=["src", "dst"], types={"src": "int", "dst": "int"})
    elif form == "numpy":
        files = inside(folder, path)
        table = array_table({"src": (files, 0), "dst": (files, 1)})
    else:
        _refuse_objects(form, path, folder)
        raise InputError(f"convert: {one.what}: expected format: csv or numpy, got {form!r}")
    own = attributes.pop(("edge", edge_type), {})
    beside = features.pop(("edge", edge_type), {})
    columns = {**{f"feature {name}": files for name, files in beside.items()}, **own}
    if columns:
        table = Beside([table, array_table(columns)])
    return _edge_table(table, edge_type, own, beside, one.what)


def _edge_table(
    table: Table, edge_type: EdgeType | None, own: dict[str, list[Path]], beside: dict[str, list[Path]], what: str
) -> EdgeTable:
    """Return edges with their own attributes, and with features beside them, whose columns begin with "feature"."""
    time = next((name for name in own if name in _TIMES), None)
    wide = [name for name in own if name != time and table.column(name).shape]
    flat = {name: name for name in own if name != time and name not in wide}
    named: dict[str, Columns] = {name: f"feature {name}" for name in beside}
    named |= {name: name for name in _apart(wide, own, beside, "edges", what)}
    return EdgeTable(table, edge_type, "src", "dst", flat, named, None, time)


def _topology(top: Fields, folder: Path) -> Path:
    """Return the file of a graph that GraphBolt has preprocessed."""
    topology = Fields(top.take("graph_topology", dict), f"{top.what}, graph_topology", ("type", "path"))
    path = folder / topology.take("path", str)
    refuse_outside(path, folder)
    if not path.is_file():
        raise InputError(
            f"convert: expected the graph in {path}, but there is none; convert the folder above, {folder}, with the "
            "files as given"
        )
    return path


def _preprocessed_edges(name: str | None, graph: SamplingGraph, features: Features, what: str) -> EdgeTable:
    edge_type = None if name is None else _edge_type(name, what)
    beside = features.pop(("edge", edge_type), {})
    table: Table = graph.edges[name]
    if beside:
        table = Beside([table, array_table({f"feature {one}": files for one, files in beside.items()})])
    return _edge_table(table, edge_type, {one: [graph.path] for one in graph.attributes}, beside, what)


def _nodes(name: str | None, count: int | None, attributes: Features, features: Features, what: str) -> NodeTable:
    own = attributes.pop(("node", name), {})
    beside = features.pop(("node", name), {})
    of_type = "node" if name is None else name
    if not own and not beside:
        return NodeTable(of_type, num_nodes=count)
    table = array_table({**{f"attribute {one}": files for one, files in own.items()}, **beside})
    columns = {**{one: f"attribute {one}" for one in own}, **{one: one for one in beside if one not in own}}
    of_times = next((one for one in columns if one in _TIMES and not table.column(columns[one]).shape), None)
    left = [one for one in own if one != of_times]
    named: dict[str, Columns] = {one: one for one in beside if one != of_times or one in own}
    named |= {one: f"attribute {one}" for one in _apart(left, own, beside, "nodes", what)}
    time = None if of_times is None else columns[of_times]
    return NodeTable(of_type, table, None, count, False, named, {}, time)


def _apart(
    names: Sequence[str], own: dict[str, list[Path]], beside: dict[str, list[Path]], of: str, what: str
) -> list[str]:
    """Return the attributes that become features, without those that are features already.

    Raises
    ------
    InputError
        If a feature of the same name has another array.
    """
    for name in names:
        if beside.get(name, own[name]) != own[name]:
            raise InputError(
                f"convert: {what}: expected features of {of} of different names, got {name!r} from "
                f"{own[name][0].name} and {beside[name][0].name}; give one of them another name"
            )
    return [name for name in names if name not in beside]


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
            if len(names) != 1:
                raise InputError(f"convert: {one.what}: expected one of {_SEEDS} and labels, got {list(entries)}")
            left_out = [name for name in entries if name not in known]
            if left_out:
                warn_user(
                    f"convert: {one.what}: left out {', '.join(map(repr, left_out))}; items have seeds, labels and "
                    "times: keep other arrays, whose rows are in the order of the items, beside the data set"
                )
            files = {name: _array(entry, folder) for name, entry in entries.items() if name in known}
            yield _items_of(own + ours, one, names[0], files)


def _items_of(name: str, one: Fields, seeds: str, files: dict[str, list[Path]]) -> Items:
    text = one.maybe("type", str)
    kind: str | EdgeType | None = _edge_type(text, one.what) if text is not None and ":" in text else text
    ids = files.pop(seeds)
    width = array_table({"ids": ids}).column("ids").shape
    columns: dict[str, Any] = {"ids": ids} if not width else {"src": (ids, 0), "dst": (ids, 1)}
    if width not in ((), (2,)):
        raise InputError(f"convert: {one.what}: expected seeds [n] or [n, 2], got rows of {list(width)}")
    time = next((extra for extra in files if extra in _TIMES), None)
    labels = "labels" if "labels" in files else None
    return Items(name, array_table({**columns, **files}), list(columns) if width else "ids", kind, labels, time)


def _edge_type(name: str, what: str) -> EdgeType:
    parts = re.split(r":", name)
    if len(parts) != 3 or not all(parts):
        raise InputError(f"convert: {what}: expected an edge type such as user:buys:item, got {name!r}")
    return parts[0], parts[1], parts[2]
