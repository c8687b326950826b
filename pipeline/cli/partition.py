"""The command `headrace partition`: its options. What it does is loaded when it is run: help needs no torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from headrace.pipeline.cli.parser import add_json, names

METHODS = ("hash", "range", "metis", "louvain", "stream")

CUTS = ("nodes", "source", "destination", "grid")

EPILOG = """
DATA is a data set, or holds indptr and indices (with edge_ids: the rows of features that edges have), or
edge_index, or src and dst; optionally num_nodes. Every other array
with a row for each node is a feature, and with one for each edge a feature of edges; x_indptr, x_indices, x_data and
x_shape are a sparse one. What is left out is named, with the reason. Arrays of a folder stay on disk: with indptr and
int32 indices, graphs larger than memory can be cut by stream, hash and range. Of a data set all is taken: types, times,
weights and other attributes, features of nodes and edges, items, ids and notes; features of a type are called paper.x.
Without OUT, parts are in a folder of the data set, such as parts/hash-4.
"""


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    text = "cut a graph and its features into parts on disk, one for each rank"
    parser: argparse.ArgumentParser = commands.add_parser("partition", help=text, description=text, epilog=EPILOG)
    parser.add_argument("data", type=Path, metavar="DATA", help="data set, .npz file, or folder of .npy files")
    parser.add_argument("out", type=Path, metavar="OUT", nargs="?", help="folder to make, for headrace.open_dataset")
    parser.add_argument("--parts", type=int, required=True, metavar="P", help="number of parts, one for each rank")
    owners = parser.add_mutually_exclusive_group()
    owners.add_argument("--method", choices=METHODS, default="hash", help="how to choose owners (default: %(default)s)")
    owners.add_argument(
        "--owners", metavar="NAME", help="of a data set: the feature of nodes with the number of each one's part"
    )
    parser.add_argument(
        "--cut",
        choices=CUTS,
        default="nodes",
        help="nodes: edges are with the owner of their destination, and whole rows with them; or edges, with the owner "
        "of their source, their destination, or on a grid of both (default: %(default)s)",
    )
    parser.add_argument(
        "--balance", metavar="NAME", help="mask, ids or items of nodes to share out evenly, by metis alone: train"
    )
    parser.add_argument("--features", type=names, metavar="NAME,...", help="features to take (default: all)")
    parser.add_argument(
        "--whole",
        type=names,
        metavar="NAME,...",
        help="features that every rank reads whole (default: those of one number per node)",
    )
    parser.add_argument(
        "--balance-edges", action="store_true", help="by metis: share out edges evenly as well, which cuts more of them"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of metis and louvain (default: 0)")
    parser.add_argument(
        "--reorder",
        action="store_true",
        help="renumber nodes part by part, so that owners are ranges; items get the new ids, and data.ids has the ones "
        "before (the reordered graph is held in memory)",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="to take at most: 4GB; of data sets, by hash, range and stream (default: no limit)",
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing: the report, and the bytes of the parts")
    parser.add_argument("--report", type=Path, metavar="PICTURE", help="draw the report: .png, .svg or .pdf")
    parser.add_argument("--overwrite", action="store_true", help="replace parts that are at OUT")
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Run the command; see `headrace.pipeline.cli.cut.cut`."""
    from headrace.pipeline.cli.cut import cut

    cut(options)
