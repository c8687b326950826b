"""What scripts for GPUs do with all benchmarks at once: try them side by side, and list the figures of a run.

``try FOLDER SECONDS`` runs each with ``--smoke``, so long at most, and prints how that went as they end.
``table FOLDER`` prints a line for each figure that says how good a run was.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from harness import read_json

HERE = Path(__file__).resolve().parent
#: What is said of a benchmark that is fine.
RUNS = "runs"
#: Figures that the table has.
METRICS = ("row rate", "edge rate", "batch rate", "GPU busy", "waits", "launch time")


def scripts() -> list[Path]:
    """Return the benchmarks of GPUs."""
    return [path for path in sorted(HERE.glob("gpu_*.py")) if "def main(" in path.read_text()]


def try_all(folder: Path, seconds: float) -> int:
    """Try all benchmarks, with their records and what they print in a folder; return an exit status.

    Parameters
    ----------
    folder
        The folder.
    seconds
        How long one may take.
    """
    status = 0
    with ThreadPoolExecutor(max((os.cpu_count() or 2) // 2, 1)) as pool:
        futures = {pool.submit(verdict_of, script, folder, seconds): script for script in scripts()}
        for future in as_completed(futures):
            print(f"{futures[future].stem}: {future.result()}", flush=True)
            status = status or future.result() != RUNS
    return int(status)


def verdict_of(script: Path, folder: Path, seconds: float) -> str:
    """Try a benchmark, and say how that went."""
    command = [sys.executable, str(script), "--smoke", "--json", str(folder / f"smoke_{script.stem}.json")]
    with (folder / f"smoke_{script.stem}.txt").open("wb") as output:
        try:
            run = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return "out of time"
    return RUNS if run.returncode == 0 else f"failed ({run.returncode})"


def lines(folder: Path) -> Iterator[str]:
    """Yield a line for each figure of the records in a folder, but for those of trials."""
    for path in sorted(folder.glob("gpu_*.json")):
        for record in read_json(path):
            if record.metric in METRICS:
                name = f"{record.bench.partition(': ')[2]}: {record.case}"
                figure = f"{record.metric:<10} {record.median:>12,.2f} {record.unit}"
                yield f"{name[:70]:<70} {record.system[:44]:<44} {figure}"


def main(given: Sequence[str]) -> int:
    command, folder, *limits = given
    if command == "try":
        return try_all(Path(folder), float(limits[0]))
    print(*lines(Path(folder)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
