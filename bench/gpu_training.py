"""An epoch of training on a GPU: a plain pipeline and all passes; with ``--each-pass`` all but one, too.

A GraphSAGE of three layers. Where batches are copied last, the CPU samples and fetches; where seeds are copied first,
the GPU does. Both are run with all passes, and the first without any (the plain pipeline). ``--each-pass`` adds all but
one, for each that changes the plan, then what a GPU does that has no room for the graph. Every system trains on the
same minibatches, which is checked before anything is timed. How busy the GPU is, torch's profiler says, of some
batches; ``--timeline`` writes what the loader did in them, stage by stage (chrome://tracing).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch
from gpu_device import Gpu, Measured, gpu_arguments, gpu_of, graph_of, seeds_of_round
from gpu_profile import profiled
from graphs import SHAPES
from harness import Gain, Metrics, Record, System, interleave, summarised
from torch import Tensor, nn
from torch.nn import functional
from work import table

import headrace as hr
from headrace.pipeline.passes import PASSES, rewrite

PLAIN, ALL_ON_CPU, ALL_ON_GPU = "CPU samples, no passes", "CPU samples, all passes", "GPU samples, all passes"
CLASSES = 47
#: Of a GPU without room for the graph.
FETCHED: dict[str, dict[str, Any]] = {
    "GPU samples fetched rows, all passes": {},
    "GPU samples fetched rows, all but graph_cache": {"graph_cache": False},
    "GPU samples fetched rows, all but split_sample": {"split_sample": False},
}
#: Half of that of the products data set, for an epoch of some seconds; its generated twin has no nodes of its own.
TRAINING_SHARE = 0.04


class Sage(nn.Module):
    """Layers of mean aggregation."""

    def __init__(self, width: int, hidden: int, num_layers: int) -> None:
        super().__init__()
        widths = [width, *[hidden] * (num_layers - 1), CLASSES]
        self.own = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.others = nn.ModuleList(nn.Linear(*pair, bias=False) for pair in pairwise(widths))

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        x = batch.x
        for own, others, block in zip(self.own, self.others, batch.blocks, strict=True):
            starts = block.indptr[:-1].to(block.indices.dtype)
            mean = functional.embedding_bag(block.indices, x, starts, mode="mean")
            x = own(x[: block.num_dst]) + others(mean)
            x = functional.relu(x) if own is not self.own[-1] else x
        return x


class Training:
    """A model and the loader of its batches."""

    def __init__(self, gpu: Gpu, loader: hr.Loader, width: int, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.gpu, self.loader = gpu, loader
        self.model = Sage(width, options.hidden, len(options.fanouts)).to(gpu.device)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def epoch(self, most: int | None = None) -> int:
        """Train on all batches of an epoch, or on the first ones; return how many."""
        count = 0
        for batch in islice(self.loader, most):
            assert batch.y is not None  # the plan fetches labels
            self.optimiser.zero_grad(set_to_none=True)
            functional.cross_entropy(self.model(batch), batch.y).backward()
            self.optimiser.step()
            count += 1
        return count

    def timed(self, number: int) -> Metrics:
        """Train for an epoch, and say how fast."""
        self.loader.set_epoch(number)
        self.gpu.wait()
        started = time.perf_counter()
        count = self.epoch()
        self.gpu.wait()
        seconds = time.perf_counter() - started
        return {"time": seconds * 1e3, "batch rate": count / seconds}

    def digests(self, most: int) -> list[str]:
        """Return what the first batches of an epoch hold."""
        self.loader.set_epoch(0)
        return [batch.to("cpu").digest() for batch in islice(self.loader, most)]


def plans(graph: hr.Graph, width: int, options: argparse.Namespace) -> tuple[hr.Plan, hr.Plan]:
    """Return the plan that copies batches, and the one that copies seeds."""
    num_items = max(int(options.items * graph.num_nodes), 1)
    y = torch.randint(CLASSES, (graph.num_nodes,), generator=torch.Generator().manual_seed(0))
    store = hr.FeatureStore(node={"x": table(graph.num_nodes, width), "y": y})
    seeds = seeds_of_round(graph.num_nodes, num_items, 0)
    items = hr.ItemSampler(seeds, batch_size=options.batch_size, shuffle=True, seed=1)

    def sampled(plan: hr.Plan) -> hr.Plan:
        plan = plan.sample_layer_neighbor(graph, options.fanouts, edge_ids=False)
        return plan.fetch_feature(store, node=["x"], labels="y")

    return sampled(items).copy_to("cuda"), sampled(items.copy_to("cuda"))


def systems_of(
    batches_last: hr.Plan, seeds_first: hr.Plan, machine: hr.Machine
) -> dict[str, tuple[hr.Plan, dict[str, Any]]]:
    """Return plans and switches by name: each pass that does something is switched off in one of them."""
    optional = [one.name for one in PASSES if one.optional]
    systems: dict[str, tuple[hr.Plan, dict[str, Any]]] = {}
    for who, plan in (("CPU", batches_last), ("GPU", seeds_first)):
        fired = {record.name for record in rewrite(plan, machine).records if record.fired}
        switches = {"no passes": dict.fromkeys(optional, False), "all passes": {}}
        switches |= {f"all but {name}": {name: False} for name in optional if name in fired}
        systems |= {f"{who} samples, {name}": (plan, off) for name, off in switches.items()}
    return systems


def check_same_batches(trainings: Mapping[str, Training], most: int) -> None:
    """Refuse to compare systems that train on other batches."""
    digests = {name: training.digests(most) for name, training in trainings.items()}
    differing = [name for name, found in digests.items() if found != digests[PLAIN]]
    if differing:
        raise ValueError(f"expected the same minibatches from all systems, got others from {', '.join(differing)}")


def gains_of(names: Iterable[str]) -> list[Gain]:
    """Compare all passes with none and with all but one, and with the plain pipeline."""
    pairs = [(all_of_them, name) for all_of_them in (ALL_ON_CPU, ALL_ON_GPU) for name in names]
    same_place = [(ours, name) for ours, name in pairs if ours != name and ours[:3] == name[:3]]
    return [Gain((ours, 1), (name, 1)) for ours, name in [(ALL_ON_GPU, PLAIN), *same_place]]


def busy_records(gpu: Gpu, case: str, name: str, training: Training, most: int) -> list[Record]:
    training.loader.set_epoch(0)
    profile = profiled(gpu, partial(training.epoch, most))
    found = {
        "GPU busy": ("%", 100 * profile.busy / profile.wall),
        "kernels": ("a batch", profile.kernels / most),
        "launch time": ("ms", profile.launching / most * 1e3),
    }
    return [
        summarised(gpu.bench("training"), case, name, metric, unit, [value], 1)
        for metric, (unit, value) in found.items()
    ]


def without_room(graph: hr.Graph, machine: hr.Machine) -> hr.Machine:
    """Return a machine whose GPU has no room for the graph, as far as passes know: its rows are fetched and cached."""
    return replace(machine, gpus=1, gpu_memory=(graph.indptr.nbytes + graph.indices.nbytes,))


def records_of(gpu: Gpu, options: argparse.Namespace) -> None:
    where, graph, width = graph_of(gpu, options)
    batches_last, seeds_first = plans(graph, width, options)
    machine = gpu.machine()
    fanouts = ",".join(map(str, options.fanouts))
    case = f"LABOR-0, {where}, {options.items:.0%} of the nodes, batch {options.batch_size}, fanouts {fanouts}"
    print(f"graph {where}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {width} float32 a node; {machine}")
    with ExitStack() as stack:
        trainings = {}
        small = without_room(graph, machine)
        # A graph of its own: what is on the GPU already is never fetched.
        _, fetched = plans(hr.Graph.from_csc(graph.indptr, graph.indices), width, options)
        systems = [(name, *found, machine) for name, found in systems_of(batches_last, seeds_first, machine).items()]
        systems += [(name, fetched, switches, small) for name, switches in FETCHED.items()]
        if not options.each_pass:
            systems = [system for system in systems if system[0] in (PLAIN, ALL_ON_CPU, ALL_ON_GPU)]
        for name, plan, switches, planned_for in systems:
            loader = stack.enter_context(plan.loader(machine=planned_for, **switches))
            trainings[name] = Training(gpu, loader, width, options)
        check_same_batches(trainings, options.profiled)
        records = Measured(options.json)
        records += interleave(
            gpu.bench("training"),
            case,
            [System(name, training.timed) for name, training in trainings.items()],
            rounds=options.rounds,
            gains=gains_of(trainings),
            warm_up=1,
        )
        for name, training in trainings.items():
            records += busy_records(gpu, case, name, training, options.profiled)
        if options.timeline is not None:
            trainings[ALL_ON_GPU].loader.profile(options.timeline)


def own_stream(gpu: Gpu, options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Return a stream to train on that is not torch's default one, if that is wanted."""
    return torch.cuda.stream(torch.cuda.Stream()) if options.own_stream and gpu.is_real else nullcontext()


def main(given: Sequence[str] | None = None) -> None:
    parser = gpu_arguments(__doc__, rounds=3)
    parser.add_argument("--shape", default="products", choices=sorted(SHAPES))
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10])
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--items", type=float, default=TRAINING_SHARE, help="share of the nodes that is trained on")
    parser.add_argument("--profiled", type=int, default=20, help="batches under the profiler")
    parser.add_argument("--timeline", type=Path, metavar="PATH", help="where to write what the loader did")
    parser.add_argument("--each-pass", action="store_true", help="also without each pass, and with fetched rows")
    parser.add_argument("--own-stream", action="store_true", help="train on another stream than the default one")
    options = parser.parse_args(given)
    if options.smoke:
        options.batch_size, options.fanouts, options.hidden, options.profiled = 8, [3, 2], 8, 1
        options.items, options.each_pass = 0.02, True
    with gpu_of(options) as gpu, own_stream(gpu, options):
        records_of(gpu, options)


if __name__ == "__main__":
    main()
