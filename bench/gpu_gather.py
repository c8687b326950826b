"""Rows gathered by a GPU from its own memory, pinned memory of the host and a peer, beside copies of as many bytes.

A copy is the limit of each: on the device one reads and writes as a gather does; over the bus the copy engine moves
contiguous bytes. The sweep shows how many threads keep the bus busy: the fewer, the more processors are left to others.
A peer is another GPU whose memory this one reads in place; where there is none, its rows are left out. Times are those
of the device, between two events; rates count the bytes that are written.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from gpu_device import Gpu, Measured, gpu_arguments, gpu_of, warm_up_rounds
from harness import Gain, Metrics, Record, System, interleave

from headrace import ops
from headrace.cuda import bus
from headrace.ops.features.pinned import Pinned

HERE, PINNED = "gather from the device", "gather from pinned memory"
IN_ORDER = "gather from pinned memory, ids in order"
COPY_HERE, COPY_PINNED = "limit: copy on the device", "limit: copy from pinned memory"
PEER, COPY_PEER = "gather from a peer", "limit: copy from a peer"
TORCH = "torch.index_select on the device"
SWEEP = (512, 1024, 2048, 4096, 6144, 8192, 12288, 16384, 32768, 65536)


@contextmanager
def threads_of_bus(count: int) -> Iterator[None]:
    """Let gathers over the bus use another number of threads."""
    bus.use_threads(count)
    try:
        yield
    finally:
        bus.use_threads(None)


def peer_of(gpu: Gpu) -> torch.device | None:
    """Return another GPU whose memory this one reads, or what stands in for it."""
    if not gpu.is_real:
        return gpu.device
    here = torch.cuda.current_device()
    others = (one for one in range(torch.cuda.device_count()) if one != here)
    found = next((one for one in others if torch.cuda.can_device_access_peer(here, one)), None)
    return None if found is None else torch.device("cuda", found)


class Memory:
    """Bytes in all places, which rows of all widths are made of: to draw and pin them takes longer than to gather."""

    def __init__(self, gpu: Gpu, num_bytes: int) -> None:
        self.there = torch.rand(num_bytes // 4, device=gpu.device)
        self.x = self.there.cpu()
        self.pinned = Pinned(self.x)
        peer = peer_of(gpu)
        self.on_peer = None if peer is None else self.x.to(peer, copy=True)


class Rows:
    """Rows of one width in all places, and those to gather."""

    def __init__(self, gpu: Gpu, memory: Memory, row_bytes: int, options: argparse.Namespace) -> None:
        width, count = row_bytes // 4, options.out_bytes // row_bytes
        num_rows = len(memory.x) // width
        self.x, self.there = (one[: num_rows * width].view(num_rows, width) for one in (memory.x, memory.there))
        self.on_peer = None if memory.on_peer is None else memory.on_peer[: num_rows * width].view(num_rows, width)
        ids = torch.randint(num_rows, (count,), generator=torch.Generator().manual_seed(row_bytes))
        self.ids, self.in_order = ids.to(gpu.device), ids.sort().values.to(gpu.device)
        self.out = torch.empty(count, width, device=gpu.device)

    def check(self) -> None:
        """See that what was gathered last are the right rows."""
        if not torch.equal(self.out.cpu(), self.x[self.ids.cpu()]):
            raise ValueError("expected the rows of the ids, got others")

    def gather(self, source: torch.Tensor, *, in_order: bool = False) -> None:
        ops.gather_rows(source, self.in_order if in_order else self.ids, out=self.out, trusted=True)


def timed(gpu: Gpu, rows: Rows, run: Callable[[], Any], _: int) -> Metrics:
    seconds = gpu.seconds(run)
    return {"time": seconds * 1e3, "row rate": rows.out.nbytes / seconds / 1e9}


def width_records(gpu: Gpu, memory: Memory, row_bytes: int, options: argparse.Namespace) -> list[Record]:
    """Measure rows of one width."""
    rows = Rows(gpu, memory, row_bytes, options)
    count = len(rows.ids)
    runs: dict[str, Callable[[], Any]] = {
        HERE: partial(rows.gather, rows.there),
        COPY_HERE: partial(rows.out.copy_, rows.there[:count]),
        TORCH: lambda: torch.index_select(rows.there, 0, rows.ids, out=rows.out),
        PINNED: partial(rows.gather, rows.x),
        IN_ORDER: partial(rows.gather, rows.x, in_order=True),
        COPY_PINNED: lambda: rows.out.copy_(rows.x[:count], non_blocking=True),
    }
    gained = [(HERE, COPY_HERE), (HERE, TORCH), (PINNED, COPY_PINNED), (IN_ORDER, PINNED)]
    if rows.on_peer is not None:
        runs[PEER] = partial(rows.gather, rows.on_peer)
        runs[COPY_PEER] = partial(rows.out.copy_, rows.on_peer[:count], non_blocking=True)
        gained.append((PEER, COPY_PEER))
    for name in {HERE, PINNED, PEER} & runs.keys():
        rows.out.zero_()
        runs[name]()
        rows.check()
    return interleave(
        gpu.bench("gather"),
        f"rows of {row_bytes:,} B",
        [System(name, partial(timed, gpu, rows, run)) for name, run in runs.items()],
        rounds=options.rounds,
        gains=[Gain((ours, 1), (other, 1), "row rate") for ours, other in gained],
        warm_up=warm_up_rounds(options),
    )


def sweep_records(gpu: Gpu, memory: Memory, row_bytes: int, options: argparse.Namespace) -> list[Record]:
    """Measure gathers over the bus by numbers of threads."""
    rows = Rows(gpu, memory, row_bytes, options)

    def gather(threads: int) -> None:
        with threads_of_bus(threads):
            rows.gather(rows.x)

    def system(threads: int) -> System:
        return System(f"{threads:,} threads", partial(timed, gpu, rows, partial(gather, threads)))

    copy = System(COPY_PINNED, partial(timed, gpu, rows, lambda: rows.out.copy_(rows.x[: len(rows.ids)])))
    return interleave(
        gpu.bench("gather by threads"),
        f"rows of {row_bytes:,} B from pinned memory",
        [*map(system, options.threads), copy],
        rounds=options.rounds,
        gains=[Gain((f"{threads:,} threads", 1), (COPY_PINNED, 1), "row rate") for threads in options.threads],
        warm_up=warm_up_rounds(options),
    )


def main(given: Sequence[str] | None = None) -> None:
    parser = gpu_arguments(__doc__, rounds=7)
    parser.add_argument("--row-bytes", type=int, nargs="+", default=[512, 400, 1024, 256, 4096])
    parser.add_argument("--sweep-row-bytes", type=int, nargs="+", default=[400, 1024])
    parser.add_argument("--threads", type=int, nargs="+", default=list(SWEEP), help="of gathers over the bus")
    parser.add_argument("--table-bytes", type=int, default=2 << 30, help="of all rows, more than caches hold")
    parser.add_argument("--out-bytes", type=int, default=256 << 20, help="of the rows that are gathered")
    options = parser.parse_args(given)
    if options.smoke:
        options.table_bytes, options.out_bytes = 1 << 18, 1 << 16
        options.row_bytes, options.sweep_row_bytes, options.threads = [256, 400, 4096], [400], [512, 6144]
    with gpu_of(options) as gpu:
        print(f"{options.table_bytes / 1e9:.1f} GB of rows, of which {options.out_bytes / 1e6:,.0f} MB are gathered")
        records, memory = Measured(options.json), Memory(gpu, options.table_bytes)
        for row_bytes in options.row_bytes:
            records += width_records(gpu, memory, row_bytes, options)
        for row_bytes in options.sweep_row_bytes:
            records += sweep_records(gpu, memory, row_bytes, options)


if __name__ == "__main__":
    main()
