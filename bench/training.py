"""An epoch of GraphSAGE on a CPU, loading included, beside the least that its arithmetic takes.

One model of three layers with a mean, over the same batches: on blocks with layers of `hr.nn`, on blocks with PyG's
layers, on `headrace.pyg.NeighborLoader` with `headrace.pyg.trim_to_layer`, and with PyG's; and DGL's layers behind
GraphBolt's and DGL's loaders, in a process of their own with torch 2.2. The roofline runs the matrix
products, aggregations and gathers of the same step into memory that is there, and nothing else: no activation, no loss,
no optimiser.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from environments import DGL_TRAINING, open_peers
from harness import Gain, Metrics, Record, System, describe_machine, interleave, print_table, write_json
from models import BLOCKS, FANOUTS, PAIRS, TRIMMED, OfPyG, sizes_of_work, work_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import SAGEConv
from worker import Worker

import headrace as hr
from headrace import ops

#: What serves the batches of DGL's layers, and what tables call it.
PEERS = {"GraphBolt": "GraphBolt, DGL's layers", "DGL": "DGL"}
LAYERS, ROOFLINE = "blocks, PyG's layers", "its products, sums and gathers alone"


class OnBlocks(nn.Module):
    """GraphSAGE on blocks, of layers of `hr.nn` or of PyG's."""

    def __init__(self, layer: type[nn.Module], widths: list[int]) -> None:
        super().__init__()
        self.convs = nn.ModuleList([layer(*ends) for ends in pairwise(widths)])

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        h = batch.x
        for i, (conv, block) in enumerate(zip(self.convs, batch.blocks, strict=True)):
            if isinstance(conv, SAGEConv):
                h = conv((h, h[: block.num_dst]), block.edge_index, size=(block.num_src, block.num_dst))
            else:
                h = conv(h, block)
            h = h.relu_() if i < len(self.convs) - 1 else h
        return h


def epoch(
    loader: Callable[[int], Iterable[Any]], labels: Callable[[Any], Tensor], threads: int, model: nn.Module, number: int
) -> Metrics:
    torch.set_num_threads(threads)
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    batches = 0
    started = time.perf_counter()
    for batch in loader(number):
        optimiser.zero_grad()
        cross_entropy(model(batch), labels(batch)).backward()
        optimiser.step()
        batches += 1
    return {"time": (time.perf_counter() - started) / batches * 1e3}


class Roofline:
    """The arithmetic of a step on kept batches, into kept memory."""

    def __init__(self, x: Tensor, widths: list[int], batches: list[hr.MiniBatch]) -> None:
        self.x, self.widths, self.batches = x, widths, batches
        self.matrices = [torch.randn(columns, width) for width, columns in pairwise(widths)]
        largest = [max(len(batch.n_id) for batch in batches), *(self._most(i) for i in range(len(widths) - 1))]
        self.rows = [torch.randn(rows, width) for rows, width in zip(largest, widths, strict=True)]
        self.sums = [torch.randn(rows, width) for rows, width in zip(largest[1:], widths[:-1], strict=True)]
        self.back = [torch.randn_like(one) for one in self.rows]

    def _most(self, layer: int) -> int:
        return max(batch.blocks[layer].num_dst for batch in self.batches)

    def run(self, threads: int, _: int) -> Metrics:
        torch.set_num_threads(threads)
        for batch in self.batches:
            for block in batch.blocks:
                vars(block).pop("transposed", None)  # a new batch has to make it
        started = time.perf_counter()
        for batch in self.batches:
            self._step(batch, threads)
        return {"time": (time.perf_counter() - started) / len(self.batches) * 1e3}

    def _step(self, batch: hr.MiniBatch, threads: int) -> None:
        options: Any = {"num_threads": threads, "trusted": True}
        ops.gather_rows(self.x, batch.n_id, out=self.rows[0][: len(batch.n_id)], num_threads=threads)
        for i, (block, matrix) in enumerate(zip(batch.blocks, self.matrices, strict=True)):
            h, own = self.rows[i][: block.num_src], self.rows[i][: block.num_dst]
            sums, out = self.sums[i][: block.num_dst], self.rows[i + 1][: block.num_dst]
            ops.spmm(block.indptr, block.indices, h, out=sums, **options)
            torch.mm(sums, matrix.t(), out=out)
            out.addmm_(own, matrix.t())
        for i, (block, matrix) in reversed(list(enumerate(zip(batch.blocks, self.matrices, strict=True)))):
            gradient, own = self.back[i + 1][: block.num_dst], self.rows[i][: block.num_dst]
            gradient.t() @ self.sums[i][: block.num_dst]
            gradient.t() @ own
            if i:
                by_sums, by_rows = self.sums[i][: block.num_dst], self.back[i][: block.num_src]
                torch.mm(gradient, matrix, out=by_sums)
                back = block.transposed
                ops.spmm(back.indptr, back.indices, by_sums, out=by_rows, **options)
                by_rows[: block.num_dst].addmm_(gradient, matrix)


