"""Training from a feature file three times larger than the memory that the process is given.

In one process under an enforced limit (a memory group of Linux), in turns: training, raw random reads of rows of the
same file by a reader that does nothing else, gathers by DiskFeature with and without merging of near rows, and by a
memory map. Python and torch count, and a limit that cannot hold is refused before any work. The page cache forgets the
file before each turn. The same training in a process that has all features in memory must give the same batches and
losses, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import Record, arguments, describe_machine, print_table, write_json
from plot import draw_bars

GROUPS = Path("/sys/fs/cgroup/memory")
DEGREE = 8
#: What Python, torch with an optimiser, and pages of their files take.
BASE = 320 << 20
#: Of a node: its in-edges, where they begin, its label.
NODE_BYTES = 4 * DEGREE + 8 + 8
#: Batches at a time: the model's, those that wait and are made, and a part for caches and what is sampled.
BATCHES_AT_A_TIME = 5
SCRIPT = Path(__file__).resolve().parent / "disk_training.py"


def write_data(folder: Path, rows: int, width: int) -> None:
    """Write a random graph of that many nodes, their features, and labels that follow from these."""
    random = np.random.default_rng(0)
    y = random.integers(0, 8, rows)
    np.save(folder / "y.npy", y)
    np.save(folder / "indptr.npy", np.arange(rows + 1) * DEGREE)
    np.save(folder / "indices.npy", random.integers(0, rows, rows * DEGREE, np.int32))
    with (folder / "x.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, header)
        chunk = (64 << 20) // (4 * width)
        for first in range(0, rows, chunk):
            labels = y[first : first + chunk]
            x = random.standard_normal((len(labels), width), np.float32)
            x[np.arange(len(labels)), labels] += 3
            file.write(x.data)
        file.flush()
        os.fsync(file.fileno())


def memory_group(num_bytes: int) -> Path | None:
    """Return a new memory group with that limit, page cache included; None where none can be made."""
    group = GROUPS / f"headrace-bench-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(num_bytes))
    except OSError:
        return None
    return group


def check_limit(options: argparse.Namespace) -> None:
    """Refuse a limit that cannot hold, before any work; the graph grows with it, as the file does."""
    row_bytes = 4 * options.width
    batch = options.batch_size * (1 + DEGREE) * (1 + 5) * row_bytes  # fanouts of 10 and 5
    fixed = BASE + BATCHES_AT_A_TIME * batch + 2 * options.reads * row_bytes
    if row_bytes <= 3 * NODE_BYTES:
        raise SystemExit(
            f"expected --width above {3 * NODE_BYTES // 4}, got {options.width}: the graph takes the limit"
        )
    least = math.ceil(fixed / (1 - 3 * NODE_BYTES / row_bytes) / 2**20)
    if options.limit < least:
        raise SystemExit(
            f"expected --limit of at least {least} (MiB): {BASE >> 20} for Python and torch, {NODE_BYTES} bytes a "
            f"node, {BATCHES_AT_A_TIME} batches of {batch / 2**20:,.0f} and 2 gathers; got {options.limit}; give a "
            "higher one, or less of the others: --batch-size, --reads"
        )


def train(folder: Path, options: dict[str, Any], *, limit: int | None) -> dict[str, Any]:
    """Train in a process of its own; return what it says."""
    group = None if limit is None else memory_group(limit)
    # Where there are no groups, addresses are limited: of those a process has more than of memory.
    addresses = None if limit is None or group is not None else limit

    def enter() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        elif addresses is not None:
            resource.setrlimit(resource.RLIMIT_AS, (addresses,) * 2)

    if limit is not None:
        how = "addresses (RLIMIT_AS)" if group is None else "memory (cgroup)"
        options["limit"] = f"{limit / 2**20:,.0f} MiB of {how}"
    try:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        result = subprocess.run(
            [sys.executable, str(SCRIPT), str(folder), json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env=environment,
            preexec_fn=enter,
        )
        if group is not None and result.returncode == -signal.SIGKILL:
            raise SystemExit(f"expected training to keep its limit, {options['limit']}, got it ended for memory")
        result.check_returncode()
        if group is not None:
            peak, failures = (
                (group / f"memory.{name}").read_text().strip() for name in ("max_usage_in_bytes", "failcnt")
            )
            print(f"peak of the group: {int(peak) / 2**20:,.0f} MiB; the limit was met {failures} times")
    finally:
        if group is not None:
            group.rmdir()
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def run(options: argparse.Namespace) -> list[Record]:
    """Measure; refuse figures of a training that is not that from memory."""
    check_limit(options)
    folder = Path(tempfile.mkdtemp(prefix="headrace-disk-", dir=options.folder))
    limit = options.limit << 20
    rows = 3 * limit // (4 * options.width)
    try:
        write_data(folder, rows, options.width)
        names = ("width", "batch_size", "batches", "reads", "depth", "rounds")
        shared = {"rows": rows, **{name: getattr(options, name) for name in names}}
        limited = train(folder, {**shared, "measure": True, "in_memory": False}, limit=limit)
        steps = len(limited["runs"][0]["losses"])
        other = {**shared, "measure": False, "in_memory": True, "steps": steps}
        (expected,) = train(folder, other, limit=None)["runs"]
    finally:
        shutil.rmtree(folder)
    for found in limited["runs"]:
        if found != expected:
            raise ValueError(
                "expected the batches and losses of training from memory, got others; do not use the rates"
            )
    losses = expected["losses"]
    print(f"{steps} batches and losses equal those from memory; loss {losses[0]:.3f} to {losses[-1]:.3f}")
    return [Record(**fields) for fields in limited["records"]]


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw the rates."""
    path = folder / "tiering_disk.png"
    draw_bars(path, records, "read rate")
    return [path]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run` reads."""
    parser.add_argument("--limit", type=int, default=1024, help="MiB of memory; the file has three times as many")
    parser.add_argument("--width", type=int, default=256, help="float32 of a row")
    parser.add_argument("--batch-size", type=int, default=1024, help="seeds")
    parser.add_argument(
        "--batches", type=int, default=16, help="of training a round: a multiple of those read together"
    )
    parser.add_argument("--reads", type=int, default=80_000, help="rows of a gather, and raw reads")
    parser.add_argument("--depth", type=int, default=64, help="reads at a time")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure")


def main() -> None:
    parser = arguments(__doc__ or "", rounds=5)
    add_options(parser)
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch"]))
    records = run(options)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "read rate")


if __name__ == "__main__":
    main()
