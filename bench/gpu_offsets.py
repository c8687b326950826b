"""Rows of a table so large that 32 bits do not count its words: each must be the right one, wherever the table is.

Rows have an odd number of bytes, so that words are bytes, and the ids are around those at which products of 32 bits
change their sign and begin anew, and at the end of the table. Nothing is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from gpu_device import Gpu, Measured, gpu_arguments, gpu_of
from harness import Record, summarised

from headrace import ops
from headrace.ops.features.pinned import Pinned

WIDTHS = (7, 257)


def ids_of(num_bytes: int, width: int) -> torch.Tensor:
    """Return ids of a table of rows that are worth a look."""
    num_rows = num_bytes // width
    edges = [edge // width for edge in (0, 1 << 31, 1 << 32) if edge + 3 * width < num_bytes]
    return torch.cat([torch.arange(3) + edge for edge in [*edges, num_rows - 3]])


def check(gpu: Gpu, memory: torch.Tensor, width: int, dtype: torch.dtype, where: str) -> None:
    """Gather rows and compare them.

    Raises
    ------
    ValueError
        If any is another one.
    """
    table = memory[: len(memory) // width * width].view(-1, width)
    ids = ids_of(len(memory), width)
    expected = table[ids.to(table.device)].cpu()
    found = ops.gather_rows(table, ids.to(gpu.device, dtype)).cpu()
    if not torch.equal(found, expected):
        raise ValueError(
            f"expected the rows of ids up to {int(ids[-1]):,} in {where}, got others (rows of {width} bytes)"
        )


def records_of(gpu: Gpu, options: argparse.Namespace) -> list[Record]:
    there = torch.randint(256, (options.table_bytes,), dtype=torch.uint8, device=gpu.device)
    here = there.cpu()
    pinned = Pinned(here)
    for width in WIDTHS:
        for dtype in (torch.int32, torch.int64):
            check(gpu, there, width, dtype, "GPU memory")
            check(gpu, here, width, dtype, "pinned memory")
    del pinned
    case = f"{options.table_bytes / 1e9:.1f} GB"
    return [summarised(gpu.bench("offsets"), case, "rows", "right", "%", [100.0], 1)]


def main(given: Sequence[str] | None = None) -> None:
    parser = gpu_arguments(__doc__)
    parser.add_argument("--table-bytes", type=int, default=6 << 30)
    options = parser.parse_args(given)
    if options.smoke:
        options.table_bytes = 1 << 16
    with gpu_of(options) as gpu:
        records = Measured(options.json)
        records += records_of(gpu, options)


if __name__ == "__main__":
    main()
