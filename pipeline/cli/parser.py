"""Options of commands, with the nearest name for those that do not exist, and how commands answer."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.ops.names import close_name


class Parser(argparse.ArgumentParser):
    """A parser of options that names the nearest one to what it does not know."""

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or an error: what cannot be printed to standard output is an error."""
        if message and file is sys.stdout and file is not None:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            message = (
                f"expected one of {', '.join(map(str, action.choices))}, got {value!r}{meant(value, action.choices)}"
            )
            raise argparse.ArgumentError(action, message)

    def all_parsed(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse arguments, all of which must be known to the command that they name."""
        options, rest = self.parse_known_args(arguments)
        if rest:
            command: Parser = options.parser
            if not rest[0].startswith("-"):
                command.error(f"expected {command.positions()}, got also {rest[0]!r}; leave it out")
            known = [name for action in command._actions for name in action.option_strings]
            shown = ", ".join(name for name in known if name.startswith("--"))
            command.error(f"expected options among {shown}, got {rest[0]}{meant(rest[0].split('=')[0], known)}")
        return options

    def positions(self) -> str:
        """Return what a command takes beside options."""
        found = [str(one.metavar or one.dest) for one in self._actions if not one.option_strings]
        return f"one {found[0].lower()}" if len(found) == 1 else " and ".join(found) or "options alone"


def meant(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the nearest known one, if one is near."""
    close = close_name(name, known)
    return "" if close is None else f"; did you mean {close}?"


def names(text: str) -> list[str]:
    """Return the names of an option, which are separated by commas."""
    found = [name for name in text.split(",") if name]
    if text and not found:
        raise argparse.ArgumentTypeError(f"expected names with commas between them, got {text!r}")
    return found


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that asks for JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def say(text: str) -> None:
    """Print a line."""
    print(text)  # noqa: T201 - this is a command


def answer(fields: Any, text: str, *, as_json: bool) -> None:
    """Print an answer: its fields in JSON, or its text."""
    say(json.dumps(fields, indent=1) if as_json else text)
