"""What a small batch costs beside its kernels: an epoch of a loader without prefetch, and the bare calls of kernels.

A graph of 3,000 nodes, batches of 32 seeds, fanouts 5 and 5, 16 features: here Python decides, not memory.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch
from harness import Gain, Metrics, System, arguments, describe_machine, interleave, print_table, write_json

import headrace as hr
from headrace.ops import _native, stream_key
from headrace.ops.random.rng import NEIGHBOR

NODES, EDGES, WIDTH = 3_000, 30_000, 16
BATCH, FANOUTS = 32, (5, 5)
LOADER, KERNELS = "loader, a batch", "its kernels alone"


def through_loader(loader: hr.Loader, _: int) -> Metrics:
    started = time.perf_counter()
    batches = sum(1 for _batch in loader)
    return {"time": (time.perf_counter() - started) / batches * 1e3}


def bare_kernels(graph: hr.Graph, x: torch.Tensor, seeds: list[torch.Tensor], _: int) -> Metrics:
    """Seeds made distinct, hops and rows, called with all arguments as the kernels take them."""
    ids = graph.edge_permutation
    sampler = _native.FusedSampler(
        graph.indptr.numpy(), graph.indices.numpy(), None if ids is None else ids.numpy(), None
    )
    given, none = [one.numpy() for one in seeds], np.empty(0, np.int64)
    keys = [stream_key(0, 0, 0, layer, NEIGHBOR) for layer in range(len(FANOUTS))]
    rules = [[_native.Rule("neighbor", fanout)] for fanout in FANOUTS]
    address, row_bytes = x.data_ptr(), x.stride(0) * x.element_size()
    rows = torch.empty(NODES, WIDTH)
    out = rows.data_ptr()
    started = time.perf_counter()
    for one in given:
        distinct, _inverse = _native.compact(none, one)
        n_id, *_rest = sampler.sample(distinct, rules, keys, False, True, 1)
        _native.gather_rows(address, NODES, row_bytes, row_bytes, n_id, out, 1, None, n_id.size)
    return {"time": (time.perf_counter() - started) / len(given) * 1e3}


def main() -> None:
    options = arguments(__doc__ or "", rounds=40).parse_args()
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NODES, (2, EDGES), generator=generator)
    graph = hr.Graph.from_coo(src, dst, num_nodes=NODES)
    x = torch.randn(NODES, WIDTH, generator=generator)
    plan = hr.ItemSampler(NODES, batch_size=BATCH, shuffle=True, seed=0).sample_neighbor(graph, FANOUTS)
    loader = plan.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"]).loader(num_threads=1, prefetch=False)
    seeds = list(torch.randperm(NODES, generator=generator).split(BATCH))
    systems = [
        System(LOADER, partial(through_loader, loader)),
        System(KERNELS, partial(bare_kernels, graph, x, seeds)),
    ]
    print(describe_machine(["headrace", "torch"]))
    case = f"{NODES} nodes, batch {BATCH}, fanouts {','.join(map(str, FANOUTS))}, {WIDTH} float32"
    records = interleave("small batch", case, systems, rounds=options.rounds, gains=[Gain((LOADER, 1), (KERNELS, 1))])
    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    main()
