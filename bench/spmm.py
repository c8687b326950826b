"""Aggregation beside PyG, torch.sparse and DGL: sums, means and GAT, forward and backward, and a step of GraphSAGE.

The graph has the shape of ogbn-products over `--scale`, as PyG writes a row per edge, several times. Every system keeps
what belongs to the graph: we and "torch.sparse, both ways" the transposed edges. PyG is its default path, edge_index;
"torch.sparse" is what its layers run on a CSR matrix. DGL, with both ways of its graph, has a process of its own, and
an older torch (`make peers`). In the training step each turn begins with blocks that know
nothing, on the same batches for all. Peak memory is that of all tensors that are alive at once, without the inputs.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import torch
import torch_geometric.nn as pyg
from environments import DGL, open_peers
from graphs import SHAPES, Shape, cached_csc, cached_train, seeds_of, skewed_edges
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
from live_bytes import most_live
from plot import draw_bars
from worker import Worker

import headrace as hr
from headrace import ops

OURS, PYG, SPARSE, BOTH_WAYS = "headrace", "PyG, edge_index", "torch.sparse", "torch.sparse, both ways"
PYG_MATRIX = "PyG, adj_t"
HIDDEN, CLASSES, HEADS = 256, 47, 4

Call = Callable[[torch.Tensor], torch.Tensor]


class BothWays(torch.autograd.Function):
    """A product with a matrix whose transposed form is kept: the best that torch.sparse can do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, matrix: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
        ctx.back = back
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.back @ gradients[0], None, None


def csr(indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, num_columns: int) -> torch.Tensor:
    return torch.sparse_csr_tensor(
        indptr.int(), indices.int(), values, size=(len(indptr) - 1, num_columns), check_invariants=False
    )


def sums(block: hr.Block, reduce: Literal["sum", "mean"], threads: int) -> dict[str, Call]:
    """Return the systems that add up, or average."""
    back = block.transposed
    degrees = block.indptr.diff().clamp(min=1).float()
    values = torch.ones(block.num_edges)
    if reduce == "mean":
        values = (1 / degrees).repeat_interleave(block.indptr.diff())
    matrix = csr(block.indptr, block.indices, torch.ones(block.num_edges), block.num_src)
    weighted = csr(block.indptr, block.indices, values, block.num_src)
    transposed = csr(back.indptr, back.indices, values[back.positions.long()], block.num_dst)
    layer, edge_index = pyg.SimpleConv(aggr=reduce), block.edge_index
    return {
        OURS: lambda x: ops.aggregate_with_grad(
            block.indptr, block.indices, x, reduce=reduce, transpose=lambda: back, num_threads=threads
        ),
        PYG: lambda x: layer(x, edge_index),
        SPARSE: lambda x: torch.sparse.mm(matrix, x, reduce),
        BOTH_WAYS: lambda x: BothWays.apply(x, weighted, transposed),
    }


