"""The contracts that every stage set and every pass set must stand.

Run as a script, it continues named plans from saved states in a fresh process and prints the digests of the batches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import headrace as hr

from plans import PLANS

NUM_EPOCHS = 2

Tails = dict[str, list[list[str]]]


def digests(loader: hr.Loader, num_epochs: int = NUM_EPOCHS) -> list[str]:
    """The digests of all batches that are left of some epochs."""
    return [batch.digest() for _ in loader.epochs(num_epochs) for batch in loader]


def with_workers(plan: hr.Plan, workers: int | None) -> hr.Plan:
    """The plan with a prefetch stage behind it; None leaves that to the pass."""
    return plan if workers is None else plan.prefetch(workers=workers, depth=3)


def run_and_save(loader: hr.Loader) -> tuple[list[str], list[dict[str, Any]]]:
    """Run two epochs; return every batch's digest and the state before each batch and at the end."""
    seen, states = [], [loader.state_dict()]
    for _ in loader.epochs(NUM_EPOCHS):
        for batch in loader:
            seen.append(batch.digest())
            states.append(loader.state_dict())
    return seen, states


def continued(states: dict[str, list[dict[str, Any]]], *, workers: int | None = None, **options: Any) -> Tails:
    """Load each state of each plan, and return the digests of the batches that follow it."""
    tails: Tails = {name: [] for name in states}
    for name, of_plan in states.items():
        for state in of_plan:
            with with_workers(PLANS[name](), workers).loader(**options) as loader:
                loader.load_state_dict(state)
                tails[name].append(digests(loader))
    return tails


def continue_in_fresh_process(states: dict[str, list[dict[str, Any]]], **options: Any) -> Tails:
    """The same in a new process."""
    order = {"states": states, "options": options}
    result = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def _main() -> None:
    order = json.load(sys.stdin)
    json.dump(continued(order["states"], **order["options"]), sys.stdout)


if __name__ == "__main__":
    _main()
