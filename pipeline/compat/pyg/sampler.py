"""The neighbour sampler as PyG's ``BaseSampler``, so that PyG's own loaders run on the kernels of headrace."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
    NumNeighbors,
    SamplerOutput,
)
from torch_geometric.sampler.base import SubgraphType

from headrace.ops.errors import InputError
from headrace.pipeline.compat.pyg.graph import graph_of
from headrace.pipeline.compat.pyg.sampler_output import ToSamplerOutput
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.run.one_batch import one_batch
from headrace.pipeline.stages.item_sampler import ItemSampler

#: A call without a batch number takes its key from here: epochs are words of 32 bits, batches of 64.
_EPOCHS, _BATCHES = 1 << 32, 1 << 62


class Sampler(BaseSampler):
    """Sample neighbours for a ``NodeLoader`` or a ``LinkLoader`` of PyG, in the training process or in workers.

    Parameters are those of PyG's ``NeighborSampler``. Without `seed` each call takes its randomness from torch's
    generator, as PyG does: ``torch.manual_seed`` decides it, and each worker process has a stream of its own. With a
    seed what is drawn for a batch depends on the seed, the batch's items and `epoch` alone, whatever the workers: call
    `set_epoch` in every epoch, or batches of the same items see the same neighbours.

    Parameters
    ----------
    data
        A ``Data``, or a (FeatureStore, GraphStore).
    num_neighbors
        In-edges to draw per node, one number per hop, the hop next to the seeds first; -1 takes all.
    subgraph_type
        "directional" (the sampled edges), "bidirectional" (each of them in both directions) or "induced" (all edges
        among the sampled nodes).
    replace
        Whether to draw with replacement.
    weight_attr
        Name of the edge attribute to sample by.
    is_sorted, share_memory
        Accepted for PyG's sake: headrace sees by itself whether edges are sorted, and threads share memory.
    seed, num_threads
        Of headrace: see above, and threads that one call may use.

    Raises
    ------
    GraphError
        If the data cannot be sampled from, or lack the weights.
    InputError
        If there is not one number of neighbours per hop.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        *,
        seed: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        del is_sorted, share_memory
        if time_attr is not None or disjoint or temporal_strategy != "uniform":
            raise InputError("headrace.pyg: disjoint and temporal sampling are not there yet; leave out time_attr=")
        self.graph = graph_of(data, weight_attr)
        self.num_neighbors = num_neighbors
        self.subgraph_type = SubgraphType(subgraph_type) if directed else SubgraphType.induced
        self.replace = replace
        self.disjoint = disjoint
        self.weight_attr = weight_attr
        self.seed = seed
        self.num_threads = num_threads
        self.epoch = 0
        self._functions: dict[Any, Callable[[MiniBatch], SamplerOutput]] = {}
        self.plan(ItemSampler(self.graph.num_nodes, seed=0))  # refuses what cannot be sampled

    @property
    def num_neighbors(self) -> NumNeighbors:
        """The numbers of neighbours, as PyG keeps them."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, value: Any) -> None:
        self._num_neighbors = value if isinstance(value, NumNeighbors) else NumNeighbors(value)

    @property
    def edge_permutation(self) -> None:
        """None: edges of the output are named by their ids, in the order of the user's edges."""
        return

    def set_epoch(self, epoch: int) -> None:
        """Let calls that follow draw anew; only with a seed, as otherwise each call does."""
        self.epoch = epoch

    def plan(self, source: Plan) -> Plan:
        """Return the plan that samples for the batches of a source and gives PyG's ``SamplerOutput``."""
        fanouts = self.num_neighbors.values
        if isinstance(fanouts, dict):
            raise InputError(
                f"headrace.pyg: expected num_neighbors to be a list, one number per hop, for data of one type, got the "
                f"dictionary {fanouts}"
            )
        plan = source.sample_neighbor(self.graph, fanouts, replace=self.replace, weight=self.weight_attr, expand="new")
        kind = SubgraphType(self.subgraph_type)
        if kind == SubgraphType.bidirectional:
            plan = plan.make_bidirectional()
        elif kind == SubgraphType.induced:
            plan = plan.induce_subgraph(self.graph)
        return plan.then(ToSamplerOutput(kind == SubgraphType.directional))

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> SamplerOutput:
        """Sample for seed nodes: what PyG's ``NodeLoader`` calls."""
        out = self._sample(index.node, index.input_id)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None) -> SamplerOutput:
        """Sample for both ends of seed links: what PyG's ``LinkLoader`` calls."""
        if neg_sampling is not None:
            raise InputError("headrace.pyg: negatives are not there yet; leave out neg_sampling=")
        out = self._sample(torch.stack([index.row, index.col], 1), index.input_id)
        out.metadata = (index.input_id, out.metadata[1], index.label, index.time)
        return out

    def _sample(self, seeds: Tensor, items: Tensor | None) -> SamplerOutput:
        parameters = (str(self.num_neighbors), str(self.subgraph_type), self.replace, self.weight_attr)
        if parameters not in self._functions:
            plan = self.plan(ItemSampler(self.graph.num_nodes, seed=self.seed or 0))
            self._functions[parameters] = one_batch(plan, num_threads=self.num_threads)
        epoch, index = self._key(seeds)
        batch = MiniBatch.of_seeds(seeds.long(), epoch=epoch, index=index, item_index=items)
        return self._functions[parameters](batch)

    def _key(self, seeds: Tensor) -> tuple[int, int]:
        """Return the epoch and the batch that name what is drawn."""
        if self.seed is None:
            return int(torch.randint(_EPOCHS, ())), int(torch.randint(_BATCHES, ()))
        digest = hashlib.blake2b(seeds.long().contiguous().numpy().tobytes(), digest_size=8).digest()
        return self.epoch, int.from_bytes(digest, "little")

    def __getstate__(self) -> dict[str, Any]:
        # Functions hold kernels of this process; a worker makes its own.
        return {**self.__dict__, "_functions": {}}
