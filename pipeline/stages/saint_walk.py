"""GraphSAINT's random walks: the nodes that they visit, and norms that are counted beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops import Subgraph, induced_subgraph, random_walk, stream_key, unique_and_inverse
from headrace.ops.memory_limit import check_fits_memory
from headrace.ops.random.rng import WALK
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_machinery import kept
from headrace.pipeline.plan import LAST_EPOCH, PlanError, RunSettings, Stage
from headrace.pipeline.plan.fingerprint import fingerprint
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.saint_draws import SaintDraws, SaintNorms

COVERAGE = 50  # visits per node that pre-sampling aims at, as the authors' code does


@dataclass(frozen=True)
class WalkDraws(SaintDraws):
    """The nodes that walks from the seeds visit.

    Parameters
    ----------
    walk_length
        Steps of a walk.
    num_samples
        Subgraphs that norms are counted on; None for as many as visit each node 50 times.
    """

    walk_length: int
    num_samples: int | None

    reads: ClassVar[frozenset[str]] = frozenset({"n_id"})

    def check(self, before: tuple[Stage, ...], *, norms: bool) -> None:
        if norms and not isinstance(before[0], ItemSampler):
            raise PlanError(
                f"{self.stage}: its norms are counted on batches drawn ahead, which {before[0].name} cannot give; "
                "begin the plan with ItemSampler, or pass norms=False"
            )
        if isinstance(before[0], ItemSampler) and before[0].budget is not None:
            raise PlanError(
                f"{self.stage}: expected batches of as many roots each, got items with a budget; leave it out"
            )
        if isinstance(before[0], ItemSampler):
            roots = min(before[0].batch_size or before[0].batch_size_per_rank or 1, len(before[0].items))
            check_fits_memory(
                8 * roots * (self.walk_length + 1),
                f"{self.stage}: got walk_length = {self.walk_length:,} for {roots:,} roots",
                "lower walk_length, or the batch_size of the source",
            )

    def drawer(self, settings: RunSettings) -> Callable[[MiniBatch], Tensor]:
        graph = self.graph

        def draw(batch: MiniBatch) -> Tensor:
            roots = graph.to_graph_ids(batch.n_id)
            walks = random_walk(
                graph.indptr,
                graph.indices,
                roots,
                self.walk_length,
                key=stream_key(settings.seed, batch.epoch, batch.index, 0, WALK),
                ids=roots,
                num_threads=settings.num_threads,
            ).reshape(-1)
            return unique_and_inverse(walks[walks >= 0])[0]

        return draw

    def make_norms(self, settings: RunSettings, stage: Stage) -> SaintNorms:
        node_counts, edge_counts, num_samples = self._counts(settings, stage)
        degrees, seen = self.graph.in_degrees(), node_counts.clamp(min=1)

        def edge_weight(subgraph: Subgraph, nodes: Tensor, num_threads: int) -> Tensor:
            """(share of the in-edges that are there) * C_v / C_e."""
            del num_threads
            here = subgraph.indptr.diff()
            scale = here.double() * seen[nodes].double() / degrees[nodes].clamp(min=1).double()
            counts = edge_counts[subgraph.positions].clamp(min=1).double()
            return (torch.repeat_interleave(scale, here) / counts).float()

        loss_weight = (num_samples / (seen.double() * self.graph.num_nodes)).float()
        return SaintNorms(loss_weight, edge_weight)

    def _counts(self, settings: RunSettings, stage: Stage) -> tuple[Tensor, Tensor, int]:
        """Return in how many of how many subgraphs each node and each edge is."""
        sampler = settings.source
        assert isinstance(sampler, ItemSampler)  # see check
        name = f"counts of {sorted(fingerprint(sampler.then(stage)).items())}"
        tables = kept(self.graph).tables
        if name not in tables:
            source = sampler.source(settings)
            assert source.batch_size is not None  # see check
            assert source.num_batches is not None
            num_samples = self.num_samples
            if num_samples is None:
                num_samples = -(-COVERAGE * self.graph.num_nodes // (source.batch_size * (self.walk_length + 1)))
            node_counts = torch.zeros(self.graph.num_nodes, dtype=torch.int64, device="cpu")
            edge_counts = torch.zeros(self.graph.num_local_edges, dtype=torch.int64, device="cpu")
            draw = self.drawer(settings)
            for sample in range(num_samples):
                epoch, index = divmod(sample, source.num_batches)
                nodes = draw(source.batch_at(LAST_EPOCH - epoch, index))
                subgraph = induced_subgraph(
                    self.graph.indptr, self.graph.indices, nodes, num_threads=settings.num_threads
                )
                node_counts[nodes] += 1  # no node and no edge is there twice
                edge_counts[subgraph.positions] += 1
            tables[name] = node_counts, edge_counts, num_samples
            self.warn_of_left_out(
                int((node_counts == 0).sum()),
                f"are in none of the {num_samples} subgraphs that were drawn for the norms, which are then as if each "
                "were in one",
                f"raise num_samples= above {num_samples}, or give the source items from which walks reach every node",
            )
        counts: tuple[Tensor, Tensor, int] = tables[name]
        return counts
