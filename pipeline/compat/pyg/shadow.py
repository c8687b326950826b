"""PyG's ``ShaDowKHopSampler`` without torch-sparse."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.sampler import SamplerOutput

from headrace.ops.errors import InputError
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.compat.pyg.adjacency import matrix_of
from headrace.pipeline.compat.pyg.graph import check_is_data, graph_of
from headrace.pipeline.compat.pyg.inputs import check_mask
from headrace.pipeline.compat.pyg.plan_loader import PlanLoader
from headrace.pipeline.compat.pyg.sampler_output import ToSamplerOutput
from headrace.pipeline.compat.pyg.slicing import sliced_data
from headrace.pipeline.data.arrays import as_cpu_tensor, describe, whole_number
from headrace.pipeline.plan.plan import Plan

#: What a batch of ego nets has of its own.
_OWN = ("edge_index", "num_nodes", "batch", "ptr")


class ShaDowKHopSampler(PlanLoader):
    """Batches of ego nets (ShaDow, arXiv 2201.07858), with the parameters and attributes of PyG's sampler.

    A batch has ``batch`` and ``ptr``, which give the nodes of each ego net; ``root_n_id``, the row of each root; ``y``
    of the roots; and the other attributes of all nodes and edges.

    Parameters
    ----------
    data
        A ``Data``.
    depth
        Hops from a root; 0 takes only the roots.
    num_neighbors
        In-edges to draw for each node in each hop; -1 takes all.
    node_idx
        Ids or a mask of the roots; None for all nodes.
    replace
        Whether to draw with replacement.
    seed, num_threads, prefetch
        headrace's own, as for `NeighborLoader`.
    **kwargs
        Arguments of ``torch.utils.data.DataLoader``.

    Raises
    ------
    InputError
        For data, numbers or roots that do not fit together, when the loader is made.
    """

    not_called = (*PlanLoader.not_called, "__collate__")

    def __init__(
        self,
        data: Data,
        depth: int,
        num_neighbors: int,
        node_idx: Tensor | None = None,
        replace: bool = False,
        *,
        seed: int | None = None,
        num_threads: int | None = None,
        prefetch: bool | int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs = self.settle(seed, num_threads, prefetch, kwargs)
        check_is_data(data, "ShaDowKHopSampler")
        self.data, self.num_neighbors, self.replace = data, num_neighbors, replace
        self.depth = whole_number(depth, "ShaDowKHopSampler: depth", 0, InputError)
        self.graph = graph_of(data)
        if node_idx is None:
            node_idx = torch.arange(self.graph.num_nodes, device="cpu")
        node_idx = as_cpu_tensor(node_idx, "node_idx")
        if node_idx.dtype == torch.bool:
            check_mask(node_idx, self.graph.num_nodes, "ShaDowKHopSampler")
            node_idx = node_idx.nonzero().squeeze(1)
        if node_idx.ndim != 1:
            raise InputError(f"ShaDowKHopSampler: expected node_idx of [num_roots], got {describe(node_idx)}")
        self.node_idx = node_idx
        super().__init__(range(len(node_idx)), **kwargs)  # type: ignore[arg-type]
        self.prepare()

    @property
    def items(self) -> Any:
        """The roots."""
        return self.node_idx

    @property
    def settings(self) -> tuple[Any, ...]:
        """The attributes that may change between epochs: also the depth and width of ego nets."""
        return (*super().settings, f"{self.depth} {self.num_neighbors} {self.replace}")

    def sampled(self, source: Plan) -> Plan:
        """Return the plan up to the ``SamplerOutput``."""
        # Without hops an ego net is its root: one hop that finds nothing.
        hops = (self.depth, self.num_neighbors) if self.depth else (1, 0)
        plan = source.sample_shadow(self.graph, *hops, replace=self.replace)
        return plan.then(ToSamplerOutput(counted=False))

    def batch_of(self, out: SamplerOutput, num_threads: int) -> Any:
        """Return the ego nets one after the other, each with its root first."""
        order = out.batch.argsort(stable=True)
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device="cpu"))
        sizes = torch.bincount(out.batch, minlength=len(out.metadata[0]))
        ptr = starts_of(sizes)
        edge_index = place[torch.stack([out.row, out.col])]
        sliced = sliced_data(self.data, out.node[order], edge_index, out.edge, num_threads=num_threads)
        batch = Batch(batch=out.batch[order], ptr=ptr)
        batch.root_n_id = ptr[:-1].clone()
        if matrix_of(self.data._store) is None or self.data.edge_index is not None:  # noqa: SLF001 - PyG's own way
            batch.edge_index = edge_index
        for name, value in sliced.to_dict().items():
            if name not in _OWN:
                of_roots = name == "y" and self.data.is_node_attr("y")
                batch[name] = value[batch.root_n_id] if of_roots else value
        return batch
