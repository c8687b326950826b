"""Starts the programs of `exits.scenarios` and says how they ended."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from copies import TORCH, Process
from exits import scenarios
from exits.scenarios import SCENARIOS

#: Seconds after which a program hangs. It needs three for its imports, and many beside other processes.
#: Less than what pytest waits for a test, so that it is told which program hangs.
TIMEOUT = 120.0

#: What is printed where Python ended badly, though the status may be right.
COMPLAINTS = ("terminate called", "Fatal Python error", "Exception ignored", "exception not rethrown")


@dataclass(frozen=True)
class End:
    """How one process ended.

    Parameters
    ----------
    name
        Of the scenario.
    expected, status
        The status that it should end with, and the one that it did; None where it did not end.
    errors
        What it wrote to its standard error.
    seconds
        How long it took.
    """

    name: str
    expected: int
    status: int | None
    errors: str
    seconds: float

    @property
    def is_right(self) -> bool:
        return self.status == self.expected and not any(complaint in self.errors for complaint in COMPLAINTS)


def run(name: str) -> End:
    _, expected = SCENARIOS[name]
    began = time.monotonic()
    process = Process(Path(scenarios.__file__), name, imports=TORCH)  # what it registers comes before headrace
    try:
        status = process.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        process.kill()  # also where pytest is interrupted, or runs out of time
    _, errors = process.communicate()
    return End(name, expected, status, errors, time.monotonic() - began)
