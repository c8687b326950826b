"""Commands on data sets, `info`, `head`, `verify`, `explain` and `reorder`: their options.

What they do is loaded when one is run: help needs no torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.pipeline.cli.parser import add_json, names

SAMPLERS = ("neighbor", "layer_neighbor")
ORDERS = ("out-degree", "pagerank", "partition")


def add_to(commands: Any) -> None:
    """Add the commands to those of a parser."""
    info = _command(commands, "info", "list what a data set holds: types, counts, dtypes, items, ids, bytes", "look")
    add_json(info)
    text = (
        "show the first nodes, edges and items of a data set; edges in the order of destinations, as the graph has them"
    )
    head = _command(commands, "head", text, "look")
    head.add_argument("--type", metavar="TYPE", help="of one type: paper, or user,buys,item")
    head.add_argument("--count", type=int, default=5, metavar="N", help="how many of each (default: %(default)s)")
    add_json(head)
    verify = _command(commands, "verify", "read every file of a data set, and compare it with its checksum", "look")
    add_json(verify)
    explain = _command(
        commands, "explain", "print the plan that a loader over a data set runs here, and why", "explain"
    )
    explain.add_argument("--items", metavar="NAME", help="items to go through (default: train, or the first)")
    explain.add_argument(
        "--fanouts", type=_numbers, default=[10, 10], metavar="N,...", help="per hop; -1: all (default: 10,10)"
    )
    explain.add_argument("--sampler", choices=SAMPLERS, default="neighbor", help="rule of hops (default: %(default)s)")
    explain.add_argument(
        "--features", type=names, metavar="NAME,...", help="of nodes, to fetch: x, or paper.x (default: all)"
    )
    explain.add_argument("--batch-size", type=int, default=1024, metavar="B", help="(default: %(default)s)")
    explain.add_argument("--copy-to", metavar="DEVICE", help="copy batches there: cuda")
    explain.add_argument("--measure", type=int, metavar="N", help="run N batches, and print counts and time")
    explain.add_argument("--gpus", type=int, metavar="N", help="for a machine with N GPUs, which need not be here")
    explain.add_argument("--gpu-memory", metavar="SIZE", help="free on each GPU of --gpus: 80GB (default: as here)")
    explain.add_argument(
        "--ranks",
        type=int,
        metavar="N",
        help="for the first of N ranks, which need not run, with its share of the memory of this machine",
    )
    explain.add_argument("--cooperative", action="store_true", help="ranks make each batch together")
    add_json(explain)
    reorder = _command(commands, "reorder", "write a data set with its nodes in another order", "reorder_dataset")
    reorder.add_argument("out", type=Path, metavar="OUT", help="folder to make")
    reorder.add_argument(
        "--by",
        choices=ORDERS,
        default="out-degree",
        help="first the nodes that are read most, or all of a part together (default: %(default)s)",
    )
    reorder.add_argument("--parts", type=int, metavar="P", help="parts, for --by partition (default: 16)")
    reorder.add_argument("--overwrite", action="store_true", help="replace a data set at OUT, and parts in it")
    add_json(reorder)


def _command(commands: Any, name: str, text: str, module: str) -> argparse.ArgumentParser:
    """Add a command, which the function of its name does in a module of this folder."""

    def run(options: argparse.Namespace) -> None:
        work: Callable[[argparse.Namespace], None] = getattr(import_module(f"headrace.pipeline.cli.{module}"), name)
        work(options)

    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a data set")
    parser.set_defaults(run=run, parser=parser)
    return parser


def _numbers(text: str) -> list[int]:
    """Return the numbers of an option, which are separated by commas."""
    try:
        return [int(one) for one in text.split(",")]
    except ValueError as cause:
        message = f"expected whole numbers separated by commas, as 10,10, got {text!r}"
        raise argparse.ArgumentTypeError(message) from cause
