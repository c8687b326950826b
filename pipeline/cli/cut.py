"""What the command `headrace partition` does: cut a graph in a data set or in NumPy files into parts on disk."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.ops.optional import require
from headrace.pipeline.cli.cut_dataset import node_features, owners_in, read_dataset, text_of_feature
from headrace.pipeline.cli.parser import answer, meant, say
from headrace.pipeline.convert.memory import MARGIN, maps_within, room
from headrace.pipeline.data import Graph, whole_number
from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.data.memory_size import as_memory
from headrace.pipeline.data.new_folder import check_file, check_is_free, free_bytes
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.limits import MOST_PARTS
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.partition.report import PICTURES, PartitionReport
from headrace.pipeline.storage.array_file import let_pages_go
from headrace.pipeline.storage.dataset.contents import PARTS, contents_of_parts, holds_dataset
from headrace.pipeline.storage.dataset.id_map import RowNumbers
from headrace.pipeline.storage.dataset.open_dataset import open_dataset
from headrace.pipeline.storage.dataset.reordered import reordered
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.graph_files import GraphFiles, read_graph_files
from headrace.pipeline.storage.parts.partition_dataset import cut_of
from headrace.pipeline.storage.parts.write_parts import WHAT, Cut, write_parts

#: How often `--method stream` places every node: more passes gain little.
STREAM_PASSES = 3

#: Bytes that are held for each node of a graph in files: owners, an order and marks, or the nodes of a part.
NODE_BYTES = 24

#: ... and for each edge of a part: its id.
EDGE_BYTES = 8

#: Of a graph that is cut by edges, what is found of the edges of a part, and for each node beside `NODE_BYTES`.
OWNED_EDGE_BYTES, NODE_BYTES_OF_EDGES = 64, 16


def cut(options: argparse.Namespace) -> None:
    """Cut, report, write.

    Raises
    ------
    HeadraceError
        If what the options name is wrong.
    ModuleNotFoundError
        If a method or the picture needs a library that is not installed.
    OSError
        If the parts cannot be written.
    """
    # First what can be refused before an hour's work.
    whole_number(options.parts, "--parts", 1, InputError, MOST_PARTS)
    whole_number(options.seed, "--seed", 0, InputError)
    if options.balance is not None and options.method != "metis":
        raise InputError(f"expected --method metis for --balance {options.balance}, got --method {options.method}")
    if options.balance_edges and options.method != "metis":
        raise InputError(f"expected --method metis for --balance-edges, got --method {options.method}")
    if not options.data.exists():
        raise InputError(f"{options.data}: there is no such file or folder; correct the path of DATA")
    of_dataset = holds_dataset(options.data)
    if options.owners is not None:
        options.method = "owners"
        if not of_dataset:
            raise InputError(
                f"expected a data set for --owners, got {options.data}; make one of it by headrace convert"
            )
    if options.out is None:
        if not of_dataset:
            raise InputError(
                f"expected a data set in {options.data}, whose parts have a place in it, got none; name OUT, the "
                "folder to make, or make a data set by headrace convert"
            )
        of_edges = "" if options.cut == "nodes" else f"-{options.cut}"
        options.out = options.data / PARTS / f"{options.method}{of_edges}-{options.parts}"
    check_is_free(options.out, overwrite=options.overwrite or options.dry_run, contents=contents_of_parts, what=WHAT)
    if options.report is not None:
        require("matplotlib", extra="plot", stage="--report")
        if options.report.suffix not in PICTURES:
            raise InputError(f"--report {options.report}: expected a name that ends in {', '.join(PICTURES)}")
        check_file(options.report, "--report", InputError, overwrite=True)
    memory = None if options.memory is None else as_memory(options.memory, "partition")
    if memory is not None:
        _check_is_in_files(options, of_dataset=of_dataset)
    with maps_within(memory):
        _cut(options, memory, of_dataset=of_dataset)


def _check_is_in_files(options: argparse.Namespace, *, of_dataset: bool) -> None:
    """Refuse what holds a graph in memory, of whatever size that is."""
    if options.method in ("metis", "louvain"):
        raise InputError(
            f"expected --method stream, hash or range for --memory, got {options.method}, which holds the graph in "
            "memory; leave out --memory, or take stream"
        )
    if options.reorder:
        raise InputError("expected no --reorder for --memory: the reordered graph is held in memory; leave out one")
    if not of_dataset:
        raise InputError(
            f"expected a data set for --memory, got {options.data}, of which arrays may be copied to memory; make a "
            "data set of it by headrace convert"
        )


def _cut(options: argparse.Namespace, memory: int | None, *, of_dataset: bool) -> None:
    tell = _nothing if options.json else say
    data = open_dataset(options.data) if of_dataset else None
    files = read_graph_files(options.data, options.features) if data is None else read_dataset(data, options)
    if memory is not None:
        let_pages_go()
        lists_edges = bool(files.store.edge or files.graph.edge_types)
        of_part = lists_edges * files.graph.num_edges * 5 // (4 * options.parts)
        room(memory, MARGIN + NODE_BYTES * files.graph.num_nodes + EDGE_BYTES * of_part, what="partition")
    if options.reorder and files.graph.node_types is not None:
        types = ", ".join(map(str, files.graph.node_types.names))
        raise InputError(
            f"expected no node types for --reorder, got {types} in {options.data}: these are ranges of ids, which an "
            "order would tear apart; leave out --reorder"
        )
    balance = None if options.balance is None else _balance(files, options.balance)
    whole = options.whole
    if of_dataset and whole is not None:
        whole = list(node_features(files.store, whole, "--whole"))
    for name, reason in files.left_out.items():
        if name != options.balance:
            tell(f"left out {name}: {reason}")
    if data is not None and options.owners is not None:
        owners = owners_in(data, options.owners)
        if int(owners.max()) >= options.parts:
            raise InputError(
                f"expected parts below --parts {options.parts} in --owners {options.owners}, got {int(owners.max())}; "
                f"write --parts {int(owners.max()) + 1}"
            )
        partition = Partition.of(owners, options.parts)
    else:
        partition = _partition(files, options, balance)
    edges = _edges(files.graph, partition, options)
    if memory is not None and edges is not None:
        of_nodes = (NODE_BYTES + NODE_BYTES_OF_EDGES) * files.graph.num_nodes
        room(memory, MARGIN + of_nodes + OWNED_EDGE_BYTES * max(edges.sizes), what="partition")
    report = (edges or partition).report(files.graph, balance)
    tell(repr(report))
    if options.report is not None:
        report.plot(options.report)
        tell(f"picture of it in {options.report}")
    if data is None:
        cut = Cut(files.graph, partition, files.store, whole, edges=edges)
    else:
        cut = cut_of(data, edges or partition, {*files.store.node, *files.store.edge}, whole)
    if options.reorder:
        cut = _reordered(cut, partition, options)
    num_bytes = cut.num_bytes()
    if not options.dry_run:
        write_parts(options.out, cut, overwrite=options.overwrite, progress=True)
    store = cut.store
    if options.json:
        answer({**_fields(options, files, report, store), "bytes": num_bytes}, "", as_json=True)
        return
    of_edges = f", and of edges {_listed(store.edge)}" if store.edge else ""
    features = f"with features {_listed(store.node) or 'none'}{of_edges}"
    if options.dry_run:
        say(f"would be {partition.num_parts} parts in {options.out}, {features}")
        say(f"{num_bytes:,} bytes, of {free_bytes(options.out):,} that are free")
        return
    say(f"{partition.num_parts} parts in {options.out}, {features}")
    if options.reorder:
        say('nodes have other numbers: data.ids["node"].ours(ids) returns them for your ids (or the old numbers)')
    if cut.edges is not None:
        say(f"plans do not read parts of edges yet: headrace.open_dataset({str(options.out)!r}, rank=0).graph has them")
        return
    say(f"next, in a script that torchrun starts with {partition.num_parts} ranks, after init_process_group:")
    say(f"data = headrace.open_dataset({str(options.out)!r})")


def _fields(
    options: argparse.Namespace, files: GraphFiles, report: PartitionReport, store: FeatureStore
) -> dict[str, Any]:
    """Return in JSON what was cut: counts of the parts, features, and what is left out."""
    return {
        "folder": str(options.out),
        "dry_run": options.dry_run,
        "method": options.method,
        "cut": options.cut,
        "num_nodes": report.num_nodes,
        "num_edges": report.num_edges,
        "parts": {name: counts.tolist() for name, counts in report.by_part.items()},
        "edges_cut": report.edges_cut,
        "features": {"node": [*map(text_of_feature, store.node)], "edge": [*map(text_of_feature, store.edge)]},
        "left_out": {name: reason for name, reason in files.left_out.items() if name != options.balance},
        "picture": None if options.report is None else str(options.report),
    }


def _nothing(text: str) -> None:
    """Print nothing."""


def _listed(keys: Iterable[FeatureName]) -> str:
    return ", ".join(map(text_of_feature, keys))


def _partition(files: GraphFiles, options: argparse.Namespace, balance: NDArray[Any] | None) -> Partition:
    graph, parts, seed = files.graph, options.parts, options.seed
    if options.method == "hash":
        return Partition.hash(graph.num_nodes, parts)
    if options.method == "range":
        return Partition.range(graph.num_nodes, parts)
    if options.method == "metis":
        return Partition.metis(graph, parts, balance=balance, balance_edges=options.balance_edges, seed=seed)
    if options.method == "louvain":
        return Partition.louvain(graph, parts, seed=seed)
    return Partition.stream(graph, parts, passes=STREAM_PASSES)


def _edges(graph: Graph, nodes: Partition, options: argparse.Namespace) -> EdgePartition | None:
    """Return the owners of edges, where these are cut."""
    kinds = {"source": EdgePartition.by_source, "destination": EdgePartition.by_destination, "grid": EdgePartition.grid}
    return None if options.cut == "nodes" else kinds[options.cut](graph, nodes)


def _reordered(cut: Cut, partition: Partition, options: argparse.Namespace) -> Cut:
    """Return what is cut in the order of the parts, whose owners are ranges then."""
    ids = cut.ids or {"node": RowNumbers(cut.graph.num_nodes)}
    graph, store, items, moved = reordered(cut.graph, cut.store, cut.items, ids, partition.order())
    notes = {**cut.notes, "order": {"by": f"partition, {options.method}", "of": options.data.resolve().name}}
    ranges = partition.ranges()
    edges = _edges(graph, ranges, options)
    return Cut(graph, ranges, store, cut.whole, items, moved, notes, cut.source, edges)


def _balance(files: GraphFiles, name: str) -> NDArray[Any]:
    if name not in files.arrays:
        near = meant(name, files.arrays)
        raise InputError(f"--balance {name}: there is no such array; the arrays are {sorted(files.arrays)}{near}")
    return files.arrays[name]