def epoch_of_peer(peer: Worker, library: str, threads: int, _: int) -> Metrics:
    found = peer.call("epoch", library=library, threads=threads)
    return {"time": found["seconds"] / found["batches"] * 1e3}


def main() -> None:
    parser = sizes_of_work(__doc__ or "", batches=6)
    parser.add_argument("--trimmed", action="store_true", help="time PyG's trim_to_layer too: seconds a batch")
    parser.add_argument("--keep-memory", action="store_true", help="call hr.keep_freed_memory() first")
    options = parser.parse_args()
    if options.keep_memory and not hr.keep_freed_memory():
        parser.error("the C library of this system keeps no memory")
    with ExitStack() as stack:
        write_json(options.json, measured(options, stack))


def measured(options: argparse.Namespace, stack: ExitStack) -> list[Record]:
    """Time all systems; the stack ends the peers."""
    work = work_of(options, shuffle=True)
    ours = work.plan.loader()

    def epoch_of_ours(number: int) -> Iterable[Any]:
        ours.set_epoch(number)
        return ours

    print(describe_machine(["headrace", "torch", "torch-geometric"]))
    widths, roofline = work.widths, Roofline(work.x, work.widths, list(ours))
    case = work.case + (", freed memory kept" if options.keep_memory else "")
    peers = open_peers(
        stack,
        [DGL_TRAINING],
        folder=str(work.folder),
        items=work.items.tolist(),
        batch_size=options.batch_size,
        fanouts=FANOUTS,
        widths=widths,
    )
    records = []
    for threads in options.threads:
        in_blocks = partial(epoch, epoch_of_ours, lambda one: one.y, threads)
        in_data = partial(epoch, lambda _: work.loader, lambda one: one.y[: one.batch_size], threads)
        models = {
            BLOCKS: partial(in_blocks, OnBlocks(hr.nn.SAGEConv, widths)),
            LAYERS: partial(in_blocks, OnBlocks(SAGEConv, widths)),
            PAIRS: partial(in_data, OfPyG(widths, True)),
        }
        if options.trimmed:
            models[TRIMMED] = partial(in_data, OfPyG(widths, False))
        systems = [System(name, run, threads) for name, run in models.items()]
        systems.append(System(ROOFLINE, partial(roofline.run, threads), threads))
        pairs = [(ROOFLINE, BLOCKS), (BLOCKS, LAYERS), (BLOCKS, PAIRS)]
        for peer in peers.values():
            for library, name in PEERS.items():
                systems.append(System(name, partial(epoch_of_peer, peer, library, threads), threads))
                pairs.append((BLOCKS, name))
        gains = [Gain((better, threads), (other, threads)) for better, other in pairs]
        records += interleave("training", case, systems, rounds=options.rounds, gains=gains, warm_up=1)
    print_table(records)
    return records


if __name__ == "__main__":
    main()
