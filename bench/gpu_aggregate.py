"""Aggregation on a GPU beside PyG and torch.sparse: sums, means, maxima and GAT, forward and backward.

The graph has the shape of ogbn-products over `--scale`, as PyG writes a row per edge, several times. Every system keeps
what belongs to the graph: we and torch.sparse the transposed edges. PyG is its default path, edge_index. We look at the
edges in every call, for which the host waits, as a layer does; "headrace, trusted" does not. Times are those of a step:
from the call to the end of all that it launched. Peak memory is what torch's allocator gives out beyond the input.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
import torch_geometric.nn as pyg
from gpu_device import Gpu, Measured, gpu_arguments, gpu_of, warm_up_rounds
from graphs import SHAPES, Shape, skewed_edges
from harness import Gain, Metrics, Record, System, interleave
from spmm import BOTH_WAYS, OURS, PYG, BothWays, Call, attention, check_agree, csr

import headrace as hr
from headrace import ops

TRUSTED = "headrace, trusted"
SMALL = Shape(40, 200)  # as the stand-in is slow
KINDS = ("sum", "mean", "max", "GAT")


def reductions(block: hr.Block, reduce: Literal["sum", "mean", "max"]) -> dict[str, Call]:
    """Return the systems that reduce messages."""
    back, layer, edge_index = block.transposed, pyg.SimpleConv(aggr=reduce), block.edge_index

    def ours(x: torch.Tensor, *, trusted: bool) -> torch.Tensor:
        return ops.aggregate_with_grad(
            block.indptr, block.indices, x, reduce=reduce, transpose=lambda: back, trusted=trusted
        )

    found: dict[str, Call] = {
        OURS: partial(ours, trusted=False),
        TRUSTED: partial(ours, trusted=True),
        PYG: lambda x: layer(x, edge_index),
    }
    if reduce == "max":
        return found
    values = torch.ones(block.num_edges, device=block.indptr.device)
    if reduce == "mean":
        degrees = block.indptr.diff()
        values = (1 / degrees.clamp(min=1).float()).repeat_interleave(degrees)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR matrices a beta
        matrix = csr(block.indptr, block.indices, values, block.num_src)
        transposed = csr(back.indptr, back.indices, values[back.positions.long()], block.num_dst)
    return {**found, BOTH_WAYS: lambda x: BothWays.apply(x, matrix, transposed)}


def step(call: Call, x: torch.Tensor, gradient: torch.Tensor | None) -> None:
    """Aggregate, and go back where there is a gradient."""
    out = call(x.detach().requires_grad_(gradient is not None))
    if gradient is not None:
        out.backward(gradient)


def timed(gpu: Gpu, num_edges: int, row_bytes: int, run: Callable[[], Any], _: int) -> Metrics:
    seconds = gpu.wall_seconds(run)
    return {
        "time": seconds * 1e3,
        "edge rate": num_edges / seconds / 1e6,
        "row rate": num_edges * row_bytes / seconds / 1e9,
    }


def peak_record(gpu: Gpu, case: str, name: str, run: Callable[[], Any]) -> list[Record]:
    """Return what memory a step takes, where torch's allocator knows it."""
    if not gpu.is_real:
        return []
    gpu.wait()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    gpu.wait()
    peak = (torch.cuda.max_memory_allocated() - before) / 1e9
    return [Record(gpu.bench("aggregate"), case, name, "peak memory", "GB", peak, peak, peak, 1, 1)]


def case_records(gpu: Gpu, block: hr.Block, kind: str, width: int, options: argparse.Namespace) -> list[Record]:
    """Measure one way to aggregate, forward, and forward and backward."""
    random = torch.Generator().manual_seed(0)
    x, gradient = (torch.randn(rows, width, generator=random).to(gpu.device) for rows in (block.num_src, block.num_dst))
    calls = attention(block, width)[0] if kind == "GAT" else reductions(block, kind)  # type: ignore[arg-type]
    check_agree(calls, x)
    records = []
    for going_back in (False, True):
        runs = {name: partial(step, call, x, gradient if going_back else None) for name, call in calls.items()}
        case = f"{kind}, {'forward and backward' if going_back else 'forward'}, {options.where}, {width} float32"
        num_edges = block.num_edges * (1 + going_back)
        records += interleave(
            gpu.bench("aggregate"),
            case,
            [System(name, partial(timed, gpu, num_edges, 4 * width, run)) for name, run in runs.items()],
            rounds=options.rounds,
            gains=[Gain((OURS, 1), (name, 1)) for name in runs if name != OURS],
            warm_up=warm_up_rounds(options),
        )
        records += [record for name, run in runs.items() for record in peak_record(gpu, case, name, run)]
    return records


def main(given: Sequence[str] | None = None) -> None:
    parser = gpu_arguments(__doc__)
    parser.add_argument("--scale", type=int, default=8, help="products over this (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--width", type=int, default=100, help="of reductions (default: %(default)s)")
    parser.add_argument("--attention-width", type=int, default=64, help="of GAT, in 4 heads (default: %(default)s)")
    options = parser.parse_args(given)
    whole = SHAPES["products"]
    shape = Shape(whole.num_nodes // options.scale, whole.num_edges // options.scale)
    options.where = f"products over {options.scale}"
    if options.smoke:
        shape, options.where, options.width, options.attention_width = SMALL, f"{SMALL.num_nodes} nodes", 6, 8
    with gpu_of(options) as gpu:
        torch.manual_seed(0)
        csc = ops.coo_to_csc(*skewed_edges(shape, seed=0), shape.num_nodes)
        block = hr.Block(csc.indptr, csc.indices, shape.num_nodes, shape.num_nodes).to(gpu.device)
        print(f"{options.where}: {block.num_dst:,} nodes, {block.num_edges:,} edges, generated")
        records = Measured(options.json)
        for kind in options.kinds:
            width = options.attention_width if kind == "GAT" else options.width
            records += case_records(gpu, block, kind, width, options)


if __name__ == "__main__":
    main()
