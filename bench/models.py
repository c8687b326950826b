"""What a step of training costs by how the model gets its batch: trimmed by PyG, with pairs, as blocks, or padded.

GraphSAGE of three layers with a mean, over batches of `headrace.pyg.NeighborLoader` and of a plan, whose layers have
about as many edges; on blocks also in bfloat16. A step is forward, loss and backward. Batches are made before:
bench/loader.py times loading.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graphs import SHAPES, cached_csc
from harness import Gain, Metrics, System, add_threads, arguments, describe_machine, interleave, print_table, write_json
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric import utils
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

import headrace as hr
from headrace import pyg

FANOUTS, CLASSES = [10, 10, 10], 47
PAIRS, TRIMMED, BLOCKS = "pyg.trim_to_layer, pairs", "PyG's trim_to_layer", "blocks, hr.nn"
HALF = "blocks, hr.nn, bfloat16"
COMPILED = "blocks, hr.nn, torch.compile"
PADDED, PADDED_COMPILED = "padded blocks, hr.nn", "padded blocks, hr.nn, torch.compile"


class OfPyG(nn.Module):
    """GraphSAGE of PyG's layers on the batches of `headrace.pyg`.

    Parameters
    ----------
    widths
        Columns, of the input first.
    pairs
        Whether layers get pairs.
    """

    def __init__(self, widths: list[int], pairs: bool) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(*ends) for ends in pairwise(widths)])
        self.pairs = pairs

    def forward(self, batch: Data) -> Tensor:
        x, edge_index = batch.x, batch.edge_index
        for i, conv in enumerate(self.convs):
            per_hop = batch.num_sampled_nodes, batch.num_sampled_edges
            if self.pairs:
                x, edge_index, _ = pyg.trim_to_layer(i, *per_hop, x, edge_index, conv=conv)
            else:
                x, edge_index, _ = utils.trim_to_layer(i, *per_hop, x, edge_index)
            x = conv(x, edge_index)
            x = x.relu() if i < len(self.convs) - 1 else x
        return x[: batch.batch_size]


class OnBlocks(nn.Module):
    """The same of our layers on the blocks of a minibatch."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.convs = nn.ModuleList([hr.nn.SAGEConv(*ends) for ends in pairwise(widths)])

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        x = batch.x
        for i, (conv, block) in enumerate(zip(self.convs, batch.blocks, strict=True)):
            x = conv(x, block)
            x = x.relu() if i < len(self.convs) - 1 else x
        return x


def step(model: nn.Module, batches: list[Any], labels: Callable[[Any], Tensor], threads: int, number: int) -> Metrics:
    torch.set_num_threads(threads)
    batch = batches[number % len(batches)]
    model.zero_grad()
    for block in getattr(batch, "blocks", ()):
        vars(block).pop("transposed", None)  # a new batch has to make it
    started = time.perf_counter()
    cross_entropy(model(batch), labels(batch)).backward()
    return {"time": (time.perf_counter() - started) * 1e3}


def sizes_of_work(description: str, batches: int) -> argparse.ArgumentParser:
    """Return a parser of what `Work` is made of, with a number of batches by default."""
    parser = arguments(description, rounds=5)
    add_threads(parser)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="products")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batches", type=int, default=batches, help="of an epoch (default: %(default)s)")
    return parser


@dataclass(frozen=True)
class Work:
    """The same batches as a plan and as a loader of `headrace.pyg`, and the widths of the model."""

    folder: Path
    items: Tensor
    x: Tensor
    plan: hr.Plan
    loader: pyg.NeighborLoader
    widths: list[int]
    case: str


def work_of(options: argparse.Namespace, *, shuffle: bool) -> Work:
    folder, shape = cached_csc(options.shape), SHAPES[options.shape]
    indptr, indices = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices"))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape.num_nodes, shape.width, generator=generator)
    y = torch.randint(CLASSES, (shape.num_nodes,), generator=generator)
    items = torch.randperm(shape.num_nodes, generator=generator)[: options.batches * options.batch_size]
    graph = hr.Graph.from_csc(indptr, indices)
    data = Data(
        x=x,
        y=y,
        edge_index=torch.stack([indices.long(), torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())]),
    )
    drawn = {"batch_size": options.batch_size, "shuffle": shuffle, "seed": 0}
    loader = pyg.NeighborLoader(data, FANOUTS, input_nodes=items, **drawn)
    plan = (
        hr.ItemSampler(items, **drawn)
        .sample_neighbor(graph, FANOUTS)
        .fetch_feature(hr.FeatureStore(node={"x": x, "y": y}), node=["x"], labels="y")
    )
    case = (
        f"{options.shape}, batch {options.batch_size}, fanouts {','.join(map(str, FANOUTS))}, "
        f"{shape.width} float32, hidden {options.hidden}"
    )
    return Work(folder, items, x, plan, loader, [shape.width, options.hidden, options.hidden, CLASSES], case)


def main() -> None:
    parser = sizes_of_work(__doc__ or "", batches=2)
    parser.add_argument("--compile", action="store_true", help="time a compiled model too; compiling takes minutes")
    options = parser.parse_args()
    work = work_of(options, shuffle=False)
    widths, given = work.widths, list(work.loader)
    own, padded = (list(one.loader()) for one in (work.plan, work.plan.pad()))
    half = [batch.replace(node={"x": batch.x.bfloat16()}) for batch in own]
    print(describe_machine(["headrace", "torch", "torch-geometric"]))
    records = []
    for threads in options.threads:
        systems = [
            System(
                PAIRS, partial(step, OfPyG(widths, True), given, lambda one: one.y[: one.batch_size], threads), threads
            ),
            System(
                TRIMMED,
                partial(step, OfPyG(widths, False), given, lambda one: one.y[: one.batch_size], threads),
                threads,
            ),
            System(BLOCKS, partial(step, OnBlocks(widths), own, lambda one: one.y, threads), threads),
            System(HALF, partial(step, OnBlocks(widths).bfloat16(), half, lambda one: one.y, threads), threads),
            System(PADDED, partial(step, OnBlocks(widths), padded, lambda one: one.y, threads), threads),
        ]
        if options.compile:
            compiled: Any = torch.compile(OnBlocks(widths), fullgraph=True)
            marked = [hr.nn.mark_dynamic(batch) for batch in own]
            systems.append(System(COMPILED, partial(step, compiled, marked, lambda one: one.y, threads), threads))
            static: Any = torch.compile(OnBlocks(widths), fullgraph=True)
            systems.append(System(PADDED_COMPILED, partial(step, static, padded, lambda one: one.y, threads), threads))
        pairs = (
            (PAIRS, TRIMMED),
            (BLOCKS, PAIRS),
            (HALF, BLOCKS),
            (PADDED, BLOCKS),
            (COMPILED, BLOCKS),
            (PADDED_COMPILED, COMPILED),
        )
        gains = [Gain((better, threads), (other, threads)) for better, other in pairs]
        records += interleave("models", work.case, systems, rounds=options.rounds, gains=gains, warm_up=1)
    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    main()
