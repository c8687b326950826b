"""The command `headrace`: what is done once to a graph, before training."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from headrace.ops.errors import HeadraceError
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
    from headrace.pipeline.cli import partition as partition_command

    parser = argparse.ArgumentParser(prog="headrace", description="Prepare graphs for training with headrace.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    partition_command.add_to(commands)
    options = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = options.run
    try:
        run(options)
    except (HeadraceError, OSError, ImportError) as error:
        print(f"headrace: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201 - this is a command
        return 2
    return 0
