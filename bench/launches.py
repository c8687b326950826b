"""What Python takes to launch the kernels of a minibatch of three hops, by a driver that does nothing.

The kernels run once on what stands in for a GPU, which notes how they were launched; then they are launched again and
again, for nothing. What CuPy's binding and the driver take comes on top: two to four microseconds a launch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from gpu_device import TESTS
from harness import Metrics, System, arguments, describe_machine, interleave, print_table, write_json

import headrace as hr
from headrace.cuda import launch as launching
from headrace.cuda.backend import stand_in
from headrace.cuda.gpu import Gpu
from headrace.ops import BlockSampler, LaborRule, NeighborRule

NODES, EDGES, SEEDS, FANOUTS = 3_000, 30_000, 32, (5, 5, 5)
#: Batches in a round, of which the fastest one counts: others had to share a core.
REPEATS = 200

Launch = Callable[[], None]


class NoDriver:
    """Takes launches, and does nothing."""

    index, most_blocks = 0, 2_000
    #: Return 0, as fast as functions of torch that are written in C.
    current_device = current_stream = int

    def launch_kernel(self, *launch: int) -> None:
        del launch

    def function(self, file: str, name: str) -> Any:
        return SimpleNamespace(ptr=hash((file, name)))

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()


@contextmanager
def noted() -> Iterator[list[Launch]]:
    """Note the calls by which the modules of `headrace.cuda` launch kernels."""
    launches: list[Launch] = []
    launch = launching.launch

    def note(*given: Any, **named: Any) -> None:
        launches.append(partial(launch, *given, **named))
        launch(*given, **named)

    modules = [module for name, module in sys.modules.items() if name.startswith("headrace.cuda.")]
    callers = [module for module in modules if getattr(module, "launch", None) is launch]
    try:
        for module in callers:
            module.launch = note  # type: ignore[attr-defined]
        yield launches
    finally:
        for module in callers:
            module.launch = launch  # type: ignore[attr-defined]


def launches_of(rule: NeighborRule | LaborRule) -> list[Launch]:
    """Return the launches of a batch that is not the first one."""
    sys.path.insert(0, str(TESTS))
    from cuda_host.stand_in import StandIn  # type: ignore[import-not-found]

    generator = torch.Generator().manual_seed(0)
    graph = hr.Graph.from_coo(*torch.randint(NODES, (2, EDGES), generator=generator), num_nodes=NODES)
    with stand_in(StandIn()):
        sampler = BlockSampler(graph.indptr, graph.indices, graph.edge_ids)
        first, second = torch.arange(2 * SEEDS).split(SEEDS)
        how = ([rule] * len(FANOUTS), list(range(len(FANOUTS))))
        sampler.sample(first, *how)
        with noted() as launches:
            sampler.sample(second, *how)
    return launches


def launched(gpu: Gpu, launches: list[Launch], _: int) -> Metrics:
    before = launching.backend_of  # type: ignore[attr-defined]
    launching.backend_of = lambda _device: gpu  # type: ignore[assignment, attr-defined] # for a GPU, a table has it
    try:
        taken = min(_seconds(launches) for _ in range(REPEATS))
    finally:
        launching.backend_of = before  # type: ignore[attr-defined]
    return {"launch time": taken / len(launches) * 1e6, "launches time": taken * 1e6}


def _seconds(launches: list[Launch]) -> float:
    started = time.thread_time()
    for launch in launches:
        launch()
    return time.thread_time() - started


def main() -> None:
    options = arguments(__doc__ or "", rounds=20).parse_args()
    print(describe_machine(["headrace", "torch"]))
    driver: Any = NoDriver()
    records = []
    for name, rule in (("neighbor", NeighborRule(FANOUTS[0])), ("labor", LaborRule(FANOUTS[0]))):
        launches = launches_of(rule)
        case = f"{name}, {len(FANOUTS)} hops, {len(launches)} launches"
        system = System("headrace, a driver that does nothing", partial(launched, Gpu(driver), launches))
        records += interleave("launches", case, [system], rounds=options.rounds)
    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    main()
