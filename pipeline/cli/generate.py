"""The command `generate`: a data set of a random graph, for trials at any size."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.pipeline.cli.parser import add_json, answer

MODELS = ("rmat", "chung-lu", "dc-sbm", "relational")

EPILOG = """
The same numbers give the same bytes. rmat: R-MAT with the quadrants of Graph500; chung-lu: ends drawn by popularity;
dc-sbm: the same within blocks, which decide labels; relational: users, items and tags, with times and weights of
ratings. Nodes have a feature x, labels y and the items train, val and test.
"""


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    text = "make a data set of a random graph"
    parser: argparse.ArgumentParser = commands.add_parser("generate", help=text, description=text, epilog=EPILOG)
    parser.add_argument("model", choices=MODELS, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="data set to make")
    numbers = (
        ("nodes", 10_000, "nodes; of relational: users"),
        ("edges", 100_000, "edges; of relational: ratings"),
        ("features", 16, "numbers of the feature x of a node"),
        ("classes", 8, "classes of the labels y"),
        ("blocks", 100, "blocks of dc-sbm"),
        ("seed", 0, "another graph of the same kind"),
    )
    for name, default, about in numbers:
        parser.add_argument(
            f"--{name}", type=_number, default=default, metavar="N", help=f"{about} (default: {default:_})"
        )
    parser.add_argument("--exponent", type=float, default=0.6, help="of popularity by rank (default: %(default)s)")
    parser.add_argument("--inside", type=float, default=0.8, help="share of edges in blocks (default: %(default)s)")
    parser.add_argument("--distinct", action="store_true", help="leave out loops, and repeats of edges")
    parser.add_argument("--reverse", action="store_true", help="add the reverse of each edge")
    parser.add_argument("--memory", default="4GB", metavar="SIZE", help="to take at most (default: %(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace a data set at FOLDER, and parts in it")
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Make the data set, and print what it is.

    Raises
    ------
    InputError
        If a number is out of range, or FOLDER exists and may not be replaced.
    OSError
        If it cannot be written.
    """
    from headrace.pipeline.cli.convert_source import report_fields
    from headrace.pipeline.convert.convert_tables import convert_tables
    from headrace.pipeline.convert.description import Options
    from headrace.pipeline.convert.generated import Shape, generated

    shape = Shape(
        options.nodes,
        options.edges,
        options.features,
        options.classes,
        options.exponent,
        options.blocks,
        options.inside,
        options.seed,
    )
    rules = Options(reverse=options.reverse)
    if options.distinct:
        rules = replace(rules, duplicate_edges="drop", loops="drop")
    report = convert_tables(
        generated(options.model, shape, rules), options.folder, memory=options.memory, overwrite=options.overwrite
    )
    answer(report_fields(report), str(report), as_json=options.json)


def _number(text: str) -> int:
    return int(text.replace("_", ""))
