"""A sampler as users write one, that of docs/extending.md: the k most recent neighbours, old ones with decay."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import headrace as hr
from headrace import ext


@dataclass(frozen=True, eq=False, repr=False)
class BeginTrees(ext.MapStage):
    name = "begin_trees"
    plants_trees = True
    reads = frozenset({"seeds", "seed_time"})
    writes = frozenset({"n_id", "seed_index", "slot", "num_sampled_nodes"})

    def runner(self, settings):
        def run(batch):
            slot = torch.arange(len(batch.seeds))
            return batch.replace(n_id=batch.seeds, seed_index=slot, slot=slot, num_sampled_nodes=(len(slot),)), {}

        return run


@dataclass(frozen=True, eq=False, repr=False)
class RecentHop(ext.MapStage):
    name = "recent_hop"
    num_hops = 1
    finds_by_node = True
    reads = frozenset({"n_id", "slot", "seed_time"})
    writes = frozenset({"n_id", "slot", "types", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    graph: hr.Graph
    time: str
    hop: int
    k: int
    rate: float

    @property
    def first_hop(self):
        return self.hop

    def runner(self, settings):
        graph, times = self.graph, self.graph.edge_attrs_csc[self.time]

        def run(batch):
            nodes, slot = graph.to_graph_ids(batch.n_id), batch.slot
            first = graph.indptr[nodes]
            degree = graph.indptr[nodes + 1] - first
            of = torch.arange(len(nodes)).repeat_interleave(degree)
            position = torch.arange(len(of)) + (first - degree.cumsum(0) + degree)[of]
            age = batch.seed_time[slot][of] - times[position]
            order = age.argsort(stable=True)
            order = order[age[order] >= 0]
            order = order[of[order].argsort(stable=True)]
            of, position, age = of[order], position[order], age[order]
            known = of.bincount(minlength=len(nodes))
            rank = torch.arange(len(of)) - (known.cumsum(0) - known)[of]
            tree = slot if batch.seed_slot is None else batch.seed_slot[slot]
            key = settings.seed, batch.epoch, batch.index
            number = ext.uniform(*key, batch.n_id[of], hop=self.hop, tree=tree[of], draw=rank)
            kept = (rank < self.k) & (number < torch.exp(-self.rate * age))
            degrees = of[kept].bincount(minlength=len(nodes))
            return ext.with_hop(batch, graph, degrees, position[kept]), {"edges": int(kept.sum())}

        return run


@dataclass(frozen=True, eq=False, repr=False)
class SampleRecent(ext.MacroStage):
    name = "sample_recent"

    graph: hr.Graph
    fanouts: tuple[int, ...]
    rate: float
    time: str = "time"

    def parts(self):
        hops = [RecentHop(self.graph, self.time, hop, k, self.rate) for hop, k in enumerate(self.fanouts)]
        return (BeginTrees(), *hops)
