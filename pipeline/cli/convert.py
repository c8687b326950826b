"""The command `convert`: its options. What it does is loaded when it is run: help needs neither torch nor NumPy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from headrace.pipeline.cli.parser import add_json, names

EPILOG = """
SOURCE is a TOML file that describes tables (docs/your-own-files.md has its fields); a folder of OGB, MAG240M, GraphBolt
(metadata.yaml, of its folder preprocessed, too) or DGL (meta.yaml); the JSON file of GraphStorm's construction, or of a
graph that DGL has cut; an .npz file or a folder of .npy files, as of headrace partition; or, with --edges, the folder
that the tables are in. Tables are CSV, TSV (packed by gzip or not), Parquet, .npz or .npy. Nothing is unpickled. A
conversion that was killed goes on behind its last finished pass when it is started again.
"""

#: Options for tables: the section, the field, and the text of help.
TABLES = (
    ("edges", "files", "--edges", "FILE", "files with a row for each edge"),
    ("edges", "src", "--src", "COLUMN", "ids of the sources of edges (default: src)"),
    ("edges", "dst", "--dst", "COLUMN", "ids of the destinations (default: dst)"),
    ("edges", "weight", "--weight", "COLUMN", "weights of edges"),
    ("edges", "time", "--time", "COLUMN", "times of edges"),
    ("edges", "features", "--edge-features", "COLUMN,...", "features of edges"),
    ("edges", "labels", "--edge-label", "COLUMN", "labels of edges"),
    ("edges", "names", "--edge-names", "NAME,...", "names of columns, of files without a header"),
    ("edges", "split", "--edge-split", "COLUMN", "the items that an edge is one of: train, val, test"),
    ("nodes", "files", "--nodes", "FILE", "files with a row for each node"),
    ("nodes", "id", "--id", "COLUMN", "ids of nodes, integers or texts (default: the number of the row)"),
    ("nodes", "names", "--node-names", "NAME,...", "names of columns, of files without a header"),
    ("nodes", "labels", "--label", "COLUMN", "labels of nodes; texts become numbers"),
    ("nodes", "features", "--features", "COLUMN,...", "features: age, or 'x*' for all such columns as one feature"),
    ("nodes", "time", "--node-time", "COLUMN", "times of nodes"),
    ("nodes", "split", "--split", "COLUMN", "the items that a node is one of: train, val, test"),
)

#: Options for odd rows: the field of `Options`, and its values.
ODD_ROWS = (
    ("unknown_ids", ("refuse", "drop", "create"), "of edges and items to nodes that are not there"),
    ("duplicate_ids", ("refuse", "drop"), "rows of nodes whose id an earlier row has"),
    ("duplicate_edges", ("keep", "drop", "sum"), "edges between the same nodes; sum: their weights, in the first one"),
    ("loops", ("keep", "drop", "add"), "edges from a node to itself; add: to each node that has none"),
    ("null_times", ("refuse", "earliest", "drop"), "of edges and nodes"),
    ("held_out", ("keep", "drop"), "edges of val and test by --edge-split; drop: from the graph, they are items alone"),
)


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    text = "make a data set of files: CSV, Parquet, .npy, OGB, GraphBolt, DGL, GraphStorm"
    parser: argparse.ArgumentParser = commands.add_parser("convert", help=text, description=text, epilog=EPILOG)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="what to convert, see below")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="data set to make, for headrace.open_dataset")
    tables = parser.add_argument_group("tables without types (those with types are described in TOML)")
    for section, field, flag, metavar, about in TABLES:
        lists = field in ("files", "features", "names")
        tables.add_argument(flag, dest=f"{section}_{field}", metavar=metavar, type=names if lists else str, help=about)
    tables.add_argument("--separator", metavar="TEXT", help="of columns in CSV (default: comma, in .tsv a tab)")
    tables.add_argument("--comment", metavar="CHARACTER", help="of CSV: lines that begin with it are no rows")
    tables.add_argument("--skip", metavar="LINES", type=int, help="of CSV: lines ahead of the header, or the first row")
    tables.add_argument("--null-values", metavar="TEXT,...", type=names, help="of CSV: texts that are null: NA,unknown")
    tables.add_argument(
        "--text-ids", action="store_true", help="of CSV: ids are texts, also where those of the first rows are integers"
    )
    tables.add_argument(
        "--external", action="store_true", help="without --nodes: integer ids are keys, not the numbers of nodes"
    )
    odd = parser.add_argument_group("odd rows, which are counted")
    for field, choices, about in ODD_ROWS:
        odd.add_argument(f"--{field.replace('_', '-')}", choices=choices, help=f"{about} (default: {choices[0]})")
    odd.add_argument("--reverse", action="store_true", help="add the reverse of each edge")
    odd.add_argument(
        "--undirected",
        action="store_true",
        help="add the reverse of each edge that has none, to its type, or of another one where ends are of two types",
    )
    odd.add_argument("--time-unit", metavar="UNIT", help="of times, to keep in the notes: s")
    parser.add_argument("--memory", default="4GB", metavar="SIZE", help="to take at most (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="write nothing: what it would be, and what it takes")
    parser.add_argument("--overwrite", action="store_true", help="replace a data set at FOLDER, and parts in it")
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Run the command; see `headrace.pipeline.cli.convert_source.convert`."""
    from headrace.pipeline.cli.convert_source import convert

    convert(options)
