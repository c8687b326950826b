"""The cases of two_builds.py: a function makes each in a process of one build, and returns its turns.

Files beside this one are those of the working tree, and headrace is that of the build: cases use names that 0.1.0 has
as well as 1.0. They read files that `case_inputs` makes.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import case_inputs
import numpy as np
import torch
from academic_graph import SEEDS, read_academic
from case_turns import CORES, OTHERS, Done, Turn, Work, case, epochs, serve_case
from graphs import seeds_of
from worker import Worker

import headrace as hr
from headrace import ops

BATCH, FANOUTS, WIDTH = 1024, [10, 10, 10], 100
HIDDEN, HEADS, CLASSES = 64, 4, 47
#: Batches of a turn, of kernels and of epochs.
KERNEL_BATCHES, BATCHES = 4, 8
#: Nodes, edges and features of the graph of small batches: 32 seeds, fanouts 5 and 5, as in small_batch.py.
SMALL_NODES, SMALL_EDGES, SMALL_WIDTH, SMALL_BATCH, SMALL_FANOUTS = 3_000, 30_000, 16, 32, [5, 5]
#: Of the rows on disk, the part that is in memory at a time; windows have 3/8 of the memory.
IN_WINDOWS, OF_WINDOWS = 1 / 4, 3 / 8


def kernel(rule: Callable[[int], ops.Rule], weights: Path | None = None) -> Turn:
    """Return turns of the fused sampler alone."""
    indptr, indices = case_inputs.arrays(case_inputs.products(), "indptr", "indices")
    given = None if weights is None else case_inputs.arrays(weights, "weights")[0]
    sampler, nodes = ops.BlockSampler(indptr, indices, weights=given), np.arange(len(indptr) - 1)

    def turn(number: int) -> Work:
        batches = range(number * KERNEL_BATCHES, (number + 1) * KERNEL_BATCHES)
        seeds = [torch.from_numpy(seeds_of(batch, nodes, BATCH)) for batch in batches]
        rules = [rule(fanout) for fanout in FANOUTS]

        def work() -> Done:
            rows = 0
            for batch, own in zip(batches, seeds, strict=True):
                keys = list(range(batch, batch + len(FANOUTS)))
                rows += sampler.sample(own, rules, keys, edge_ids=False, num_threads=1).n_id.numel()
            return Done(len(seeds), rows)

        return work

    return turn


@case(case_inputs.products)
def neighbor_kernel() -> Turn:
    return kernel(ops.NeighborRule)


@case(case_inputs.products)
def labor_kernel() -> Turn:
    return kernel(ops.LaborRule)


@case(case_inputs.products, case_inputs.weights)
def weighted_kernel() -> Turn:
    return kernel(ops.NeighborRule, case_inputs.weights())


@case()
def gather() -> Turn:
    num_rows = 1 << 21
    x = torch.ones(num_rows, WIDTH)

    def turn(number: int) -> Work:
        random = torch.Generator().manual_seed(number)
        ids = [torch.randint(num_rows, (100 * BATCH,), generator=random) for _ in range(KERNEL_BATCHES)]
        return lambda: Done(len(ids), sum(len(ops.gather_rows(x, one, num_threads=1)) for one in ids))

    return turn


@case(case_inputs.eighth)
def spmm() -> Turn:
    """Return turns of a sum over all edges and its gradient."""
    indptr, indices = case_inputs.arrays(case_inputs.eighth(), "indptr", "indices")
    block = hr.Block(indptr, indices, len(indptr) - 1, len(indptr) - 1)
    x, back = torch.ones(block.num_src, HIDDEN // 2, requires_grad=True), block.transposed

    def work() -> Done:
        out = ops.aggregate_with_grad(indptr, indices, x, transpose=lambda: back, num_threads=1)
        out.backward(out.detach())
        x.grad = None
        return Done(1, len(out))

    return lambda _: work


@case(case_inputs.eighth, threads=CORES)
def graph_from_coo() -> Turn:
    indptr, src = case_inputs.arrays(case_inputs.eighth(), "indptr", "indices")
    order = torch.randperm(len(src), generator=torch.Generator().manual_seed(0))
    src, dst = src[order], torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())[order]
    return lambda _: lambda: Done(1, hr.Graph.from_coo(src, dst, num_nodes=len(indptr) - 1).num_nodes)


def items_of(graph: hr.Graph, batches: int) -> hr.ItemSampler:
    """Return as many batches of shuffled seeds."""
    items = torch.from_numpy(seeds_of(0, np.arange(graph.num_nodes), BATCH * batches))
    return hr.ItemSampler(items, batch_size=BATCH, shuffle=True, seed=0)


def products_epochs(sampler: str) -> Turn:
    """Return epochs of the loader that a user gets, which samples and fetches rows and labels."""
    graph = hr.Graph.from_csc(*case_inputs.arrays(case_inputs.products(), "indptr", "indices"))
    x, y = torch.ones(graph.num_nodes, WIDTH), torch.arange(graph.num_nodes) % CLASSES
    plan: hr.Plan = getattr(items_of(graph, BATCHES), sampler)(graph, FANOUTS)
    return epochs(plan.fetch_feature(hr.FeatureStore(node={"x": x, "y": y}), node=["x"], labels="y").loader())


@case(case_inputs.products, threads=CORES)
def neighbor_batches() -> Turn:
    return products_epochs("sample_neighbor")


@case(case_inputs.products, threads=CORES)
def labor_batches() -> Turn:
    return products_epochs("sample_layer_neighbor")


def small_graph() -> tuple[torch.Tensor, torch.Tensor]:
    """Return edges and features of the graph of small batches, where Python decides."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(SMALL_NODES, (2, SMALL_EDGES), generator=generator)
    return edges, torch.randn(SMALL_NODES, SMALL_WIDTH, generator=generator)


