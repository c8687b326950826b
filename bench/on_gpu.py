"""What bench/gpu.sh does with all benchmarks of GPUs at once: try them side by side, and list the figures of a run.

``smoke FOLDER`` runs each with ``--smoke``, which on a GPU compiles every kernel. ``table FOLDER`` prints a line for
each figure that says how good a run was.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import read_json

HERE = Path(__file__).resolve().parent
#: Figures that the table has.
METRICS = ("row rate", "edge rate", "batch rate", "GPU busy", "waits", "launch time")


def scripts() -> list[Path]:
    """Return the benchmarks of GPUs."""
    return [path for path in sorted(HERE.glob("gpu_*.py")) if "def main(" in path.read_text()]


def smoke(folder: Path) -> int:
    """Try all benchmarks, with their records and what they print in a folder; return an exit status."""
    waiting, running, status = scripts(), dict[Path, subprocess.Popen[bytes]](), 0
    while waiting or running:
        while waiting and len(running) < max((os.cpu_count() or 2) // 2, 1):
            script = waiting.pop()
            command = [sys.executable, str(script), "--smoke", "--json", str(folder / f"smoke_{script.stem}.json")]
            with (folder / f"smoke_{script.stem}.txt").open("wb") as output:
                running[script] = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        script, process = next(iter(running.items()))
        code = process.wait()
        del running[script]
        print(f"{script.stem}: {'runs' if code == 0 else f'failed ({code})'}", flush=True)
        status = status or code
    return status


def lines(folder: Path) -> Iterator[str]:
    """Yield a line for each figure of the records in a folder, but for those of trials."""
    for path in sorted(folder.glob("gpu_*.json")):
        for record in read_json(path):
            if record.metric in METRICS:
                name = f"{record.bench.partition(': ')[2]}: {record.case}"
                figure = f"{record.metric:<10} {record.median:>12,.2f} {record.unit}"
                yield f"{name[:70]:<70} {record.system[:44]:<44} {figure}"


def main(given: Sequence[str]) -> int:
    command, folder = given
    if command == "smoke":
        return smoke(Path(folder))
    print(*lines(Path(folder)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
