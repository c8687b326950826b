"""The GPU that a benchmark measures or, where one is only tried out, what stands in for it in tests.

``--smoke`` works on few rows and a small graph: for compute-sanitizer on a GPU, and without one to see that a script
runs. Records of the stand-in belong to no benchmark that the report knows, as their times mean nothing.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import harness
import torch
from graphs import PARETO, SHAPES, Shape
from harness import Record, arguments, describe_machine, print_table, write_json
from typing_extensions import Self

import headrace as hr
from headrace.cuda.backend import stand_in

TESTS = Path(__file__).resolve().parent.parent / "tests"
SMALL = Shape(600, 5_000, 8)
#: Cycles that a GPU sleeps while kernels are launched: some milliseconds.
LAUNCHING = 10_000_000


class Measured(list[Record]):
    """Records, printed and written to a file each time that some are added: a run that is cut off has what it measured.

    Parameters
    ----------
    path
        The file, or None.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path

    def __iadd__(self, records: Iterable[Record]) -> Self:  # type: ignore[override, misc]
        added = list(records)
        self.extend(added)
        print_table(added)
        sys.stdout.flush()
        write_json(self._path, self)
        return self


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
    harness.REST = 0.0  # a GPU needs none
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


def graph_of(gpu: Gpu, options: argparse.Namespace) -> tuple[str, hr.Graph, int]:
    """Return the name, the graph and the width of features of ``--shape``, or of a small graph.

    Its edges are drawn on the GPU, which takes a second where a CPU takes minutes.
    """
    shape = SMALL if options.smoke else SHAPES[options.shape]
    indptr, indices = skewed_csc(shape, gpu.device)
    name = f"{SMALL.num_nodes} nodes" if options.smoke else f"sizes of {options.shape}"
    return name, hr.Graph.from_csc(indptr.cpu(), indices.cpu()), shape.width


def skewed_csc(shape: Shape, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a graph of Pareto popularity on a device: indptr, int64[num_nodes + 1], and indices, int32[num_edges].

    Edges that are drawn twice are there once. Other devices draw other edges.
    """
    generator = torch.Generator(device).manual_seed(0)

    def drawn(count: int) -> torch.Tensor:
        return torch.rand(count, dtype=torch.float64, device=device, generator=generator)

    up_to = (1 - drawn(shape.num_nodes)).pow(-1 / PARETO).cumsum(0)
    src, dst = (
        torch.searchsorted(up_to, drawn(shape.num_edges) * up_to[-1]).clamp_(max=shape.num_nodes - 1) for _ in range(2)
    )
    edges = torch.unique(dst * shape.num_nodes + src)
    bounds = torch.arange(shape.num_nodes + 1, device=device) * shape.num_nodes
    return torch.searchsorted(edges, bounds), (edges % shape.num_nodes).to(torch.int32)


def seeds_of_round(num_nodes: int, batch_size: int, number: int) -> torch.Tensor:
    """Return the unique seeds of a round, int64[batch_size], the same for every system."""
    return torch.randperm(num_nodes, generator=torch.Generator().manual_seed(number))[:batch_size]
