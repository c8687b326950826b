"""The command `headrace partition`: cut a graph in NumPy files into shards on disk."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.optional import require
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.graph_files import GraphFiles, read_graph_files
from headrace.pipeline.storage.new_folder import check_is_free
from headrace.pipeline.storage.reordered_rows import ReorderedRows
from headrace.pipeline.storage.shard_meta import holds_shards
from headrace.pipeline.storage.write_shards import write_shards

if TYPE_CHECKING:
    from numpy.typing import NDArray

PICTURES = (".png", ".svg", ".pdf")
METHODS = ("hash", "range", "metis", "louvain", "stream")

#: How often `--method stream` places every node: more passes gain little.
STREAM_PASSES = 3

#: The node feature that leads from new ids to old ones.
ORIGINAL_ID = "original_id"

EPILOG = """
DATA holds indptr and indices, or edge_index, or src and dst; optionally num_nodes. Every other array with a row for
each node is a feature; x_indptr, x_indices, x_data and x_shape are a sparse one. Arrays of a folder stay on disk: with
indptr and int32 indices, graphs larger than memory can be cut by stream, hash and range.
"""


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    text = "cut a graph and its features into shards on disk, one for each rank"
    parser: argparse.ArgumentParser = commands.add_parser("partition", help=text, description=text, epilog=EPILOG)
    parser.add_argument("data", type=Path, metavar="DATA", help=".npz file, or folder of .npy files")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to make, for headrace.load_shards")
    parser.add_argument("--parts", type=int, required=True, metavar="P", help="number of shards, one for each rank")
    parser.add_argument("--method", choices=METHODS, default="hash", help="how to choose owners (default: %(default)s)")
    parser.add_argument(
        "--balance", metavar="NAME", help="mask or ids of nodes to share out evenly, by metis alone: train_mask"
    )
    parser.add_argument("--features", type=_names, metavar="NAME,...", help="features to take (default: all)")
    parser.add_argument(
        "--whole",
        type=_names,
        metavar="NAME,...",
        help="features that every rank reads whole (default: those of one number per node)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of metis and louvain (default: 0)")
    parser.add_argument(
        "--reorder",
        action="store_true",
        help=f"renumber nodes part by part, so that owners are ranges; the feature {ORIGINAL_ID} has the old ids "
        "(the reordered graph is held in memory)",
    )
    parser.add_argument("--report", type=Path, metavar="PICTURE", help="draw the report: .png, .svg or .pdf")
    parser.add_argument("--overwrite", action="store_true", help="replace shards that are at OUT")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Cut, report, write.

    Raises
    ------
    HeadraceError
        If what the options name is wrong.
    ModuleNotFoundError
        If a method or the picture needs a library that is not installed.
    OSError
        If the shards cannot be written.
    """
    # First what can be refused before an hour's work.
    if options.balance is not None and options.method != "metis":
        raise InputError(f"--balance {options.balance}: only --method metis balances; --method {options.method} came")
    check_is_free(options.out, overwrite=options.overwrite, replaceable=holds_shards)
    if options.report is not None:
        require("matplotlib", extra="plot", stage="--report")
        if options.report.suffix not in PICTURES:
            raise InputError(f"--report {options.report}: expected a name that ends in {', '.join(PICTURES)}")
    files = read_graph_files(options.data, options.features)
    if options.reorder and ORIGINAL_ID in files.store.node:
        raise InputError(f"--reorder: {options.data} has a feature {ORIGINAL_ID} already; leave it out by --features")
    balance = None if options.balance is None else _balance(files, options.balance)
    partition = _partition(files, options, balance)
    report = partition.report(files.graph, balance)
    _say(repr(report))
    if options.report is not None:
        report.plot(options.report)
        _say(f"picture of it in {options.report}")
    graph, store, whole = files.graph, files.store, options.whole
    if options.reorder:
        order = partition.order()
        graph, partition = graph.reordered(order), partition.ranges()
        store = _reordered(store, order)
        whole = None if whole is None else [*whole, ORIGINAL_ID]
    write_shards(
        options.out,
        graph,
        partition,
        store,
        whole=whole,
        overwrite=options.overwrite,
    )
    _say(f"{partition.num_parts} shards in {options.out}, with features {', '.join(map(str, store.node)) or 'none'}")
    _say(f"next, in a script that torchrun starts with {partition.num_parts} ranks, behind init_process_group:")
    _say(f"shards = headrace.load_shards({str(options.out)!r})")


def _partition(files: GraphFiles, options: argparse.Namespace, balance: NDArray[Any] | None) -> Partition:
    graph, parts, seed = files.graph, options.parts, options.seed
    if options.method == "hash":
        return Partition.hash(graph.num_nodes, parts)
    if options.method == "range":
        return Partition.range(graph.num_nodes, parts)
    if options.method == "metis":
        return Partition.metis(graph, parts, balance=balance, seed=seed)
    if options.method == "louvain":
        return Partition.louvain(graph, parts, seed=seed)
    return Partition.stream(graph, parts, passes=STREAM_PASSES)


def _reordered(store: FeatureStore, order: Tensor) -> FeatureStore:
    node = {name: ReorderedRows(source, order) for name, source in store.node.items()}
    return FeatureStore(node={**node, ORIGINAL_ID: order})


def _balance(files: GraphFiles, name: str) -> NDArray[Any]:
    if name not in files.arrays:
        raise InputError(f"--balance {name}: there is no such array; the arrays are {sorted(files.arrays)}")
    return files.arrays[name]


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _say(text: str) -> None:
    print(text)  # noqa: T201 - this is a command
