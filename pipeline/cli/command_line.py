"""The command `headrace`: what is done once to a graph, before training."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from headrace.ops.errors import HeadraceError
from headrace.ops.text import print_anything
from headrace.pipeline.cli import convert, dataset_options, doctor, generate, partition
from headrace.pipeline.cli.parser import Parser
from headrace.pipeline.version import VERSION

#: What shells return for a command that SIGINT has ended.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments
        By default those of the process.

    Returns
    -------
    int
        0; 2 if the arguments or what they name are wrong, or 130 after an interruption: one line on stderr has why.
    """
    for stream in (sys.stdout, sys.stderr):
        print_anything(stream)
    parser = Parser(prog="headrace", description="Prepare graphs for training with headrace.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for one in (convert, generate, dataset_options, partition, doctor):
        one.add_to(commands)
    options = parser.all_parsed(arguments)
    run: Callable[[Any], None] = options.run
    is_written = False
    try:
        run(options)
        is_written = True
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads what is printed has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as error:
        _complain(f"interrupted; {error}" if str(error) else "interrupted")
        return INTERRUPTED
    except (HeadraceError, OSError, ImportError) as error:
        is_nameless = isinstance(error, OSError) and error.errno is not None and error.filename is None
        out = getattr(options, "out", None) if is_nameless and not is_written else None
        _complain(str(error) if out is None else f"{error}; nothing is kept of {out}, which was being written")
        return 2
    except UnicodeEncodeError as error:
        _complain(
            f"expected names of files that the locale has, which is {error.encoding}, got {error.object!r}; set "
            "PYTHONUTF8=1 or a locale of UTF-8"
        )
        return 2
    return 0


def _complain(text: str) -> None:
    print(f"headrace: {' '.join(text.split())}", file=sys.stderr)  # noqa: T201 - this is a command
