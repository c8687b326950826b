"""PyG's ``NeighborLoader`` on the kernels of headrace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch_geometric.loader import NeighborLoader as PygNeighborLoader
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput
from torch_geometric.sampler.base import SubgraphType

from headrace.ops.errors import InputError
from headrace.pipeline.compat.pyg.batches import Output, node_batch
from headrace.pipeline.compat.pyg.foreign_sampler import ForeignSampler, alone_with
from headrace.pipeline.compat.pyg.inputs import check_nodes
from headrace.pipeline.compat.pyg.neighbor_plan_loader import NeighborPlanLoader
from headrace.pipeline.compat.pyg.plan_loader import item_ids
from headrace.pipeline.compat.pyg.sampler import Sampler
from headrace.pipeline.plan.plan import Plan


class NeighborLoader(NeighborPlanLoader, PygNeighborLoader):  # type: ignore[misc]
    """Mini-batches of sampled neighbourhoods, with the parameters, order and attributes of PyG's ``NeighborLoader``.

    It needs no pyg-lib and no torch-sparse. Batches are sampled in threads ahead of the training loop. What they hold
    depends on the data, the arguments, the seed, the epoch and the batch number alone, not on workers; every iteration
    is the next epoch, and `state_dict` resumes behind any batch.

    With ``num_workers=0`` all but the sampling happens in the thread of the loop when a batch is due, as with PyG:
    attributes are those that the loop has written by then (histories, memories, labels), stores, `custom_cls` and
    transforms are called there and draw from its random streams. With workers attributes are joined in the threads, so
    that the loop must not write them, but for those that require a gradient, which are as of the last step.

    Where it differs from PyG:

    - The seed is settled when the loader is made: `seed`, else that of `generator`, else ``torch.initial_seed()``.
    - ``num_workers`` are threads; ``worker_init_fn``, ``timeout`` and ``multiprocessing_context`` have no effect. With
      ``num_workers=0`` one thread samples ahead where that pays. Stores are called by all workers at the same time.
    - `transform` and `transform_sampler_output` run in the training loop with workers, too, as threads share the
      generators of torch, NumPy and Python. Where a worker of PyG has a stream of its own, each batch has one that the
      seed, the epoch and its number name; the streams of the loop stay as they are.
    - A seed that is twice in a batch has two rows, both with all its in-edges.
    - ``subgraph_type="induced"`` needs nothing else, and ``(FeatureStore, GraphStore)`` may hold features of edges.
    - A second ``iter(loader)`` beside one that goes on is the next epoch; `state_dict`, `runner`, `set_epoch` and
      `load_state_dict` are about the one that began last.
    - A `sampler` is listed when an epoch begins, so it has to come to an end. One with ``set_epoch`` that the user
      calls goes by that; otherwise every iteration is its next epoch.

    Parameters
    ----------
    data
        A ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore). Edges may be in a sparse matrix, ``adj_t``,
        ``adj``, of torch or torch_sparse, in the place of ``edge_index``: batches have that of their edges, with its
        values, and edge ids count its entries in CSR of ``adj_t``. Beside an ``edge_index`` ids are of ``edge_index``.
        All loaders of the same data share a graph, which is kept with the data. A loader samples from the edges,
        weights and times as they were when it was made; one that is made later sees a change of them, but may miss
        writes into large arrays that torch does not count, through NumPy or ``tensor.data``: set another tensor.
    num_neighbors
        In-edges to draw per node, one number per hop, the hop next to the seeds first; -1 takes all. Of several edge
        types so many of each, or a dictionary has a list for each edge type.
    input_nodes
        Ids or a mask of the seeds; None for all nodes. Where there are types, a type, or a type with ids or a mask.
    input_time
        Times of the seeds; by default those of their nodes, which a type must have then.
    replace
        Whether to draw with replacement.
    subgraph_type
        "directional", "bidirectional" or "induced".
    disjoint
        Whether every seed has a tree of its own.
    temporal_strategy, time_attr
        Sample no edge that is later than its seed.
    strictly_before
        Of headrace, beside `time_attr`: False (default), as PyG, samples edges of the seed's own time, too; True only
        earlier ones.
    weight_attr
        Edge attribute to sample by.
    transform, transform_sampler_output
        Called with each batch, and with each ``SamplerOutput`` before attributes are joined.
    is_sorted
        Accepted; headrace sees by itself.
    filter_per_worker
        Whether workers join attributes (the default for data on the CPU) or the training loop does, where transforms
        then draw from its streams.
    neighbor_sampler
        A sampler to use: a `Sampler`, or any other ``BaseSampler``, whose randomness is then its own. Such a one is
        called in the training loop with ``num_workers=0``; all workers call the same object, one after the other, where
        in PyG each worker process has a copy.
    directed
        Deprecated by PyG: False for "induced".
    seed
        Of headrace: names all that is random.
    num_threads
        Threads that one call of a kernel may use; by default the machine's cores.
    prefetch
        Batches made ahead; False for none. By default twice ``num_workers``.
    **kwargs
        Arguments of ``torch.utils.data.DataLoader``.

    Raises
    ------
    GraphError, InputError, ItemsError
        For data, neighbours or seeds that do not fit together, when the loader is made.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        strictly_before: bool = False,
        seed: int | None = None,
        num_threads: int | None = None,
        prefetch: bool | int | None = None,
        **kwargs: Any,
    ) -> None:
        # Lightning makes a loader anew of the attributes that have the names of arguments.
        self.num_neighbors, self.replace, self.subgraph_type = num_neighbors, replace, subgraph_type
        self.disjoint, self.temporal_strategy, self.directed = disjoint, temporal_strategy, directed
        self.time_attr, self.weight_attr, self.is_sorted = time_attr, weight_attr, is_sorted
        self.neighbor_sampler = neighbor_sampler
        self.strictly_before = strictly_before
        self.check_strictly_before(neighbor_sampler)
        if input_time is not None and time_attr is None:
            raise InputError("NeighborLoader: expected time_attr beside input_time, got none; name the times of edges")
        check_nodes(data, input_nodes, input_time, kwargs.get("input_id"))
        if isinstance(input_nodes, list | tuple) and len(input_nodes) == 2 and input_nodes[1] is None:
            input_nodes = input_nodes[0]  # the same, which PyG reads of stores, too
        kwargs = self.settle(seed, num_threads, prefetch, kwargs)
        if neighbor_sampler is None:
            neighbor_sampler = self.own_sampler(data)
        NodeLoader.__init__(
            self,
            data,
            neighbor_sampler,
            input_nodes=input_nodes,
            input_time=input_time,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **kwargs,
        )
        self.prepare()

    @property
    def items(self) -> Any:
        """The seeds."""
        if not isinstance(self.node_sampler, Sampler):
            return self.input_data.node
        return self.node_sampler.flat_ids(self.input_data.node, self.input_data.input_type)

    @property
    def settings(self) -> tuple[Any, ...]:
        """What may be changed between epochs: also the sampler, and its parameters."""
        return self.settings_of(self.node_sampler)

    @property
    def samples_ahead(self) -> bool:
        """Whether the sampler runs in threads."""
        return self.samples_ahead_by(self.node_sampler)

    def sampled(self, source: Plan) -> Plan:
        """Return the plan up to the ``SamplerOutput``."""
        if isinstance(self.node_sampler, Sampler):
            if self.input_data.time is None:
                self.node_sampler.check_nodes_have_times(self.input_data.input_type)
            return self.node_sampler.plan(source)
        return source.then(ForeignSampler(self.sampled_at))

    def described(self, out: Output) -> Output:
        """Return a ``SamplerOutput`` of the plan with the ids and the times of its items."""
        if isinstance(self.node_sampler, Sampler):
            positions, time = out.metadata[0], self.input_data.time
            out.metadata = (item_ids(self.input_data.input_id, positions), None if time is None else time[positions])
        return out

    def batch_of(self, out: Output, num_threads: int) -> Any:
        """Return the ``SamplerOutput`` with its attributes."""
        permutation, input_type = self.node_sampler.edge_permutation, self.input_data.input_type
        return node_batch(self.data, out, permutation, input_type, num_threads=num_threads, custom_cls=self.custom_cls)

    def sampled_now(self, items: NodeSamplerInput) -> Output:
        """Return what the sampler finds for some seeds, in the thread that calls."""
        if isinstance(self.node_sampler, Sampler):
            return self.node_sampler.sample_from_nodes(items)
        with alone_with(self.node_sampler):
            return self.node_sampler.sample_from_nodes(items)
