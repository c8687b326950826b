"""Loaders with PyG's names, parameters and batch attributes that run on the kernels of headrace: `headrace.pyg`.

They need torch_geometric alone: no pyg-lib, no torch-sparse. Change the import, and nothing else::

    from headrace.pyg import NeighborLoader

Loaders draw nothing from torch's generator. ``torch.manual_seed`` affects a loader only before its construction,
because its `seed` is ``torch.initial_seed()`` by default. Pass `seed=` for known batches.

With Lightning, loaders go to ``trainer.fit(model, loader)`` as they are. PyG's ``LightningNodeData`` takes
``node_sampler=Sampler(data, ...)``, and ``LightningLinkData`` ``link_sampler=``: their loaders are PyG's own, on the
sampler of headrace. With ``loader="neighbor"`` they make PyG's sampler, which needs pyg-lib or torch-sparse.
"""

from typing import TYPE_CHECKING

from headrace.ops.names import refusal
from headrace.pipeline.compat.pyg.cluster import ClusterData, ClusterLoader
from headrace.pipeline.compat.pyg.link_neighbor_loader import LinkNeighborLoader
from headrace.pipeline.compat.pyg.neighbor_loader import NeighborLoader
from headrace.pipeline.compat.pyg.saint import GraphSAINTEdgeSampler, GraphSAINTNodeSampler, GraphSAINTRandomWalkSampler
from headrace.pipeline.compat.pyg.sampler import Sampler
from headrace.pipeline.compat.pyg.shadow import ShaDowKHopSampler
from headrace.pipeline.compat.pyg.trim import trim_to_layer
from headrace.pipeline.plan.foreign_names import instead_of

__all__ = [
    "ClusterData",
    "ClusterLoader",
    "GraphSAINTEdgeSampler",
    "GraphSAINTNodeSampler",
    "GraphSAINTRandomWalkSampler",
    "LinkNeighborLoader",
    "NeighborLoader",
    "Sampler",
    "ShaDowKHopSampler",
    "trim_to_layer",
]

if not TYPE_CHECKING:  # a checker would take any name
    __getattr__ = refusal("headrace.pyg", __all__, instead_of)
