"""Examples as programs of their own, one process or several: what torchrun tells its processes, without torchrun."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from copies import HEADRACE, Process

EXAMPLES = Path(__file__).parents[1] / "examples"


def _environment() -> dict[str, str]:
    # The folder of a script belongs on its path.
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}, "OMP_NUM_THREADS": "1"}


def run_script(script: Path, *arguments: object, num_processes: int = 1, imports: tuple[str, ...] = ()) -> list[str]:
    """Run a script in as many processes as torchrun would, and return the lines that it printed: those of rank 0 first.

    What is imported besides headrace is given by `imports`, for scripts that run more than once.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:  # a port that is free
        port = str(server.getsockname()[1])
    processes = []
    for rank in range(num_processes):
        environment = _environment()
        if num_processes > 1:
            places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_processes, "LOCAL_WORLD_SIZE": num_processes}
            environment |= {name: str(value) for name, value in places.items()}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        processes.append(Process(script, *arguments, environment=environment, imports=(*HEADRACE, *imports)))
    ends = [process.communicate(timeout=240) for process in processes]
    assert [process.returncode for process in processes] == [0] * num_processes, "\n".join(errors for _, errors in ends)
    return [line for output, _ in ends for line in output.splitlines()]


def run_example(script: str, *arguments: object, num_processes: int = 1, imports: tuple[str, ...] = ()) -> list[str]:
    """Run a script in `examples/`, as `run_script` does."""
    return run_script(EXAMPLES / script, *arguments, num_processes=num_processes, imports=imports)


def torchrun_example(script: str, *arguments: object, num_processes: int) -> list[str]:
    """Run a script in `examples/` as its documentation says, which takes seconds for each process."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
    result = subprocess.run(
        [sys.executable, *launcher, EXAMPLES / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env=_environment(),
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.splitlines()
