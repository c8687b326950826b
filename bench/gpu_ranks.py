"""Ranks of one machine with a GPU each: shares of plain data parallelism, and minibatches that ranks make together.

Starts a process for each GPU, four at most; without GPUs two processes of the CPU, which exchange by gloo. First the
seeds of all shares, and the input nodes of all ranks, are compared with the batches of one process; then epochs are
timed. Shares are timed with rows in memory of the host, and with rows over the GPUs of all ranks, which each reads in
place, where GPUs reach each other. On a machine of one GPU there is nothing to do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice, permutations
from typing import Any

import torch
import torch.distributed as dist
from gpu_device import Gpu, Measured, gpu_arguments, gpu_of, graph_of, seeds_of_round
from graphs import SHAPES
from harness import Metrics, Record, System, interleave
from work import identified, table

import headrace as hr

SHARES, TOGETHER, PEERS = "shares of ranks", "ranks together", "shares, rows on all GPUs"
BOTH = (SHARES, TOGETHER)
MOST_RANKS = 4


def gathered(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensors of all ranks, one after the other, on the CPU."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, tensor.cpu())
    return torch.cat(found)


def check(plan: hr.Plan, loader: hr.Loader, name: str, most: int, machine: hr.Machine) -> None:
    """Compare the first batches of all ranks with those of one process.

    Raises
    ------
    ValueError
        If they are others, or rows are those of other nodes.
    """
    with plan.loader(rank=0, world_size=1, machine=machine) as alone:
        for batch, whole in zip(islice(loader, most), islice(alone, most), strict=True):
            identified(batch.x.cpu(), batch.n_id.cpu())
            field = "n_id" if name == TOGETHER else "seeds"  # ranks together may read a node's row in two places
            found, expected = gathered(getattr(batch, field)), getattr(whole, field).cpu()
            if not torch.equal(found.unique(), expected.unique()):
                raise ValueError(f"{name}: expected the {field} of one process from all ranks, got others")


def timed(gpu: Gpu, loader: hr.Loader, number: int) -> Metrics:
    """Load an epoch, and say how fast."""
    loader.set_epoch(number)
    dist.barrier()
    batches = [0]

    def run() -> None:
        batches[0] = sum(1 for _ in loader)

    seconds = gpu.wall_seconds(run)
    return {"time": seconds * 1e3, "batch rate": batches[0] / seconds}


def reach_each_other(num_gpus: int) -> bool:
    """Whether each of the first GPUs reads memory of the others."""
    pairs = permutations(range(num_gpus), 2)
    return all(torch.cuda.can_device_access_peer(here, there) for here, there in pairs)


def over_gpus(x: torch.Tensor, gpu: Gpu) -> hr.TieredFeature:
    """Return rows distributed over the GPUs of all ranks, or over memory of processes that stands in for theirs."""
    sizes = {"interleaved": len(x), "num_devices": dist.get_world_size()}
    here = hr.Place("cuda", torch.cuda.current_device() if gpu.is_real else dist.get_rank())
    return hr.TieredFeature(x, torch.arange(len(x)), sizes, devices=[here], stand_ins=not gpu.is_real, peers=True)


def records_of(gpu: Gpu, options: argparse.Namespace) -> list[Record]:
    where, graph, width = graph_of(gpu, options)
    seeds = seeds_of_round(graph.num_nodes, options.batches * options.batch_size, 0)
    x = table(graph.num_nodes, width)
    items: hr.Plan = hr.ItemSampler(seeds, batch_size=options.batch_size, shuffle=True, seed=1)
    if gpu.is_real:
        items = items.copy_to("cuda")
    sampled = items.sample_neighbor(graph, options.fanouts)
    plan = sampled.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
    machine = hr.Machine.detect() if gpu.is_real else hr.Machine(cores=1)
    fanouts = ",".join(map(str, options.fanouts))
    case = f"NS, {where}, {dist.get_world_size()} ranks, batch {options.batch_size}, fanouts {fanouts}"
    with ExitStack() as opened:
        loaders = {
            name: opened.enter_context(plan.loader(machine=machine, cooperative=name == TOGETHER)) for name in BOTH
        }
        if not gpu.is_real or reach_each_other(dist.get_world_size()):
            peers = over_gpus(x, gpu)
            opened.callback(peers.close)
            fetched = sampled.fetch_feature(hr.FeatureStore(node={"x": peers}), node=["x"])
            loaders[PEERS] = opened.enter_context(fetched.loader(machine=machine))
        for name, loader in loaders.items():
            check(plan, loader, name, options.batches, machine)
        systems = [System(name, partial(timed, gpu, loader)) for name, loader in loaders.items()]
        return interleave(gpu.bench("ranks"), case, systems, rounds=options.rounds, warm_up=1)


def run_rank(options: argparse.Namespace) -> None:
    """Be one of the ranks; the first one writes the records."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
        found = records_of(Gpu(device, is_real=torch.cuda.is_available()), options)
        if dist.get_rank() == 0:
            records = Measured(options.json)
            records += found
    finally:
        dist.destroy_process_group()


def main(given: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if given is None else given
    parser = gpu_arguments(__doc__, rounds=3)
    parser.add_argument("--shape", default="small", choices=sorted(SHAPES))
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=20, help="of an epoch (default: %(default)s)")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10])
    options = parser.parse_args(given)
    if options.smoke:
        options.batch_size, options.batches, options.fanouts, options.rounds = 16, 3, [3, 2], 1
    if "RANK" in os.environ:
        run_rank(options)
        return
    with gpu_of(options):
        pass
    ranks = min(torch.cuda.device_count(), MOST_RANKS) if torch.cuda.is_available() else 2
    if ranks < 2:
        print("one GPU: no ranks to compare")
        return
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", __file__]
    subprocess.run([*command, *given], check=True)


if __name__ == "__main__":
    main()
