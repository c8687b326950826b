"""Start the ranks of a process group on this machine, each from the same script, and collect what they answer."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from worker import variables

TIME_LIMIT = 900.0


def run_processes(
    script: Path,
    world_size: int,
    settings: Mapping[str, Any],
    *,
    prefix: Callable[[int], Sequence[str]] = lambda _: (),
    environment: Mapping[str, str] | None = None,
) -> list[Any]:
    """Return the JSON object that each rank prints last.

    Parameters
    ----------
    script
        Run as ``python script JSON``, with the settings, ``rank``, ``world_size`` and ``meeting``, a file to meet at.
    world_size
        Ranks.
    settings
        Of all ranks.
    prefix
        Words to put before the command of a rank, such as those that enter a network namespace.
    environment
        Variables to add.

    Raises
    ------
    RuntimeError
        If a rank fails; what it said is on standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        processes = [
            subprocess.Popen(
                [
                    *prefix(rank),
                    sys.executable,
                    str(script),
                    json.dumps({**settings, "rank": rank, "world_size": world_size, "meeting": meeting}),
                ],
                stdout=subprocess.PIPE,
                text=True,
                env={**variables(), **(environment or {})},
            )
            for rank in range(world_size)
        ]
        try:
            printed = [process.communicate(timeout=TIME_LIMIT)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    for rank, process in enumerate(processes):
        if process.returncode:
            raise RuntimeError(f"rank {rank} of {script.name} ended with status {process.returncode}")
    return [json.loads(text.splitlines()[-1]) for text in printed]