@case()
def small_batches() -> Turn:
    edges, x = small_graph()
    graph = hr.Graph.from_coo(*edges, num_nodes=SMALL_NODES)
    items = hr.ItemSampler(SMALL_NODES, batch_size=SMALL_BATCH, shuffle=True, seed=0)
    plan = items.sample_neighbor(graph, SMALL_FANOUTS).fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
    return epochs(plan.loader(num_threads=1, prefetch=False))


@case()
def small_batches_of_pyg() -> Turn:
    from torch_geometric.data import Data

    from headrace import pyg

    edges, x = small_graph()
    data = Data(x=x, edge_index=edges, num_nodes=SMALL_NODES)
    options: dict[str, Any] = {"batch_size": SMALL_BATCH, "shuffle": True, "seed": 0, "num_threads": 1}
    return epochs(pyg.NeighborLoader(data, SMALL_FANOUTS, **options))


def papers(graph: hr.Graph) -> torch.Tensor:
    """Return the seeds of cases with types and times, in ids of all types."""
    assert graph.node_types is not None
    own = graph.node_types.id_range(SEEDS)
    return torch.from_numpy(seeds_of(0, np.arange(own.start, own.stop), BATCH * BATCHES))


@case(case_inputs.academic, threads=CORES)
def typed() -> Turn:
    graph = read_academic(case_inputs.academic())
    assert graph.node_types is not None
    sizes = {name: len(graph.node_types.id_range(name)) for name in graph.node_types.names}
    store = hr.FeatureStore(node={name: {"x": torch.ones(size, HIDDEN)} for name, size in sizes.items()})
    items = hr.ItemSampler(papers(graph), batch_size=BATCH, shuffle=True, seed=0)
    plan = items.sample_neighbor(graph, [5, 5]).fetch_feature(store, node={name: ["x"] for name in sizes})
    return epochs(plan.loader())


@case(case_inputs.academic, threads=CORES)
def temporal() -> Turn:
    """Return epochs of trees of edges that are no later than their seeds, without types."""
    folder = case_inputs.academic()
    seeds = papers(read_academic(folder))
    indptr, indices, ids, times = case_inputs.arrays(folder, "indptr", "indices", "edge_ids", "times")
    graph = hr.Graph.from_csc(indptr, indices, edge_ids=ids, edge_attrs={"time": times})
    items = hr.ItemSampler(seeds, time=times[: len(seeds)], batch_size=BATCH, shuffle=True, seed=0)
    store = hr.FeatureStore(node={"x": torch.ones(graph.num_nodes, HIDDEN)})
    return epochs(items.sample_neighbor(graph, [10, 10], time="time").fetch_feature(store, node=["x"]).loader())


