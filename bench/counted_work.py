"""What a rank does for a batch on a graph too large to make, counted on a smaller one of the same law.

The number of nodes and the batch are divided by the same factor, and the counts multiplied by it. That holds where
a batch meets a node as often as its share of all edges says (which is what makes a Chung-Lu graph), while the scaled
batch has a seed at least. A batch that would have less is counted with one, so its overlap is a little too large.
Cooperation among P ranks is counted on the batch of one process: the owners of destinations say which rank wants which
source, whatever P is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from chung_lu import distinct
from cooperative_work import samplers
from graphs import seeds_of
from published_cooperative import COOPERATIVE, INDEPENDENT
from row_cache import RowCache

import headrace as hr

#: Batches that fill the caches, and batches that are counted.
FILLING, COUNTING = 12, 3


@dataclass(frozen=True)
class Work:
    """What one rank does for one batch, in the mean.

    Parameters
    ----------
    edges
        Sampled edges.
    rows
        Feature rows it reads: those of its inputs, or of the inputs that it owns.
    missed
        Of them, rows past its cache.
    wanted
        Rows that its model takes in.
    asked
        Ids that go to other ranks, over all layers.
    remote
        Rows that come from other ranks.
    collectives
        Collectives of ids and of rows.
    """

    edges: float
    rows: float
    missed: float
    wanted: float
    asked: float = 0.0
    remote: float = 0.0
    collectives: int = 0


@dataclass(frozen=True)
class Scaled:
    """A graph that stands for one `factor` times as large, and the share of its nodes that are seeds."""

    graph: hr.Graph
    factor: float
    train_share: float

    def batches(self, sample: Callable[[Any], Any], num_seeds: int) -> Iterator[hr.MiniBatch]:
        """Yield batches of seeds that stand for `num_seeds * factor` of them, epoch after epoch."""
        count = max(num_seeds, round(self.train_share * self.graph.num_nodes))
        train = torch.from_numpy(seeds_of(0, np.arange(self.graph.num_nodes), min(count, self.graph.num_nodes)))
        items = hr.ItemSampler(train, batch_size=num_seeds, shuffle=True, drop_last=True, seed=0)
        loader = sample(items).loader(num_threads=1, prefetch=False)
        while True:
            yield from loader


def exchanged(batch: hr.MiniBatch, partition: hr.Partition) -> tuple[int, int, int]:
    """Return how cooperation would split a batch of one process, summed over ranks.

    Returns
    -------
    wanted, asked, remote
        Rows of the inputs that ranks want; ids that they ask other ranks for, those of the seeds left out; and rows of
        the inputs that come from other ranks.
    """
    owners = partition.owner(batch.n_id).numpy().astype(np.int64)
    wanted = asked = remote = 0
    for block in reversed(batch.blocks):
        destinations = np.repeat(np.arange(block.num_dst), np.diff(block.indptr.numpy()))
        own = owners[: block.num_dst] * block.num_src + np.arange(block.num_dst)
        found = distinct(np.concatenate([own, owners[destinations] * block.num_src + block.indices.numpy()]))
        wanted, remote = len(found), int(np.count_nonzero(owners[found % block.num_src] != found // block.num_src))
        asked += remote
    return wanted, asked, remote


def count(scaled: Scaled, sampler: str, mode: str, world_size: int, per_rank: int, capacity: int) -> Work:
    """Count the work of a rank on the large graph.

    Parameters
    ----------
    scaled
        The graph that is sampled.
    sampler, mode
        Their names.
    world_size, per_rank
        Ranks, and seeds of each.
    capacity
        Rows in the cache of each rank, in the large graph; 0 for none.
    """
    sample, graph = samplers(scaled.graph)[sampler], scaled.graph
    together = world_size if mode == COOPERATIVE else 1
    num_seeds = max(1, round(per_rank * together / scaled.factor))
    # Of a rank, on the large graph: counts of so many seeds, for those it has.
    scale = per_rank / num_seeds
    cached_rows = round(capacity / scaled.factor * together)
    everything_fits = cached_rows >= graph.num_nodes
    cache = RowCache(cached_rows, graph.num_nodes) if cached_rows else None
    batches = scaled.batches(sample, num_seeds)
    # Where all rows fit, they are all there in the end.
    if cache is not None and not everything_fits:
        for batch in islice(batches, FILLING):
            cache.read(batch.n_id.numpy())
    totals = np.zeros(6)
    for batch in islice(batches, COUNTING):
        rows = len(batch.n_id)
        missed = rows if cache is None else 0 if everything_fits else cache.read(batch.n_id.numpy())
        wanted, asked, remote = rows, 0, 0
        if mode == COOPERATIVE and world_size > 1:
            wanted, asked, remote = exchanged(batch, hr.Partition.hash(graph.num_nodes, world_size))
        totals += (sum(batch.num_sampled_edges), rows, missed, wanted, asked, remote)
    edges, rows, missed, wanted, asked, remote = (totals / COUNTING * scale).tolist()
    if mode == INDEPENDENT or world_size == 1:
        return Work(edges, rows, missed, wanted)
    # Seeds go to their owners as well; a round of ids is two collectives, and rows take one.
    asked += per_rank * (1 - 1 / world_size)
    return Work(edges, rows, missed, wanted, asked, remote, 2 * (len(batch.blocks) + 1) + 1)
