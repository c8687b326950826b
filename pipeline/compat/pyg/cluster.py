"""PyG's ``ClusterData`` and ``ClusterLoader`` without torch-sparse and pyg-lib; clusters that were kept in a file."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.index import ptr2index
from torch_geometric.loader import ClusterData as PygClusterData
from torch_geometric.loader import ClusterLoader as PygClusterLoader
from torch_geometric.loader.cluster import Partition as PygPartition
from torch_geometric.sampler import SamplerOutput

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.compat.pyg.adjacency import MATRICES
from headrace.pipeline.compat.pyg.attributes import check_attributes
from headrace.pipeline.compat.pyg.graph import check_is_data
from headrace.pipeline.compat.pyg.kept_graphs import kept_graph
from headrace.pipeline.compat.pyg.plan_loader import PlanLoader
from headrace.pipeline.compat.pyg.sampler_output import ToSamplerOutput
from headrace.pipeline.compat.pyg.slicing import sliced_data, stacked
from headrace.pipeline.compat.pyg.torch_arguments import as_switch, check_path
from headrace.pipeline.compat.pyg.torch_samplers import TorchClusters
from headrace.pipeline.data import Graph, whole_number
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.stages.cluster_sampler import ClusterSampler


class ClusterData(PygClusterData):  # type: ignore[misc]
    """A graph partitioned into clusters (Cluster-GCN, arXiv 1905.07953), with PyG's parameters and attributes.

    METIS is that of pymetis (``pip install headrace[partition]``). If it is not installed, a streaming partition is
    used, with a warning; it cuts more edges.

    Parts saved in `save_dir` are used again for the same graph, compared edge by edge; parts of another graph are
    refused.

    Parameters
    ----------
    data, num_parts, save_dir, filename, log, keep_inter_cluster_edges, sparse_format
        As for PyG's.
    recursive
        Accepted without effect; METIS bisects for up to 8 parts, where it cuts fewer edges.

    Raises
    ------
    InputError
        For data of several types, or without ``edge_index``.
        For numbers that are out of range, and parts in `save_dir` of another graph or format.
    """

    def __init__(
        self,
        data: Any,
        num_parts: int,
        recursive: bool = False,
        save_dir: str | None = None,
        filename: str | None = None,
        log: bool = True,
        keep_inter_cluster_edges: bool = False,
        sparse_format: Literal["csr", "csc"] = "csr",
    ) -> None:
        check_clusters(data, sparse_format)
        check_attributes(data, "ClusterData")
        num_parts = whole_number(num_parts, "ClusterData: num_parts", 1, InputError)
        check_path("ClusterData", save_dir=save_dir, filename=filename)
        recursive, log = (
            as_switch(recursive, "ClusterData: recursive"),
            as_switch(log, "ClusterData: log"),
        )
        keep_inter_cluster_edges = as_switch(keep_inter_cluster_edges, "ClusterData: keep_inter_cluster_edges")
        self._made_by: str | None = None  # of parts that are made here
        # Its file holds this class, which torch loads only where it is known.
        with torch.serialization.safe_globals([PygPartition]):
            super().__init__(
                data, num_parts, recursive, save_dir, filename, log, keep_inter_cluster_edges, sparse_format
            )

    def _metis(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        source, destination = edge_index.cpu().unbind(0)
        graph = Graph.from_coo(source, destination, num_nodes=num_nodes)
        self._made_by = METIS
        try:
            partition = Partition.metis(graph, self.num_parts)
        except ModuleNotFoundError:
            warn_user(
                "ClusterData: pymetis is not installed, so a streaming partition is used, which cuts more edges; "
                "pip install headrace[partition] for METIS",
            )
            self._made_by = STREAM
            partition = Partition.stream(graph, self.num_parts)
        return partition.owner(torch.arange(num_nodes, device="cpu")).long().to(edge_index.device)

    def _partition(self, edge_index: Tensor, cluster: Tensor) -> Any:
        partition = super()._partition(edge_index, cluster)
        partition.made_by = self._made_by  # kept in the file, where PyG's own have none
        return partition

    def _permute_data(self, data: Any, partition: Any) -> Any:
        if self._made_by is None:
            check_saved_parts(data, partition, self.num_parts, self.sparse_format)
        return super()._permute_data(data, partition)


class ClusterLoader(PlanLoader, PygClusterLoader):  # type: ignore[misc]
    """Batches of whole clusters with the edges among them, as PyG's ``ClusterLoader``, made by a plan.

    A batch has the edges that begin and end in its clusters, by destination.

    Parameters
    ----------
    cluster_data
        A `ClusterData`, of this package or of PyG.
    seed, num_threads, prefetch
        headrace's own, as for `NeighborLoader`.
    **kwargs
        Arguments of ``torch.utils.data.DataLoader``. ``batch_size`` counts clusters, and a ``sampler`` or
        ``batch_sampler`` yields clusters; a cluster twice in a batch counts once.

    Raises
    ------
    InputError
        For arguments that have no meaning here, and clusters that do not exist.
    """

    not_called = (*PlanLoader.not_called, "_collate")

    def __init__(
        self,
        cluster_data: PygClusterData,
        *,
        seed: int | None = None,
        num_threads: int | None = None,
        prefetch: bool | int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs = self.settle(seed, num_threads, prefetch, kwargs)
        if not isinstance(cluster_data, PygClusterData):
            raise InputError(
                f"ClusterLoader: expected a ClusterData, got {type(cluster_data).__name__}; pass "
                "headrace.pyg.ClusterData(data, num_parts)"
            )
        PygClusterLoader.__init__(self, cluster_data, **kwargs)
        self.graph = _graph_of(cluster_data.partition)
        self.prepare()

    @property
    def sliced(self) -> Any:
        """The graph in the order of its clusters, without matrices, which keep the user's order."""
        data = self.cluster_data.data
        names = [name for name in MATRICES if name in data]
        if names:
            data = copy.copy(data)
            for name in names:
                del data[name]
        return data

    @property
    def source(self) -> Plan:
        """The clusters: ranges of nodes, in the order of the clusters."""
        clusters = Partition.range_of(self.cluster_data.partition.partptr.diff().tolist())
        if self.follows_sampler:
            assert self.batch_sampler is not None  # see settle
            return TorchClusters(clusters, batches=self.batch_sampler, seed=self.settled_seed)
        return ClusterSampler(
            clusters,
            self.batch_size or 1,
            shuffle=self.shuffles,
            drop_last=self.drop_last,
            seed=self.settled_seed,
        )

    def sampled(self, source: Plan) -> Plan:
        """Return the plan up to the ``SamplerOutput``."""
        return source.sample_in_subgraph(self.graph).then(ToSamplerOutput(counted=False))

    def batch_of(self, out: SamplerOutput, num_threads: int) -> Any:
        """Return the clusters with their attributes."""
        edge_index = stacked(out.row, out.col)
        batch = sliced_data(self.sliced, out.node, edge_index, out.edge, num_threads=num_threads)
        batch.edge_index = edge_index
        return batch


