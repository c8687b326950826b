"""Commands as a shell runs them, in this process."""

from __future__ import annotations

import json

from headrace.pipeline.cli.command_line import main


def run(*arguments: object) -> int:
    return main(list(map(str, arguments)))


def answered(capsys, *arguments: object) -> dict:
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)