def attention(block: hr.Block, width: int) -> tuple[dict[str, Call], hr.nn.GATConv]:
    """Return the layers of GAT, of the same parameters, where the block is, and ours."""
    ours = hr.nn.GATConv(width, width // HEADS, HEADS, add_self_loops=False)
    theirs = pyg.GATConv(width, width // HEADS, HEADS, add_self_loops=False)
    theirs.load_state_dict(ours.state_dict())
    ours, theirs = (layer.to(block.indptr.device) for layer in (ours, theirs))
    block.transposed  # noqa: B018 - made here, and kept
    edge_index = block.edge_index
    return {OURS: lambda x: ours(x, block), PYG: lambda x: theirs(x, edge_index)}, ours


def timed(call: Call, x: torch.Tensor, gradient: torch.Tensor, backward: bool, threads: int) -> float:
    """Return the seconds of one turn."""
    torch.set_num_threads(threads)
    leaf = x.detach().requires_grad_(backward)
    started = time.perf_counter()
    out = call(leaf)
    if backward:
        out.backward(gradient)
    return time.perf_counter() - started


def aggregation_metrics(num_edges: int, width: int, backward: bool, turn: Callable[[], float], _: int) -> Metrics:
    seconds = turn()
    edges = num_edges * (2 if backward else 1) / seconds
    return {"time": seconds * 1e3, "edge rate": edges / 1e6, "row rate": edges * width * 4 / 1e9}


def tell(peer: Worker, folder: Path, kind: str, arrays: dict[str, torch.Tensor]) -> None:
    """Let DGL compute the same, and refuse it if it does not."""
    (folder / kind).mkdir()
    for name, tensor in arrays.items():
        np.save(folder / kind / f"{name}.npy", tensor.detach().numpy())
    peer.call("prepare", kind=kind, folder=str(folder))
    shutil.rmtree(folder / kind)


def aggregation_records(
    block: hr.Block, kind: str, width: int, case: str, options: Any, peer: Worker | None, folder: Path
) -> list[Record]:
    records = []
    x = torch.randn(block.num_src, width, generator=torch.Generator().manual_seed(0))
    gradient = torch.randn(block.num_dst, width, generator=torch.Generator().manual_seed(1))
    arrays = {"x": x, "gradient": gradient}
    if kind == "GAT":
        torch.manual_seed(0)
        calls, layer = attention(block, width)
        arrays |= dict(layer.named_parameters())
    for threads in options.threads:
        torch.set_num_threads(threads)
        of_threads = calls if kind == "GAT" else sums(block, "mean" if kind == "mean" else "sum", threads)
        check_agree(of_threads, x)
    if peer is not None:
        with torch.no_grad():
            tell(peer, folder, kind, arrays | {"expected": of_threads[OURS](x)})
    for backward in (False, True):
        systems, gains, peaks = [], [], {}
        for threads in options.threads:
            torch.set_num_threads(threads)
            of_threads = calls if kind == "GAT" else sums(block, "mean" if kind == "mean" else "sum", threads)
            turns = {name: partial(timed, call, x, gradient, backward, threads) for name, call in of_threads.items()}
            for name, turn in turns.items():
                peaks[name, threads] = most_live(turn, [x, gradient])
            if peer is not None:
                turns[DGL] = partial(peer.call, "run", backward=backward, threads=threads)
                peaks[DGL, threads] = peer.call("peak", backward=backward, threads=threads)
            for name, turn in turns.items():
                run = partial(aggregation_metrics, block.num_edges, width, backward, turn)
                systems.append(System(name, run, threads))
                gains.append(Gain((OURS, threads), (name, threads)))
        name = f"{kind}, {'forward and backward' if backward else 'forward'}, {case}, {width} float32"
        gains = [gain for gain in gains if gain.over[0] != OURS]
        records += interleave("spmm", name, systems, rounds=options.rounds, gains=gains, warm_up=1)
        records += [
            Record("spmm", name, system, "peak memory", "GB", *(3 * (peak / 1e9,)), 1, threads)
            for (system, threads), peak in peaks.items()
        ]
    return records


def check_agree(calls: dict[str, Call], x: torch.Tensor) -> None:
    """Refuse to compare systems that compute something else.

    Raises
    ------
    ValueError
        If they do.
    """
    with torch.no_grad():
        expected = calls[OURS](x)
        for name, call in calls.items():
            if not torch.allclose(call(x), expected, rtol=1e-3, atol=1e-3):
                raise ValueError(f"spmm: expected {name} to compute what headrace does")


class Sage(torch.nn.Module):
    """Three layers of means; `call` says how a layer takes a block."""

    def __init__(self, kind: Any, width: int) -> None:
        super().__init__()
        widths = [width, HIDDEN, HIDDEN, CLASSES]
        self.layers = torch.nn.ModuleList(kind(*ends) for ends in pairwise(widths))

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...], call: Any) -> torch.Tensor:
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = call(layer, x, block)
            x = x.relu() if number < len(blocks) - 1 else x
        return x


WAYS: dict[str, tuple[Any, Any]] = {
    OURS: (hr.nn.SAGEConv, lambda layer, x, block: layer(x, block)),
    PYG: (pyg.SAGEConv, lambda layer, x, block: layer((x, x[: block.num_dst]), block.edge_index)),
    PYG_MATRIX: (pyg.SAGEConv, lambda layer, x, block: layer((x, x[: block.num_dst]), block.adj_t())),
}