def _graph_of(partition: Any) -> Graph:
    """Return the graph in the order of its clusters; edge ids are rows of the attributes there."""

    def made() -> Graph:
        starts, other = partition.indptr.cpu(), partition.index.cpu()
        if partition.sparse_format == "csc":
            return Graph.from_csc(starts, other)
        num_nodes = len(starts) - 1
        source = torch.repeat_interleave(torch.arange(num_nodes, device="cpu"), starts.diff())
        return Graph.from_coo(source, other, num_nodes=num_nodes)

    return kept_graph(partition, (), [partition.indptr, partition.index, partition.sparse_format], made)


#: What made the parts.
METIS, STREAM = "metis", "stream"


def check_clusters(data: Any, sparse_format: Any) -> None:
    """Refuse what cannot be cut into clusters.

    Raises
    ------
    InputError
        For data of several types or without ``edge_index``, and for another format.
    """
    check_is_data(data, "ClusterData")
    if data.edge_index is None:
        raise InputError(
            "ClusterData: expected data.edge_index, got data without one; of an adj_t it is "
            "torch_geometric.utils.to_edge_index(data.adj_t)[0].flip(0)"
        )
    if sparse_format not in ("csr", "csc"):
        raise InputError(f'ClusterData: expected sparse_format "csr" or "csc", got {sparse_format!r}')


def check_saved_parts(data: Any, partition: Any, num_parts: int, sparse_format: str) -> None:
    """Refuse parts that are not those of a graph; all of its edges are compared.

    Parameters
    ----------
    data
        The graph.
    partition
        What the file holds, PyG's ``Partition``.
    num_parts, sparse_format
        What is asked for.

    Raises
    ------
    InputError
        Saying what differs.
    """
    problem = _difference(data, partition, num_parts, sparse_format)
    if problem is not None:
        raise InputError(
            f"ClusterData: expected parts of this graph in save_dir, got {problem}; delete the file, or pass another "
            "save_dir or filename"
        )
    if getattr(partition, "made_by", None) == STREAM and find_spec("pymetis") is not None:
        warn_user(
            "ClusterData: the parts in save_dir are those of a streaming partition, which cuts more edges, though "
            "pymetis is installed now; delete the file for parts of METIS",
        )


def _difference(data: Any, partition: Any, num_parts: int, sparse_format: str) -> str | None:
    """Return what differs; None where the parts fit."""
    if not isinstance(partition, PygPartition):
        return f"a {type(partition).__name__}"
    sizes = (
        ("parts", partition.partptr.numel() - 1, num_parts),
        ("nodes", partition.node_perm.numel(), int(data.num_nodes)),
        ("edges", partition.edge_perm.numel(), int(data.edge_index.shape[1])),
    )
    for what, came, wanted in sizes:
        if came != wanted:
            return f"those of {came} {what}, where {wanted} are wanted"
    if partition.sparse_format != sparse_format:
        return f"those in the format {partition.sparse_format!r}, where {sparse_format!r} is wanted"
    place = torch.full_like(partition.node_perm, -1)
    place[partition.node_perm] = torch.arange(len(place), device=place.device)
    ends = [place[end[partition.edge_perm]] for end in data.edge_index]
    compressed, other = ends if sparse_format == "csr" else ends[::-1]
    fits = torch.equal(compressed, ptr2index(partition.indptr)) and torch.equal(other, partition.index)
    return None if fits and bool((place >= 0).all()) else "those of other edges, or in another order"
