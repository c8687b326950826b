"""Minibatches of whole plans on a GPU: how fast they come, and how often the host waits for the device in each.

Seeds are copied to the GPU first; it samples and fetches. The first round makes tables and compiles kernels, and does
not count. Waits are those that ``torch.cuda.set_sync_debug_mode`` warns of; those of a stand-in tests count.
Beside each plan stands the same one with the CPU sampling.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice

import torch
from gpu_device import TESTS, Gpu, Measured, gpu_arguments, gpu_of, graph_of, seeds_of_round
from graphs import SHAPES
from harness import Gain, Metrics, Record, System, interleave, summarised

import headrace as hr
from headrace.cuda.backend import stand_in

HERE, CPU = "sampled by the GPU", "sampled by the CPU"
Make = Callable[[hr.Plan], hr.Plan]


class Data:
    """A graph in its forms, and features."""

    def __init__(self, gpu: Gpu, options: argparse.Namespace) -> None:
        self.where, self.plain, width = graph_of(gpu, options)
        num_nodes, num_edges = self.plain.num_nodes, self.plain.num_edges
        self.x = hr.FeatureStore(node={"x": torch.rand(num_nodes, width)})
        target = torch.arange(num_nodes).repeat_interleave(self.plain.in_degrees())
        ends = torch.stack([self.plain.indices.long(), target])
        self.edges = ends[:, :: max(num_edges // 100_000, 1)].t().contiguous()
        half = num_nodes // 2
        side = ends >= half
        types = {name: (side[0] == bool(a)) & (side[1] == bool(b)) for name, (a, b) in RELATIONS.items()}
        self.typed = hr.Graph.from_coo(
            {
                ("ab"[RELATIONS[name][0]], name, "ab"[RELATIONS[name][1]]): tuple(
                    ends[row, kept] - half * RELATIONS[name][row] for row in range(2)
                )
                for name, kept in types.items()
            },
            num_nodes={"a": half, "b": num_nodes - half},
        )
        times = torch.randint(1000, (num_edges,), generator=torch.Generator().manual_seed(0))
        self.timed = hr.Graph.from_coo(*ends, num_nodes=num_nodes, edge_attrs={"time": times})


#: Types of the ends of relations, 0 for "a" and 1 for "b".
RELATIONS = {"aa": (0, 0), "ab": (0, 1), "ba": (1, 0), "bb": (1, 1)}


def plans(data: Data, options: argparse.Namespace) -> dict[str, tuple[hr.Plan, Make]]:
    """Return items and the rest of each plan, by name."""
    count, fanouts, sizes = options.batches * options.batch_size, options.fanouts, {"batch_size": options.batch_size}
    seeds = seeds_of_round(data.plain.num_nodes // 2, count, 0)
    items = hr.ItemSampler(seeds, **sizes)
    timed = hr.ItemSampler(seeds, time=torch.full_like(seeds, 500), **sizes)

    def fetched(sample: Make) -> Make:
        return lambda plan: sample(plan).fetch_feature(data.x, node=["x"])

    def links(plan: hr.Plan) -> hr.Plan:
        plan = plan.sample_uniform_negative(data.plain, 1).exclude_seed_edges()
        return plan.sample_neighbor(data.plain, fanouts)

    return {
        "NS": (items, fetched(lambda plan: plan.sample_neighbor(data.plain, fanouts))),
        "LABOR-0": (items, fetched(lambda plan: plan.sample_layer_neighbor(data.plain, fanouts))),
        "LABOR-*": (items, fetched(lambda plan: plan.sample_layer_neighbor(data.plain, fanouts, importance="*"))),
        "NS of new nodes": (items, fetched(lambda plan: plan.sample_neighbor(data.plain, fanouts, expand="new"))),
        "types": (hr.ItemSampler({"a": seeds}, **sizes), lambda plan: plan.sample_neighbor(data.typed, fanouts)),
        "times": (timed, fetched(lambda plan: plan.sample_neighbor(data.timed, fanouts, time="time"))),
        "links": (hr.ItemSampler(data.edges[:count], **sizes), fetched(links)),
    }


@contextmanager
def counted_waits(gpu: Gpu) -> Iterator[Callable[[], int]]:
    """Count waits of the host for the GPU; yields what returns how many there were."""
    if gpu.is_real:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield lambda: sum("synchronizing CUDA operation" in str(one.message) for one in caught)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return
    sys.path.insert(0, str(TESTS))
    try:
        counting = importlib.import_module("cuda_host.device_work").CountingStandIn()
    finally:
        sys.path.remove(str(TESTS))
    with stand_in(counting), counting.counting() as here:
        yield lambda: sum(len(work.waits) for work in [here, *counting.batches])


def timed(gpu: Gpu, loader: hr.Loader, _: int) -> Metrics:
    """Load an epoch, and say how fast."""
    found = {"edges": 0, "batches": 0}

    def run() -> None:
        for batch in loader:
            found["edges"] += sum(block.num_edges for block in batch.blocks)
            found["batches"] += 1

    seconds = gpu.wall_seconds(run)
    return {
        "time": seconds * 1e3,
        "batch rate": found["batches"] / seconds,
        "edge rate": found["edges"] / seconds / 1e6,
        "edges": found["edges"],
    }


def plan_records(
    gpu: Gpu, name: str, where: str, items: hr.Plan, rest: Make, options: argparse.Namespace
) -> list[Record]:
    """Measure a plan, and count its waits."""
    fanouts = ",".join(map(str, options.fanouts))
    case = f"{name}, {where}, batch {options.batch_size}, fanouts {fanouts}"
    machine = gpu.machine()
    seeds_first = rest(items.copy_to("cuda"))
    with seeds_first.loader(machine=machine) as here, rest(items).copy_to("cuda").loader(machine=machine) as cpu:
        first, second = (batch.to("cpu").digest() for loader in (here, cpu) for batch in islice(loader, 1))
        if first != second:
            raise ValueError(f"{case}: expected the same minibatch from both, got others")
        systems = [System(HERE, partial(timed, gpu, here)), System(CPU, partial(timed, gpu, cpu))]
        gains = [Gain((HERE, 1), (CPU, 1)), Gain((HERE, 1), (CPU, 1), "edges")]
        records = interleave(gpu.bench("plans"), case, systems, rounds=options.rounds, gains=gains, warm_up=1)
        with counted_waits(gpu) as waits:
            count = sum(1 for _ in here)
            found = waits() / count
    return [*records, summarised(gpu.bench("plans"), case, HERE, "waits", "a batch", [found], 1)]


def main(given: Sequence[str] | None = None) -> None:
    parser = gpu_arguments(__doc__, rounds=3)
    parser.add_argument("--shape", default="small", choices=sorted(SHAPES))
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=20, help="of an epoch (default: %(default)s)")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10])
    options = parser.parse_args(given)
    if options.smoke:
        options.batch_size, options.batches, options.fanouts = 8, 3, [3, 2]
    with gpu_of(options) as gpu:
        data, records = Data(gpu, options), Measured(options.json)
        for name, (items, rest) in plans(data, options).items():
            records += plan_records(gpu, name, data.where, items, rest, options)


if __name__ == "__main__":
    main()