def step(
    model: Sage, optimizer: Any, call: Any, batches: list[Any], x: torch.Tensor, threads: int, number: int
) -> Metrics:
    """Train on one batch."""
    torch.set_num_threads(threads)
    blocks, labels = batches[number % len(batches)]
    blocks = tuple(replace(block) for block in blocks)  # what they have made is not theirs any more
    edges = sum(block.num_edges for block in blocks)
    started = time.perf_counter()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x[: blocks[0].num_src], blocks, call), labels)
    loss.backward()
    optimizer.step()
    seconds = time.perf_counter() - started
    return {"time": seconds * 1e3, "edge rate": edges / seconds / 1e6}


def step_records(options: Any) -> list[Record]:
    folder = cached_csc(options.step_shape)
    graph = hr.Graph.from_csc(*(np.load(folder / f"{name}.npy") for name in ("indptr", "indices")))
    seeds = torch.from_numpy(seeds_of(0, cached_train(options.step_shape), options.batch_size * 4))
    plan = hr.ItemSampler(seeds, batch_size=options.batch_size, seed=0).sample_neighbor(graph, options.fanouts)
    batches = [
        (batch.blocks, torch.arange(batch.blocks[-1].num_dst) % CLASSES) for batch in plan.loader(prefetch=False)
    ]
    del graph
    width = SHAPES[options.step_shape].width
    x = torch.randn(max(blocks[0].num_src for blocks, _ in batches), width)
    systems, gains, peaks, initial = [], [], {}, None
    for threads in options.threads:
        for name, (kind, call) in WAYS.items():
            model = Sage(kind, width)
            initial = initial or model.state_dict()
            model.load_state_dict(initial)
            run = partial(step, model, torch.optim.Adam(model.parameters()), call, batches, x, threads)
            peaks[name, threads] = most_live(partial(run, 0), [x, *model.parameters()])
            systems.append(System(name, run, threads))
            gains.append(Gain((OURS, threads), (name, threads)))
    fanouts = ",".join(map(str, options.fanouts))
    case = f"SAGE step, {options.step_shape}, batch {options.batch_size}, fanouts {fanouts}, {HIDDEN} hidden"
    gains = [gain for gain in gains if gain.over[0] != OURS]
    records = interleave("spmm", case, systems, rounds=options.rounds, gains=gains, warm_up=1)
    return records + [
        Record("spmm", case, system, "peak memory", "GB", *(3 * (peak / 1e9,)), 1, threads)
        for (system, threads), peak in peaks.items()
    ]


def main() -> None:
    parser = arguments(__doc__ or "", rounds=7)
    add_threads(parser)
    parser.add_argument("--scale", type=int, default=8, help="products over this (default: %(default)s)")
    parser.add_argument("--kinds", nargs="*", default=["sum", "mean", "GAT"])
    parser.add_argument("--width", type=int, default=100, help="of sums (default: %(default)s)")
    parser.add_argument("--attention-width", type=int, default=64, help="of GAT, in 4 heads (default: %(default)s)")
    parser.add_argument("--step-shape", choices=[*SHAPES, "none"], default="products")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10], help="the hop next to the seeds first")
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch", "torch-geometric"]))
    records = []
    if options.kinds:
        whole = SHAPES["products"]
        shape = Shape(whole.num_nodes // options.scale, whole.num_edges // options.scale)
        csc = ops.coo_to_csc(*skewed_edges(shape, seed=0), shape.num_nodes)
        block = hr.Block(csc.indptr, csc.indices, shape.num_nodes, shape.num_nodes)
        case = f"products over {options.scale}"
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            for array in ("indptr", "indices"):
                np.save(folder / f"{array}.npy", getattr(csc, array))
            peer = open_peers(stack, [DGL], folder=str(folder)).get(DGL)
            for kind in options.kinds:
                width = options.attention_width if kind == "GAT" else options.width
                records += aggregation_records(block, kind, width, case, options, peer, folder)
                write_json(options.json, records)  # what is there by now
        del block
    if options.step_shape != "none":
        records += step_records(options)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")


if __name__ == "__main__":
    main()