@case(case_inputs.eighth, threads=CORES)
def links() -> Turn:
    """Return epochs of edges and as many negatives, sampled without the edges of seeds."""
    indptr, indices = case_inputs.arrays(case_inputs.eighth(), "indptr", "indices")
    graph = hr.Graph.from_csc(indptr, indices)
    edges = torch.randperm(len(indices), generator=torch.Generator().manual_seed(0))[: BATCH * BATCHES // 2]
    pairs = torch.stack([indices[edges].long(), torch.searchsorted(indptr, edges, right=True) - 1], 1)
    items = hr.ItemSampler(pairs, batch_size=BATCH // 2, shuffle=True, seed=0).sample_uniform_negative(graph, 1)
    return epochs(items.exclude_seed_edges(reverse=True).sample_neighbor(graph, [10, 5]).loader())


def rows_on_disk() -> tuple[hr.Graph, Path, int]:
    """Return a graph, the file of its rows, and the bytes of these."""
    folder = case_inputs.rows()
    graph = hr.Graph.from_csc(*case_inputs.arrays(folder, "indptr", "indices"))
    return graph, folder / "x.npy", graph.num_nodes * case_inputs.ROW_WIDTH * 4


@case(case_inputs.rows, threads=CORES)
def windows() -> Turn:
    """Return epochs over rows on disk, as in windows.py: a loader that is made, and reads past the page cache."""
    graph, path, num_bytes = rows_on_disk()
    machine = hr.Machine(cores=2, memory=round(num_bytes * IN_WINDOWS / OF_WINDOWS))

    def work(number: int) -> Done:
        seeds = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(number))
        store = hr.FeatureStore(node={"x": hr.DiskFeature(path, direct=True)})
        items = hr.ItemSampler(seeds[: len(seeds) // 16], batch_size=BATCH // 2, shuffle=True, seed=number)
        plan = items.sample_neighbor(graph, [10, 5]).fetch_feature(store, node=["x"])
        with plan.loader(machine=machine) as loader:
            return epochs(loader)(0)()

    return lambda number: partial(work, number)


@case(case_inputs.rows, threads=CORES)
def tiers() -> Turn:
    """Return epochs over rows in four places: two devices, for which CPU memory stands in, host memory and a file."""
    graph, path, num_bytes = rows_on_disk()
    store = hr.FeatureStore(node={"x": hr.DiskFeature(path)})
    machine = hr.Machine(gpus=2, gpu_memory=(num_bytes // 5,) * 2, memory=num_bytes // 2)  # half of each is for rows
    store = hr.plan_tiers(store, graph, machine).apply(store, stand_ins=True)
    items = hr.ItemSampler(graph.num_nodes // 16, batch_size=BATCH // 2, shuffle=True, seed=0)
    return epochs(items.sample_neighbor(graph, [10, 5]).fetch_feature(store, node=["x"]).loader())


@case(case_inputs.eighth)
def cooperative() -> Turn:
    """Return epochs of two ranks of gloo, this process and another one."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    meeting = f"{folder}/meeting"  # a file that is there as long as the ranks
    OTHERS.append(Worker(Path(sys.executable), Path(__file__).resolve()))
    with ThreadPoolExecutor(1) as pool:
        joined = pool.submit(OTHERS[0].call, "join", meeting=meeting)
        turn = rank_of_two(0, meeting)
        joined.result()
    return turn


def rank_of_two(rank: int, meeting: str) -> Turn:
    import torch.distributed

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=2, timeout=timedelta(minutes=2)
    )
    graph = hr.Graph.from_csc(*case_inputs.arrays(case_inputs.eighth(), "indptr", "indices"))
    store = hr.FeatureStore(node={"x": torch.ones(graph.num_nodes, WIDTH)})
    items = hr.ItemSampler(BATCH * BATCHES, batch_size=BATCH, shuffle=True, seed=0)
    plan = items.sample_layer_neighbor(graph, FANOUTS[:2]).fetch_feature(store, node=["x"])
    return epochs(plan.loader(cooperative=True, prefetch=False, num_threads=1))


class Layers(torch.nn.Module):
    """Layers on blocks, with a ReLU between them."""

    def __init__(self, layers: Iterable[torch.nn.Module]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, batch: hr.MiniBatch, blocks: Iterable[hr.Block]) -> torch.Tensor:
        x = batch.x
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = layer(x.relu() if number else x, block)
        return x


def steps(layers: Iterable[torch.nn.Module]) -> Turn:
    """Return turns of training steps on one thread, on batches that were made before."""
    torch.set_num_threads(1)
    graph = hr.Graph.from_csc(*case_inputs.arrays(case_inputs.eighth(), "indptr", "indices"))
    store = hr.FeatureStore(node={"x": torch.ones(graph.num_nodes, WIDTH)})
    plan = items_of(graph, KERNEL_BATCHES).sample_neighbor(graph, FANOUTS[:2]).fetch_feature(store, node=["x"])
    batches = list(plan.loader(prefetch=False, num_threads=1))
    del graph, store, plan
    model = Layers(layers)
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch: hr.MiniBatch) -> int:
        optimizer.zero_grad()
        blocks = [replace(block) for block in batch.blocks]  # what these have made is not theirs any more
        out = model(batch, blocks)
        torch.nn.functional.cross_entropy(out, torch.arange(len(out)) % CLASSES).backward()
        optimizer.step()
        return len(batch.n_id)

    return lambda _: lambda: Done(len(batches), sum(map(step, batches)))


@case(case_inputs.eighth)
def sage_step() -> Turn:
    return steps(hr.nn.SAGEConv(*ends) for ends in pairwise([WIDTH, HIDDEN, CLASSES]))


@case(case_inputs.eighth)
def gat_step() -> Turn:
    first = hr.nn.GATConv(WIDTH, HIDDEN // HEADS, HEADS, add_self_loops=False)
    return steps([first, hr.nn.GATConv(HIDDEN, CLASSES, 1, add_self_loops=False)])


if __name__ == "__main__":
    serve_case(join=partial(rank_of_two, 1))
