"""Commands as a shell runs them, in this process."""

from __future__ import annotations

import json
from importlib.metadata import entry_points

(_COMMAND,) = entry_points(group="console_scripts", name="headrace")
#: Run the command `headrace` with a list of arguments; return its exit status.
main = _COMMAND.load()


def run(*arguments: object) -> int:
    return main(list(map(str, arguments)))


def answered(capsys, *arguments: object) -> dict:
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)
