"""The neighbour sampler as PyG's ``BaseSampler``, so that PyG's own loaders run on the kernels of headrace."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NegativeSampling, NodeSamplerInput, NumNeighbors
from torch_geometric.sampler.base import SubgraphType

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.compat.pyg.batches import Output
from headrace.pipeline.compat.pyg.graph import earliest, graph_of
from headrace.pipeline.compat.pyg.links import check_exclusion, link_metadata, with_negatives, without_seed_edges
from headrace.pipeline.compat.pyg.sampler_output import ToSamplerOutput
from headrace.pipeline.compat.pyg.torch_arguments import as_switch
from headrace.pipeline.data import MiniBatch, as_times
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.run.lower import one_batch
from headrace.pipeline.stages.item_sampler import ItemSampler

#: A call without a batch number takes its key from here: epochs are words of 32 bits, batches of 64.
_EPOCHS, _BATCHES = 1 << 32, 1 << 62


class Sampler(BaseSampler):  # type: ignore[misc]
    """Sample neighbours for a ``NodeLoader`` or a ``LinkLoader`` of PyG, in the training process or in workers.

    Parameters are those of PyG's ``NeighborSampler``. Without `seed` each call takes its randomness from torch's
    generator, as PyG does: ``torch.manual_seed`` decides it, and each worker process has its own stream. With a seed
    the draws for a batch depend only on the seed, the batch's items and `epoch`, not on workers. Call `set_epoch` in
    every epoch; otherwise batches of the same items have the same neighbours.

    Parameters
    ----------
    data
        A ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore).
    num_neighbors
        In-edges to draw per node, one number per hop, the hop next to the seeds first; -1 takes all. In a graph with
        types the numbers hold for each edge type, or a dictionary has a list for each edge type.
    subgraph_type
        "directional" (the sampled edges), "bidirectional" (each of them in both directions) or "induced" (all edges
        among the sampled nodes).
    replace
        Whether to draw with replacement.
    disjoint
        Whether every seed has a tree of its own.
    time_attr
        The name of times of nodes or edges: no edge later than its seed is drawn.
    temporal_strategy
        "uniform", or "last" for the latest edges, with `time_attr`.
    strictly_before
        headrace's own, with `time_attr`: True draws only edges that are earlier than their seed, none of its own time.
    weight_attr
        Name of the edge attribute to sample by.
    sample_direction
        "forward", as PyG's default; "backward" is refused.
    is_sorted, share_memory
        Accepted without effect: headrace checks whether edges are sorted, and threads share memory.
    seed
        headrace's own: see above.
    num_threads
        headrace's own: the number of threads of one call.

    Raises
    ------
    InputError
        If the data cannot be sampled, or lack the weights.
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
        sample_direction: Literal["forward", "backward"] = "forward",
        *,
        strictly_before: bool = False,
        seed: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        del is_sorted, share_memory
        if sample_direction != "forward":
            raise InputError(
                f'headrace.pyg: expected sample_direction="forward", from nodes to the sources of their edges, got '
                f"{sample_direction!r}; to go along edges sample from data with edge_index.flip(0), and flip that of "
                "batches"
            )
        self.sample_direction = sample_direction
        for name, attribute in (("weight_attr", weight_attr), ("time_attr", time_attr)):
            if not isinstance(attribute, str | None):
                raise InputError(f"headrace.pyg: expected {name} to be the name of an attribute, got {attribute!r}")
        disjoint, directed = (
            as_switch(value, f"headrace.pyg: {name}")
            for name, value in (("disjoint", disjoint), ("directed", directed))
        )
        self.graph = graph_of(data, weight_attr, time_attr)
        if isinstance(num_neighbors, dict) and not num_neighbors:
            raise InputError(
                "headrace.pyg: expected num_neighbors for each hop, got an empty dictionary; pass [10, 10]"
            )
        self.num_neighbors = num_neighbors
        try:
            kind = SubgraphType(subgraph_type)
        except ValueError as cause:
            names = ", ".join(repr(one.value) for one in SubgraphType)
            message = f"headrace.pyg: expected subgraph_type to be one of {names}, got {subgraph_type!r}"
            raise InputError(message) from cause
        self.subgraph_type = kind if directed else SubgraphType.induced
        self.replace = replace
        self.disjoint = disjoint
        if temporal_strategy not in ("uniform", "last"):
            raise InputError(
                f'headrace.pyg: expected temporal_strategy "uniform" or "last", got {temporal_strategy!r}; it counts '
                "with time_attr"
            )
        if temporal_strategy == "last" and time_attr is None:
            warn_user(
                'headrace.pyg: temporal_strategy="last" has no effect without time_attr: neighbours are drawn '
                "uniformly; pass time_attr=, or leave it out",
            )
        self.temporal_strategy = temporal_strategy
        self.time_attr = time_attr
        if strictly_before and time_attr is None:
            raise InputError("headrace.pyg: expected time_attr beside strictly_before=True, got none")
        self.strictly_before = strictly_before
        self.weight_attr = weight_attr
        self.seed = seed
        self.num_threads = num_threads
        self.epoch = 0
        self._timed: set[str] = set()  # types whose nodes were seen to have times
        self._functions: dict[Any, tuple[Callable[[MiniBatch], Output], Any]] = {}
        self.plan(ItemSampler(self.graph.num_nodes, seed=0))  # refuses what cannot be sampled

    @property
    def disjoint(self) -> bool:
        """Whether every seed has its own tree, by `disjoint` or because of times."""
        return self._disjoint or self.time_attr is not None

    @disjoint.setter
    def disjoint(self, value: bool) -> None:
        self._disjoint = value

    @property
    def is_hetero(self) -> bool:
        """Whether the graph has types, as in PyG's sampler."""
        return self.graph.is_typed

    @property
    def is_temporal(self) -> bool:
        """Whether sampling is bounded by times."""
        return self.time_attr is not None

    @property
    def num_neighbors(self) -> NumNeighbors:
        """The numbers of neighbours, in PyG's form."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, value: Any) -> None:
        if isinstance(value, dict):
            value = {name: _listed(counts) for name, counts in value.items()}
        elif not isinstance(value, NumNeighbors) and not isinstance(_listed(value), list | tuple):
            raise InputError(
                "headrace.pyg: expected num_neighbors to list one number per hop, the hop next to the seeds first, or "
                f"a dictionary of lists by edge type, got {value!r}; write num_neighbors=[10, 10]"
            )
        self._num_neighbors = value if isinstance(value, NumNeighbors) else NumNeighbors(_listed(value))

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The values that decide the plan, as text, booleans and None."""
        return (
            *(str(self.num_neighbors), str(self.subgraph_type), self.replace, self.weight_attr),
            *(self.disjoint, self.time_attr, self.temporal_strategy, self.strictly_before),
        )

    @property
    def edge_permutation(self) -> None:
        """None: edge ids of the output are in the order of the user's edges."""
        return

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, for new draws; only with a seed, because otherwise every call has new draws."""
        self.epoch = epoch

    def plan_of_links(
        self,
        source: Plan,
        negatives: NegativeSampling | None,
        edge_type: tuple[str, str, str] | None,
        exclude: Any,
        exclude_per: Literal["batch", "seed"],
    ) -> Plan:
        """Return the `plan` of links with their negatives and the exclusions of `LinkNeighborLoader`."""
        with_all = with_negatives(source, self.graph, negatives, edge_type, self.time_attr)
        check_exclusion(exclude, self.subgraph_type, self.graph, edge_type)
        return self.plan(without_seed_edges(with_all, exclude, exclude_per))

    def plan(self, source: Plan) -> Plan:
        """Return the plan that samples for the batches of a source and yields PyG's ``SamplerOutput``."""
        kind, typed = SubgraphType(self.subgraph_type), self.graph.is_typed
        plan = source.sample_neighbor(
            self.graph,
            self._fanouts(),
            replace=self.replace,
            weight=self.weight_attr,
            expand="new",
            disjoint=self.disjoint,
            time=self.time_attr,
            strictly_before=self.strictly_before,
            strategy="last" if self.time_attr is not None and self.temporal_strategy == "last" else "uniform",
        )
        if kind == SubgraphType.induced:
            if self.time_attr is not None:
                raise InputError(
                    'headrace.pyg: expected no time_attr with subgraph_type="induced", got one; edges that are later '
                    "than a seed would be in its subgraph"
                )
            plan = plan.induce_subgraph(self.graph)
        both_ways = kind == SubgraphType.bidirectional
        if both_ways and not typed:
            plan = plan.make_bidirectional()
        return plan.then(
            ToSamplerOutput(
                kind == SubgraphType.directional, both_ways and typed, no_hops=self.num_neighbors.num_hops == 0
            )
        )

    def _fanouts(self) -> Any:
        if self.graph.edge_types is not None and not self.graph.edge_types.names:
            raise InputError(
                "headrace.pyg: expected data with edge types, got none; give it some, such as "
                "data['author', 'writes', 'paper'].edge_index = edge_index"
            )
        if self.num_neighbors.num_hops == 0:
            return [0]  # one hop that finds nothing, and is not told of
        if self.graph.is_typed:
            assert self.graph.edge_types is not None
            return self.num_neighbors.get_values(list(self.graph.edge_types.names))
        if isinstance(self.num_neighbors.values, dict):
            raise InputError(
                f"headrace.pyg: expected num_neighbors to be a list, one number per hop, for data of one type, got the "
                f"dictionary {self.num_neighbors.values}"
            )
        return self.num_neighbors.values

    def flat_ids(self, ids: Tensor, node_type: str | None) -> Tensor:
        """Return ids of nodes of a type in the one id space of the graph.

        Raises
        ------
        InputError
            If there is no such type, or it has no such ids.
        """
        if node_type is None or self.graph.node_types is None:
            return ids
        return self.graph.node_types.global_ids(node_type, ids)

    def flat_pairs(self, row: Tensor, col: Tensor, edge_type: tuple[str, str, str] | None) -> Tensor:
        """Return pairs, int64[num_pairs, 2], in the one id space of the graph."""
        source, destination = (None, None) if edge_type is None else (edge_type[0], edge_type[-1])
        return torch.stack([self.flat_ids(row, source), self.flat_ids(col, destination)], 1)

    def check_nodes_have_times(self, node_type: str | None) -> None:
        """Check that seeds of a type have times, if times are used.

        Raises
        ------
        InputError
            If they have none: they would get the earliest time, and only edges without a time would be sampled.
        """
        if self.time_attr is None or node_type is None or node_type in self._timed:
            return
        times = self.graph.node_attrs.get(self.time_attr)
        if times is not None and self.graph.node_types is not None:
            places = self.graph.node_types.id_range(node_type)
            if len(places) and bool((times[places.start : places.stop] == earliest(times.dtype)).all()):
                raise InputError(
                    f"headrace.pyg: expected input_time for seeds of type {node_type!r}, which have no "
                    f"{self.time_attr!r} of their own, got none; pass the times at which they are asked for"
                )
        self._timed.add(node_type)

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> Output:
        """Sample for seed nodes; PyG's ``NodeLoader`` calls it."""
        if index.time is None:
            self.check_nodes_have_times(index.input_type)
        out = self._sample(self.flat_ids(index.node, index.input_type), index.input_id, index.time)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(
        self,
        index: EdgeSamplerInput,
        neg_sampling: NegativeSampling | None = None,
        *,
        exclude: Any = False,
        exclude_per: Literal["batch", "seed"] = "batch",
    ) -> Output:
        """Sample for both ends of seed links; PyG's ``LinkLoader`` calls it.

        `exclude` and `exclude_per` are headrace's own: ``exclude_seed_edges`` and ``exclude_per`` of
        `LinkNeighborLoader`.
        """
        pairs = self.flat_pairs(index.row, index.col, index.input_type)
        items, time = index.input_id, index.time
        out = self._sample(pairs, items, time, neg_sampling, index.input_type, exclude, exclude_per)
        _, rows, times = out.metadata
        out.metadata = link_metadata(index, rows, neg_sampling, times)
        return out

    def _sample(
        self,
        seeds: Tensor,
        items: Tensor | None,
        time: Tensor | None,
        negatives: NegativeSampling | None = None,
        edge_type: tuple[str, str, str] | None = None,
        exclude: Any = False,
        exclude_per: Literal["batch", "seed"] = "batch",
    ) -> Output:
        """Sample for one batch, by a function that is kept as long as the parameters stay what they are."""
        parameters = (
            *self.parameters,
            *(
                seeds.ndim,
                seeds.dtype,
                None if time is None else time.dtype,
                id(negatives),
                edge_type,
                repr(exclude),
                exclude_per,
            ),
        )
        if parameters not in self._functions:
            # What the source goes through is not drawn here.
            source = ItemSampler(seeds[:1], seed=self.seed or 0, time=None if time is None else time[:1])
            plan = self.plan_of_links(source, negatives, edge_type, exclude, exclude_per)
            run = one_batch(plan, num_threads=self.num_threads)
            self._functions[parameters] = run, negatives  # which keeps its id
        epoch, index = self._key(seeds)
        seed_time = None if time is None else as_times(time, "time")
        batch = MiniBatch.of_seeds(seeds.long(), epoch=epoch, index=index, item_index=items, seed_time=seed_time)
        return self._functions[parameters][0](batch)

    def _key(self, seeds: Tensor) -> tuple[int, int]:
        """Return the epoch and the batch that name what is drawn."""
        if self.seed is None:
            return int(torch.randint(_EPOCHS, (), device="cpu")), int(torch.randint(_BATCHES, (), device="cpu"))
        digest = hashlib.blake2b(seeds.long().contiguous().numpy().tobytes(), digest_size=8).digest()
        return self.epoch, int.from_bytes(digest, "little")

    def __getstate__(self) -> dict[str, Any]:
        # Functions hold kernels of this process; a worker makes its own.
        return {**self.__dict__, "_functions": {}}


def _listed(counts: Any) -> Any:
    """Return counts in an array or a tensor as a list, and all else as it is."""
    return counts.tolist() if isinstance(counts, Tensor | np.ndarray) else counts
