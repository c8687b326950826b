"""PyG's ``ClusterData`` and ``ClusterLoader`` without torch-sparse and pyg-lib."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch_geometric.loader
from torch import Tensor
from torch_geometric.sampler import SamplerOutput

from headrace.pipeline.compat.pyg.plan_loader import PlanLoader
from headrace.pipeline.compat.pyg.sampler_output import ToSamplerOutput
from headrace.pipeline.compat.pyg.slicing import sliced_data, stacked
from headrace.pipeline.compat.pyg.torch_clusters import TorchClusters
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.stages.cluster_sampler import ClusterSampler


class ClusterData(torch_geometric.loader.ClusterData):  # type: ignore[misc]
    """A graph cut into clusters (Cluster-GCN, arXiv 1905.07953), with the parameters and attributes of PyG's.

    METIS is that of pymetis (``pip install headrace[partition]``). Where it is not installed a streaming partition
    takes its place, which cuts more edges: a warning says so.

    Parameters
    ----------
    data, num_parts, save_dir, filename, log, keep_inter_cluster_edges, sparse_format
        As for PyG's.
    recursive
        Accepted; METIS bisects for up to 8 parts, which is where it cuts less.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Its file holds this class, which torch loads only where it is known.
        with torch.serialization.safe_globals([torch_geometric.loader.cluster.Partition]):
            super().__init__(*args, **kwargs)

    def _metis(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        source, destination = edge_index.cpu().unbind(0)
        graph = Graph.from_coo(source, destination, num_nodes=num_nodes)
        try:
            partition = Partition.metis(graph, self.num_parts)
        except ModuleNotFoundError:
            warnings.warn(
                "ClusterData: pymetis is not installed, so a streaming partition is used, which cuts more edges; "
                "pip install headrace[partition] for METIS",
                stacklevel=3,
            )
            partition = Partition.stream(graph, self.num_parts)
        return partition.owner(torch.arange(num_nodes)).long().to(edge_index.device)


class ClusterLoader(PlanLoader, torch_geometric.loader.ClusterLoader):  # type: ignore[misc]
    """Batches of whole clusters with the edges among them, as PyG's ``ClusterLoader``, made by a plan.

    Edges of a batch are those that begin and end in its clusters, by destination.

    Parameters
    ----------
    cluster_data
        A `ClusterData`, of this package or of PyG.
    seed, num_threads, prefetch
        Of headrace, as for `NeighborLoader`.
    **kwargs
        Arguments of ``torch.utils.data.DataLoader``; ``batch_size`` counts clusters, and a ``sampler`` or
        ``batch_sampler`` names clusters: one that is twice in a batch is there once.

    Raises
    ------
    InputError, ItemsError
        For arguments that make no sense here, and clusters that there are not.
    """

    def __init__(
        self,
        cluster_data: torch_geometric.loader.ClusterData,
        *,
        seed: int | None = None,
        num_threads: int | None = None,
        prefetch: bool | int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs = self.settle(seed, num_threads, prefetch, kwargs)
        torch_geometric.loader.ClusterLoader.__init__(self, cluster_data, **kwargs)
        self.graph = _graph_of(cluster_data.partition)
        self.prepare()

    @property
    def source(self) -> Plan:
        """The clusters: ranges of the nodes, which are in the order of the clusters."""
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
        batch = sliced_data(self.cluster_data.data, out.node, edge_index, out.edge, num_threads=num_threads)
        batch.edge_index = edge_index
        return batch


def _graph_of(partition: Any) -> Graph:
    """Return the graph in the order of its clusters; edge ids are rows of the attributes there."""
    starts, other = partition.indptr.cpu(), partition.index.cpu()
    if partition.sparse_format == "csc":
        return Graph.from_csc(starts, other)
    num_nodes = len(starts) - 1
    source = torch.repeat_interleave(torch.arange(num_nodes), starts.diff())
    return Graph.from_coo(source, other, num_nodes=num_nodes)
