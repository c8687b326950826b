"""How many threads of a GPU read rows of the host: as many as keep the bus busy, by a short measurement.

More threads would only wait for the bus, on processors that other kernels could use; fewer leave it idle. PCI Express
of generation 3 is busy with 6,144 (GraphBolt's lecture, 2023), faster buses need more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import perf_counter

import torch
from torch import Tensor

from headrace.cuda.launch import launch
from headrace.cuda.streams import synchronize

#: What is measured.
CANDIDATES = (4_096, 6_144, 10_240, 16_384, 32_768)
#: The fewest threads are taken that read at this part of the best rate.
ENOUGH = 0.97
#: Of rows that are read for it: of 512 bytes, as many as take a fast bus 0.3 ms.
_ROW_WORDS, _NUM_ROWS = 32, 1 << 15
_ROUNDS = 4

_LOCK = threading.Lock()
_measured: dict[torch.device, int] = {}
_given: int | None = None


def use_threads(count: int | None) -> None:
    """Let gathers of this process read memory of the host with so many threads; None for as many as are measured."""
    global _given  # noqa: PLW0603 - one setting for the process
    _given = count


def threads_of_bus(device: torch.device) -> int:
    """Return how many threads read memory of the host: those that were given, or measured at the first call."""
    if _given is not None:
        return _given
    with _LOCK:
        if device not in _measured:
            _measured[device] = fewest(measured(device))
        return _measured[device]


def fewest(rates: Mapping[int, float]) -> int:
    """Return the fewest threads of which the rate is close to the best."""
    best = max(rates.values())
    return min(threads for threads, rate in rates.items() if rate >= ENOUGH * best)


def measured(device: torch.device, num_rows: int | None = None) -> dict[int, float]:
    """Return the bytes that each number of threads reads in a second, the best of some rounds. Waits for the device."""
    on_gpu = device.type == "cuda"
    size = (_NUM_ROWS if on_gpu else 64) if num_rows is None else num_rows  # what stands in for a GPU takes long
    table = torch.zeros(size, 2 * _ROW_WORDS, dtype=torch.int64, pin_memory=on_gpu, device="cpu")
    ids = torch.arange(size, dtype=torch.int64, device=device).flip(0)
    out = torch.empty(size, 2 * _ROW_WORDS, dtype=torch.int64, device=device)

    def read(threads: int) -> None:
        arguments = (table.data_ptr(), _ROW_WORDS, ids, size, _ROW_WORDS, None, out, None)
        launch("gather_rows", (ids.dtype, "uint4"), threads, *arguments, device=device)

    seconds: dict[int, float] = {}
    for _ in range(_ROUNDS):
        for threads in CANDIDATES:
            taken = _seconds(lambda threads=threads: read(threads), out)  # type: ignore[misc]
            seconds[threads] = min(taken, seconds.get(threads, taken))
    return {threads: table.nbytes / max(taken, 1e-9) for threads, taken in seconds.items()}


def _seconds(run: Callable[[], None], out: Tensor) -> float:
    """Return how long a launch takes on the current stream."""
    if not out.is_cuda:
        begin = perf_counter()
        run()
        synchronize(out.device)
        return perf_counter() - begin
    stream = torch.cuda.current_stream(out.device)
    start = stream.record_event(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
    run()
    end = stream.record_event(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3
