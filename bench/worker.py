"""A peer library in a process of its own environment, called over a pipe: one JSON object a line, each way.

Standard library only: the other environment has nothing else of ours. The caller waits for each answer, so that one
system runs at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def variables() -> dict[str, str]:
    """Return the variables of this process for one that runs a script: its folder belongs on the path."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


class Worker:
    """A running peer, until `close`.

    Raises
    ------
    RuntimeError
        From `call`, if the peer has died; what it printed is on standard error.
    """

    def __init__(self, python: Path, script: Path, *arguments: str) -> None:
        # DGL announces on standard output, where answers go, that it has no backend yet.
        environment = {**variables(), "DGLBACKEND": "pytorch"}
        self._process = subprocess.Popen(
            [python, script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def close(self) -> None:
        """End the peer by closing its standard input, and wait for it."""
        self._process.communicate()

    def call(self, method: str, **values: Any) -> Any:
        """Run one of the peer's methods and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, values]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer ended in {method}, with status {self._process.wait()}")
        return json.loads(answer)


def serve(methods: Mapping[str, Callable[..., Any]]) -> None:
    """Answer calls until standard input ends. Whatever the peer prints goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        method, values = json.loads(line)
        answers.write(json.dumps(methods[method](**values)) + "\n")
        answers.flush()
