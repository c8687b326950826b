"""Gathering feature rows: headrace beside torch.index_select, and both beside what the memory allows.

Rows of several widths are read by random ids from a table of as many rows as ogbn-products has nodes. The limits are
a straight copy of as many bytes, and reading the same rows without writing them; a gather does both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import limits
import torch
from graphs import SHAPES
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    add_threads,
    arguments,
    describe_machine,
    interleave,
    print_table,
    write_json,
)
from plot import draw_bars

from headrace import ops

OURS, TORCH = "headrace", "torch.index_select"
COPY, READ = "limit: straight copy", "limit: rows only read"
BATCHES = 4

Rows = Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]


def gathered(gather: Rows, batches: list[torch.Tensor], out: torch.Tensor | None, threads: int, number: int) -> Metrics:
    ids = batches[number % len(batches)]
    torch.set_num_threads(threads)
    started = time.perf_counter()
    rows = gather(ids, out)
    return moved(time.perf_counter() - started, rows)


def moved(seconds: float, rows: torch.Tensor) -> Metrics:
    num_bytes = rows.numel() * rows.element_size()
    return {"time": seconds * 1e3, "row rate": num_bytes / seconds / 1e9, "inputs": len(rows)}


def bounded(
    limit: str, x: torch.Tensor, batches: list[torch.Tensor], out: torch.Tensor, threads: int, number: int
) -> Metrics:
    ids = batches[number % len(batches)]
    seconds = limits.copying(x, out, threads) if limit == COPY else limits.reading(x, ids, threads)
    return moved(seconds, out)


def width_records(
    num_rows: int, width: int, batches: list[torch.Tensor], threads: list[int], rounds: int, *, huge_pages: bool = False
) -> list[Record]:
    """Measure one width, into fresh memory and into memory that is kept, from ordinary pages or from huge ones.

    Fresh memory costs page faults, which hide the gather itself; a loader that keeps its buffers does not pay them.
    """
    x = torch.ones(num_rows, width)
    place = ""
    if huge_pages:
        place = f", {ops.use_huge_pages(x) / x.nbytes:.0%} of the table in huge pages"
    kept = torch.zeros(len(batches[0]), width)
    gains = [Gain((OURS, count), (TORCH, count), metric) for count in threads for metric in ("time", "inputs")]
    gains += [Gain((OURS, count), (OURS, min(threads))) for count in threads if count > min(threads)]
    gains += [Gain((OURS, count), (limit, count), "row rate") for limit in (COPY, READ) for count in threads]
    records = []
    for name, out in (("fresh output", None), ("kept output", kept)):
        systems = []
        for count in threads:
            headrace = partial(_headrace, x, count)
            systems.append(System(OURS, partial(gathered, headrace, batches, out, count), count))
            systems.append(System(TORCH, partial(gathered, partial(_torch, x), batches, out, count), count))
            if out is not None:
                systems += [
                    System(limit, partial(bounded, limit, x, batches, out, count), count) for limit in (COPY, READ)
                ]
        case = f"{num_rows:,} rows of {width} float32 ({4 * width} B), {len(kept):,} ids, {name}{place}"
        records += interleave("gather", case, systems, rounds=rounds, gains=gains)
    return records


def _headrace(x: torch.Tensor, threads: int, ids: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return ops.gather_rows(x, ids, out=out, num_threads=threads)


def _torch(x: torch.Tensor, ids: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return torch.index_select(x, 0, ids, out=out)


def probe_records(num_rows: int, batches: list[torch.Tensor], threads: list[int], rounds: int) -> list[Record]:
    """Measure one random access: waiting for it, and with many on their way at once."""
    following = limits.chain(num_rows * 8)
    lines = torch.from_numpy(following).view(-1, 8)

    def waiting(_: int) -> Metrics:
        return {"access time": limits.latency(following) * 1e9}

    def overlapped(count: int, number: int) -> Metrics:
        ids = batches[number % len(batches)]
        return {"access time": limits.reading(lines, ids, count) / len(ids) * 1e9}

    systems = [System("each waits for the one before", waiting)]
    systems += [System("many at once", partial(overlapped, count), count) for count in threads]
    return interleave("gather", f"random accesses to {num_rows * 64 / 1e6:,.0f} MB", systems, rounds=rounds)


def main() -> None:
    parser = arguments(__doc__ or "")
    add_threads(parser)
    parser.add_argument("--rows", type=int, default=SHAPES["products"].num_nodes, help="of the table")
    parser.add_argument("--ids", type=int, default=800_000, help="rows of a batch (default: %(default)s)")
    parser.add_argument(
        "--widths", type=int, nargs="+", default=[1, 16, 100, 256, 602], help="float32 columns (default: %(default)s)"
    )
    parser.add_argument(
        "--huge-page-widths", type=int, nargs="*", default=[100], help="those measured in huge pages as well"
    )
    options = parser.parse_args()

    print(describe_machine(["headrace", "torch"]))
    random = torch.Generator().manual_seed(0)
    batches = [torch.randint(options.rows, (options.ids,), generator=random) for _ in range(BATCHES)]
    records = probe_records(options.rows, batches, options.threads, options.rounds)
    for width in options.widths:
        records += width_records(options.rows, width, batches, options.threads, options.rounds)
    for width in options.huge_page_widths:
        records += width_records(options.rows, width, batches, options.threads, options.rounds, huge_pages=True)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "row rate")


if __name__ == "__main__":
    main()
