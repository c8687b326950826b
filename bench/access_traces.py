"""Which rows a training reads, batch by batch: recorded from samplers, on generated graphs and real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from graphs import SHAPES, cached_csc, seeds_of
from harness import DATA
from numpy.typing import NDArray

import headrace as hr

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """A training: a graph, its share of training nodes, and how minibatches are made."""

    graph: str
    train: float
    batch_size: int
    fanouts: tuple[int, ...]
    labor: bool
    epochs: int

    def __str__(self) -> str:
        sampler = "LABOR" if self.labor else "neighbour sampling"
        return (
            f"{self.graph}, {sampler} {'-'.join(map(str, self.fanouts))}, {self.batch_size} of {self.train:.0%} of the "
            f"nodes, {self.epochs} epochs"
        )


@dataclass(frozen=True)
class Trace:
    """The distinct rows that each batch reads, in its order."""

    case: Case
    num_rows: int
    batches: list[Ids]

    @property
    def num_reads(self) -> int:
        return sum(map(len, self.batches))

    @property
    def footprint(self) -> float:
        """Mean share of all rows that a batch reads."""
        return self.num_reads / len(self.batches) / self.num_rows


#: Batches of a few hundredths of the graph, as large graphs have them; larger ones read nearly everything every time.
CASES = (
    Case("small", 0.1, 64, (10, 10), labor=True, epochs=2),
    Case("github_similar", 0.05, 256, (10, 10, 10), labor=False, epochs=2),
    Case("amazon_computers", 0.2, 16, (10, 5), labor=False, epochs=3),
)


def record(case: Case) -> Trace | None:
    """Return the trace of a case, or None if its graph is not there."""
    graph = graph_of(case.graph)
    if graph is None:
        return None
    seeds = seeds_of(0, np.arange(graph.num_nodes), int(case.train * graph.num_nodes))
    plan: Any = hr.ItemSampler(torch.from_numpy(seeds), batch_size=case.batch_size, shuffle=True, seed=0)
    sample: Callable[..., Any] = plan.sample_layer_neighbor if case.labor else plan.sample_neighbor
    batches = []
    with sample(graph, fanouts=list(case.fanouts), edge_ids=False).loader(num_threads=1) as loader:
        for _ in range(case.epochs):
            batches += [batch.n_id.numpy().copy() for batch in loader]
    return Trace(case, graph.num_nodes, batches)


def graph_of(name: str) -> hr.Graph | None:
    """Return a generated graph, or a real one."""
    if name in SHAPES:
        folder = cached_csc(name)
        return hr.Graph.from_csc(*(torch.from_numpy(np.load(folder / f"{part}.npy")) for part in ("indptr", "indices")))
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as arrays:
        src, dst = arrays["edge_index"]
        num_nodes = len(arrays["y"]) if "y" in arrays else int(arrays["edge_index"].max()) + 1
    return hr.Graph.from_coo(src, dst, num_nodes=num_nodes)


def belady(batches: list[Ids], num_rows: int, capacity: int) -> int:
    """Return the fewest misses that any choice of rows has, one that knows the whole trace.

    Between two batches a cache keeps any rows of those that it had and those that the last batch has read. Keeping a
    row from one use to the next saves one miss and takes a slot in between: as many such intervals as fit, which
    dropping the one that ends last wherever there are too many finds (Faigle and Nawijn, 1995). No cache can do
    better, whatever it holds while it reads; one that need not hold what a batch has found already attains it.
    """
    never = len(batches)
    following = np.full(num_rows, never)
    next_uses: list[Ids] = []
    for number in range(len(batches) - 1, -1, -1):
        next_uses.append(following[batches[number]])
        following[batches[number]] = number
    next_use = np.full(num_rows, never)
    is_kept = np.zeros(num_rows, dtype=bool)
    kept = np.empty(0, dtype=np.int64)
    misses = 0
    for ids, uses in zip(batches, reversed(next_uses), strict=True):
        misses += len(ids) - int(np.count_nonzero(is_kept[ids]))
        next_use[ids] = uses
        is_kept[ids] = False
        kept = np.concatenate([kept[is_kept[kept]], ids[uses < never]])
        if len(kept) > capacity:
            order = np.argpartition(next_use[kept], capacity)
            is_kept[kept[order[capacity:]]] = False
            kept = kept[order[:capacity]]
        is_kept[kept] = True
    return misses
