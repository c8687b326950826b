"""Rows in memory of a GPU that two processes read: they take memory once, and are the same rows.

This process puts a table there; another one opens it through CUDA IPC, gathers rows, and sees a row change. What is
free on the GPU is asked before and behind the opening, when the other process has its context and kernels already.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from gpu_device import Gpu, Measured, gpu_arguments, gpu_of
from harness import Record, summarised
from work import identified, table
from worker import Worker, serve

from headrace import ops
from headrace.cuda.memory import opened, shared

#: What opening may take of the GPU, in shares of the table: bookkeeping, but no copy.
MOST_TAKEN = 0.05


class Reader:
    """Reads a table: one that is given, or in the other process the one that is opened."""

    def __init__(self, gpu: Gpu, x: torch.Tensor | None = None) -> None:
        self._gpu = gpu
        self._x = torch.empty(0) if x is None else x

    def methods(self) -> dict[str, Callable[..., Any]]:
        return {"start": self.start, "open": self.open, "gather": self.gather, "row": self.row}

    def start(self) -> bool:
        """Make a context and kernels, which take memory of their own; return whether there is a GPU."""
        ones = torch.ones(4, 4, device=self._gpu.device)
        ops.gather_rows(ones, torch.arange(4, device=self._gpu.device))
        self._gpu.wait()
        return self._gpu.is_real

    def open(self, handle: str) -> int:
        """Open the other's table, and return how many rows it has."""
        self._x = opened(bytes.fromhex(handle))
        self._gpu.wait()
        return len(self._x)

    def gather(self, seed: int, count: int) -> float:
        """Gather rows, check whose they are, and return the seconds that the GPU took."""
        ids = torch.randint(len(self._x), (count,), generator=torch.Generator().manual_seed(seed))
        there = ids.to(self._gpu.device)
        rows = ops.gather_rows(self._x, there)
        identified(rows.cpu(), ids)
        return self._gpu.seconds(lambda: ops.gather_rows(self._x, there, out=rows, trusted=True))

    def row(self, number: int) -> list[float]:
        """Return a row."""
        row: list[float] = self._x[number].tolist()
        return row


def handle_of(gpu: Gpu, x: torch.Tensor) -> bytes:
    """Return what another process opens a table by: without a GPU, one in memory that processes share."""
    if gpu.is_real:
        return shared(x)
    from multiprocessing.reduction import ForkingPickler

    torch.multiprocessing.set_sharing_strategy("file_system")
    return bytes(ForkingPickler.dumps(x.share_memory_()))


def free_bytes(gpu: Gpu) -> int:
    gpu.wait()
    return torch.cuda.mem_get_info(gpu.device)[0] if gpu.is_real else 0


def records_of(gpu: Gpu, reader: Worker, options: argparse.Namespace) -> list[Record]:
    """Share a table with the other process, and measure.

    Raises
    ------
    ValueError
        If rows are others, a change is not seen, or opening takes memory as a copy would.
    """
    x = table(options.table_bytes // options.row_bytes, options.row_bytes // 4).to(gpu.device)
    handle = handle_of(gpu, x)
    if reader.call("start") != gpu.is_real:
        raise ValueError("expected the other process to find what this one finds, a GPU or none")
    before = free_bytes(gpu)
    if reader.call("open", handle=handle.hex()) != len(x):
        raise ValueError(f"expected a table of {len(x)} rows to be opened, got another one")
    taken = before - free_bytes(gpu)
    seconds = [reader.call("gather", seed=number, count=options.rows) for number in range(options.rounds + 1)][1:]
    x[len(x) - 1] = -1.0
    gpu.wait()
    if reader.call("row", number=len(x) - 1) != [-1.0] * x.shape[1]:
        raise ValueError("expected the other process to see a change of the table, got the row as it was: a copy")
    if taken > MOST_TAKEN * x.nbytes:
        raise ValueError(
            f"expected a table of {x.nbytes:,} bytes to be there once, got {taken:,} bytes less free memory"
        )
    own = Reader(gpu, x[:-1])  # without the row that was changed
    here = [own.gather(number, options.rows) for number in range(options.rounds + 1)][1:]
    name, case = gpu.bench("shared"), f"{x.nbytes / 1e9:.2f} GB, rows of {options.row_bytes:,} B, two processes"
    rate = options.rows * options.row_bytes / 1e9
    return [
        summarised(name, case, "opened through CUDA IPC", "GPU memory", "GB", [taken / 1e9], 1),
        summarised(name, case, "opened through CUDA IPC", "row rate", "GB/s", [rate / one for one in seconds], 1),
        summarised(name, case, "where it was made", "GPU memory", "GB", [x.nbytes / 1e9], 1),
        summarised(name, case, "where it was made", "row rate", "GB/s", [rate / one for one in here], 1),
    ]


def main(given: Sequence[str] | None = None) -> None:
    parser = gpu_arguments(__doc__)
    parser.add_argument("--row-bytes", type=int, default=512)
    parser.add_argument("--table-bytes", type=int, default=4 << 30)
    parser.add_argument("--rows", type=int, default=1 << 19, help="that are gathered (default: %(default)s)")
    parser.add_argument("--serve", action="store_true", help="be the other process")
    options = parser.parse_args(given)
    if options.smoke:
        options.table_bytes, options.rows = 1 << 16, 64
    if options.serve:
        with ExitStack() as stack:
            with redirect_stdout(sys.stderr):  # what is printed is no answer
                gpu = stack.enter_context(gpu_of(options))
            serve(Reader(gpu).methods())
        return
    with gpu_of(options) as gpu:
        arguments = ["--serve", *(["--smoke"] if options.smoke else [])]
        with closing(Worker(Path(sys.executable), Path(__file__), *arguments)) as reader:
            records = Measured(options.json)
            records += records_of(gpu, reader, options)


if __name__ == "__main__":
    main()
