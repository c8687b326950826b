"""The command `headrace`: what is done once to a graph, before training."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from headrace.ops.errors import HeadraceError
from headrace.pipeline.cli import convert, dataset_options, doctor, generate, partition
from headrace.pipeline.cli.parser import Parser
from headrace.pipeline.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments
        By default those of the process.

    Returns
    -------
    int
        0, or 2 if the arguments or what they name are wrong; then one line on stderr says why.
    """
    parser = Parser(prog="headrace", description="Prepare graphs for training with headrace.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for one in (convert, generate, dataset_options, partition, doctor):
        one.add_to(commands)
    options = parser.all_parsed(arguments)
    run: Callable[[Any], None] = options.run
    try:
        run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads what is printed has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (HeadraceError, OSError, ImportError) as error:
        print(f"headrace: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201 - this is a command
        return 2
    return 0
