"""PyG's ``NeighborLoader`` on the kernels of headrace, and what it shares with the loader of links."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from torch import Tensor
from torch_geometric.loader import NeighborLoader as PygNeighborLoader
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput
from torch_geometric.sampler.base import SubgraphType

from headrace.pipeline.compat.pyg.batches import Output, node_batch
from headrace.pipeline.compat.pyg.finish import ForeignSampler, alone_with
from headrace.pipeline.compat.pyg.inputs import check_nodes
from headrace.pipeline.compat.pyg.plan_loader import PlanLoader, item_ids
from headrace.pipeline.compat.pyg.sampler import Sampler
from headrace.pipeline.plan import InputError, Plan


class NeighborPlanLoader(PlanLoader):
    """Base of the loaders whose batches come from a `Sampler`, or from one of the user."""

    num_neighbors: Any
    replace: bool
    subgraph_type: Any
    disjoint: bool
    temporal_strategy: str
    time_attr: str | None
    strictly_before: bool
    weight_attr: str | None
    directed: bool
    input_data: Any
    custom_cls: Any

    def enable_cpu_affinity(self, loader_cores: Any = None) -> NoReturn:
        """Refuse to bind workers to cores: PyG does so in the function that starts a worker process."""
        del loader_cores
        self._refuse("enable_cpu_affinity", "run the program on some cores, taskset --cpu-list 0-3 python ...")

    def enable_multithreading(self, worker_threads: Any = None) -> NoReturn:
        """Refuse numbers of threads for worker processes."""
        del worker_threads
        self._refuse("enable_multithreading", "make the loader with num_threads=, the threads of one call of a kernel")

    def enable_memory_log(self) -> NoReturn:
        """Refuse to log the memory of worker processes."""
        self._refuse("enable_memory_log", "log psutil.Process().memory_info().rss, which has the workers in it")

    def _refuse(self, method: str, instead: str) -> NoReturn:
        raise InputError(
            f"{type(self).__name__}: expected no {method}(), which is for worker processes, got a call of it; "
            f"workers are threads of this process: {instead}"
        )

    def check_sampler(self, sampler: Any, method: str) -> None:
        """Refuse a sampler of the user without the method that this loader needs for its seeds."""
        if sampler is not None and not callable(getattr(sampler, method, None)):
            raise InputError(
                f"{type(self).__name__}: expected neighbor_sampler to be a BaseSampler with {method}, got {sampler!r}; "
                "leave it out, or pass headrace.pyg.Sampler(...)"
            )

    def check_strictly_before(self, neighbor_sampler: Any) -> None:
        """Refuse `strictly_before` with another sampler, which would ignore it."""
        if self.strictly_before and neighbor_sampler is not None:
            raise InputError(
                f"{type(self).__name__}: expected strictly_before=False beside neighbor_sampler, which draws what it "
                "was made for, got True; make the sampler with it, headrace.pyg.Sampler(..., strictly_before=True)"
            )

    def own_sampler(self, data: Any) -> Sampler:
        """Return the sampler for the arguments of the loader."""
        return Sampler(
            data,
            self.num_neighbors,
            subgraph_type=self.subgraph_type,
            replace=self.replace,
            disjoint=self.disjoint,
            temporal_strategy=self.temporal_strategy,
            time_attr=self.time_attr,
            strictly_before=self.strictly_before,
            weight_attr=self.weight_attr,
            directed=self.directed,
            seed=self.seed,
            num_threads=self.num_threads,
        )

    @property
    def item_times(self) -> Tensor | None:
        """The time of each item."""
        time: Tensor | None = self.input_data.time
        return time

    def samples_ahead_by(self, sampler: Any) -> bool:
        """Return whether a sampler runs in threads; a sampler of the user does so only with ``num_workers``."""
        return isinstance(sampler, Sampler) or self.num_workers > 0

    def settings_of(self, sampler: Any) -> tuple[Any, ...]:
        """Return the `settings` with those of the sampler; a sampler of the user is called for every batch."""
        parameters = sampler.parameters if isinstance(sampler, Sampler) else ()
        return (*super().settings, sampler, str(parameters))

    @abstractmethod
    def sampled_now(self, items: Any) -> Any:
        """Return the ``SamplerOutput`` of some items, in the calling thread."""

    def sampled_at(self, index: Any) -> Any:
        """Return the ``SamplerOutput`` of the items at some positions."""
        return self.sampled_now(self.input_data[index])

    def collate_fn(self, index: Any) -> Any:
        """Return a batch of the items at some positions; PyG calls it for ``loader([positions])``."""
        out = self.sampled_at(index)
        return self.filter_fn(out) if self.filter_per_worker else out


class NeighborLoader(NeighborPlanLoader, PygNeighborLoader):  # type: ignore[misc]
    """Mini-batches of sampled neighbourhoods, with the parameters, order and attributes of PyG's ``NeighborLoader``.

    It needs neither pyg-lib nor torch-sparse. Batches are sampled in threads ahead of the training loop. They depend
    only on the data, the arguments, the seed, the epoch and the batch number, not on workers. Every iteration is the
    next epoch, and `state_dict` resumes after any batch.

    With ``num_workers=0`` only the sampling runs ahead; everything else runs in the thread of the training loop when a
    batch is due, as with PyG. Attributes (histories, memories, labels) then have the values that the loop has written
    before. Stores, `custom_cls` and transforms are called in the loop and draw from its random streams. With workers,
    attributes are read in the threads, so the loop must not write them. Attributes that require a gradient are the
    exception: they have the values of the last step.

    Differences from PyG:

    - The seed is fixed when the loader is made: `seed`, otherwise that of `generator`, otherwise
      ``torch.initial_seed()``. A new loader for each epoch begins with epoch 0 again, in the same order:
      make one loader for all epochs, or call ``set_epoch(epoch)``.
    - ``num_workers`` are threads; ``worker_init_fn``, ``timeout``, ``multiprocessing_context`` and ``in_order=False``
      have no effect, of which a warning tells. With ``num_workers=0`` one thread samples ahead if that saves time. All
      workers call stores at the same time.
    - `transform` and `transform_sampler_output` run in the training loop also with workers, because threads share the
      generators of torch, NumPy and Python. With workers, each batch has random streams keyed by the seed, the epoch
      and its number, in place of the stream of a PyG worker; the streams of the loop are not changed.
    - A seed that occurs twice in a batch has two rows, both with all its in-edges.
    - ``subgraph_type="induced"`` needs no other library, and a ``(FeatureStore, GraphStore)`` may have features of
      edges.
    - A second ``iter(loader)`` during a running iteration is the next epoch; `state_dict`, `runner`, `set_epoch` and
      `load_state_dict` refer to the iteration that began last.
    - A `sampler` is read completely when an epoch begins, so it must be finite. If the user calls its ``set_epoch``,
      that epoch is used; otherwise every iteration is its next epoch.

    Parameters
    ----------
    data
        A ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore). A sparse matrix of torch or torch_sparse,
        ``adj_t`` or ``adj``, may replace ``edge_index``: batches then have the matrix of their edges, with its values,
        and edge ids count the entries in CSR of ``adj_t``. If there is an ``edge_index`` as well, edge ids are those of
        ``edge_index``. All loaders of the same data share a graph, which is kept with the data; so do those of copies
        with the same tensors. A loader samples from the edges, weights and times at the time of its construction, and
        refuses to if weights or times that it still reads were written. A later loader detects changes, except for
        writes to large arrays that torch does not count, through NumPy or ``tensor.data``: assign a new tensor instead.
    num_neighbors
        In-edges to draw per node, one number per hop, the hop next to the seeds first; -1 takes all. In a graph with
        types the numbers hold for each edge type, or a dictionary has a list for each edge type.
    input_nodes
        Ids or a mask of the seeds; None for all nodes. In a graph with types a node type, or a pair (node type, ids or
        mask).
    input_time
        Times of the seeds; by default those of their nodes, which the type must then have.
    replace
        Whether to draw with replacement.
    subgraph_type
        "directional", "bidirectional" or "induced".
    disjoint
        Whether every seed has a tree of its own.
    temporal_strategy
        "uniform", or "last" for the latest edges, with `time_attr`.
    time_attr
        The name of times of nodes or edges: no edge later than its seed is sampled.
    strictly_before
        headrace's own, with `time_attr`: False (default), as PyG, also samples edges of the seed's own time; True only
        earlier edges.
    weight_attr
        Edge attribute to sample by.
    transform, transform_sampler_output
        Functions of each batch, and of each ``SamplerOutput`` before attributes are added.
    is_sorted
        Accepted without effect; headrace checks whether edges are sorted.
    filter_per_worker
        Whether workers add attributes (the default for data on the CPU). Otherwise the training loop does, and
        transforms draw from its random streams.
    neighbor_sampler
        A sampler to use: a `Sampler`, or any other ``BaseSampler``, which has its own randomness. Another
        ``BaseSampler`` is called in the training loop with ``num_workers=0``. All workers call the same object, one
        after the other, while in PyG each worker process has a copy.
    directed
        Deprecated by PyG: False for "induced".
    seed
        headrace's own: the seed of all randomness.
    num_threads
        Threads that one call of a kernel may use; by default the machine's cores.
    prefetch
        Batches made ahead; False for none. By default twice ``num_workers``.
    **kwargs
        Arguments of ``torch.utils.data.DataLoader``.

    Raises
    ------
    InputError
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
        self.check_sampler(neighbor_sampler, "sample_from_nodes")
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
        """The attributes that may change between epochs: also the sampler, and its parameters."""
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
        """Return the output of the sampler for some seeds, in the calling thread."""
        if isinstance(self.node_sampler, Sampler):
            return self.node_sampler.sample_from_nodes(items)
        with alone_with(self.node_sampler):
            return self.node_sampler.sample_from_nodes(items)
