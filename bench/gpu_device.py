"""The GPU that a benchmark measures or, where one is only tried out, what stands in for it in tests.

``--smoke`` works on few rows and a small graph: for compute-sanitizer on a GPU, and without one to see that a script
runs. Records of the stand-in belong to no benchmark that the report knows, as their times mean nothing.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graphs import SHAPES, Shape, cached_csc, skewed_edges
from harness import arguments, describe_machine

import headrace as hr
from headrace.cuda.backend import stand_in

TESTS = Path(__file__).resolve().parent.parent / "tests"
SMALL = Shape(600, 5_000, 8)
#: Cycles that a GPU sleeps while kernels are launched: some milliseconds.
LAUNCHING = 10_000_000


@dataclass(frozen=True)
class Gpu:
    """What is measured.

    Parameters
    ----------
    device
        Where tensors are.
    is_real
        Whether it is a GPU, and nothing that stands in for one.
    launches
        Of what stands in: the kernels that it was given so far.
    """

    device: torch.device
    is_real: bool
    launches: Sequence[str] = ()

    def bench(self, part: str) -> str:
        """Return the name of a benchmark for its records."""
        return f"gpu: {part}" if self.is_real else f"stand-in: {part}"

    def machine(self) -> hr.Machine:
        """Return the machine that passes plan for."""
        if self.is_real:
            return hr.Machine.detect()
        return hr.Machine(cores=2, gpus=1, memory=1 << 30, gpu_memory=(1 << 30,))

    def wait(self) -> None:
        """Wait for all that was launched."""
        if self.is_real:
            torch.cuda.synchronize()

    def seconds(self, run: Callable[[], Any]) -> float:
        """Return the seconds that the device takes for what a function launches, between two events.

        The device waits in front of them until all is launched: what it takes the host to launch is not counted.
        """
        if not self.is_real:
            return self.wall_seconds(run)
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(LAUNCHING)  # noqa: SLF001 - as torch's own benchmarks do
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) / 1e3

    def wall_seconds(self, run: Callable[[], Any]) -> float:
        """Return the seconds from the call of a function to the end of all that it launched."""
        self.wait()
        started = time.perf_counter()
        run()
        self.wait()
        return time.perf_counter() - started


def gpu_arguments(description: str | None, *, rounds: int = 15) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark of GPUs has."""
    parser = arguments(description or "", rounds=rounds)
    parser.add_argument("--smoke", action="store_true", help="few rows and a small graph; needs no GPU")
    return parser


@contextmanager
def gpu_of(options: argparse.Namespace) -> Iterator[Gpu]:
    """Find the GPU, and print what it is: the first lines of what a benchmark prints."""
    if not torch.cuda.is_available() and not options.smoke:
        sys.exit("torch finds no GPU here; bench/gpu.sh says how benchmarks of GPUs are run, and --smoke tries them")
    if options.smoke:
        options.rounds = 1
    installed = {name.lower() for name in metadata.packages_distributions().get("cupy", [])}
    print(describe_machine(["headrace", "torch", *sorted(installed)]))
    if torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
        properties = torch.cuda.get_device_properties(device)
        processors = f"{properties.multi_processor_count} multiprocessors"
        print(f"{properties.name}, {properties.total_memory / 1e9:,.0f} GB, {processors}, CUDA {torch.version.cuda}")
        yield Gpu(device, is_real=True)
        return
    print("no GPU: a stand-in, whose times mean nothing")
    sys.path.insert(0, str(TESTS))
    try:
        backend = importlib.import_module("cuda_host.stand_in").StandIn()
    finally:
        sys.path.remove(str(TESTS))
    with stand_in(backend):
        yield Gpu(torch.device("cpu"), is_real=False, launches=backend.launches)


def warm_up_rounds(options: argparse.Namespace) -> int:
    """Return how many rounds do not count."""
    return 1 if options.smoke else 3


def graph_of(options: argparse.Namespace) -> tuple[str, hr.Graph, int]:
    """Return the name, the graph and the width of features of ``--shape``, or of a small graph."""
    if not options.smoke:
        folder, shape = cached_csc(options.shape), SHAPES[options.shape]
        arrays = (np.load(folder / f"{name}.npy") for name in ("indptr", "indices"))
        return options.shape, hr.Graph.from_csc(*arrays), shape.width
    graph = hr.Graph.from_coo(*skewed_edges(SMALL, seed=0), num_nodes=SMALL.num_nodes)
    return f"{SMALL.num_nodes} nodes", graph, SMALL.width


def seeds_of_round(num_nodes: int, batch_size: int, number: int) -> torch.Tensor:
    """Return the unique seeds of a round, int64[batch_size], the same for every system."""
    return torch.randperm(num_nodes, generator=torch.Generator().manual_seed(number))[:batch_size]
