"""Layers on blocks: those of PyG, with its parameters, over kernels that write no message per edge.

A layer is called as ``conv(x, block)``, where `x` has a row for each source of the block; it returns a row for each
destination. PyG's is called as ``conv((x, x[:num_dst]), edge_index, size=...)``. Parameters have the names and shapes
of PyG's layers of the same class, so ``load_state_dict`` takes theirs. What is aggregated, and its gradients, do not
depend on the number of threads, which is torch's (``torch.set_num_threads``), nor on the device: GPUs have the same
kernels. On a GPU without CuPy, and on other devices, torch's operations stand in, and write messages.

Where it differs:

- *Weights.* Where a block has importance weights (``block.weight``: LABOR by weight, LADIES, PinSAGE), they count in
  means, sums and softmaxes without being passed. PyG's and DGL's layers see none that are not passed to them.
- *GCN.* ``GCNConv`` adds a loop to each node that has none, as PyG's; DGL's ``GraphConv`` adds none. Degrees are
  those of the block, by in-edges and loops at both ends; DGL's ``norm="both"`` counts out-edges of sources. For those
  of the whole graph fetch `hr.gcn_norm`.
- *GAT.* ``GATConv`` lets each destination attend to itself, as PyG's does; DGL's does not, which is
  ``add_self_loops=False``. A destination without edges has the bias as its row then, where DGL's refuses the graph.
  Dropouts draw other numbers than both, and DGL's ``feat_drop`` is yours to call.
- *SAGE, GIN.* As PyG's, and as DGL's ``SAGEConv("mean")`` and ``GINConv``. ``aggr`` is "mean", "sum" or "max" alone,
  and GIN has sums alone.
- *Two node types.* A relation between two types (``block.relation(edge_type)``) has destinations that are no sources,
  so layers that read a node's own row refuse it; PyG's and DGL's take a pair ``(x_src, x_dst)`` there.

>>> import headrace as hr, torch
>>> graph = hr.Graph.from_coo([1, 2, 2], [0, 0, 1], num_nodes=3)
>>> block = next(iter(hr.ItemSampler([0, 1]).sample_neighbor(graph, fanouts=[-1]).loader())).blocks[0]
>>> hr.nn.SAGEConv(4, 2)(torch.randn(block.num_src, 4), block).shape
torch.Size([2, 2])
"""

from headrace.pipeline.models.nn.cluster_gcn import ClusterGCNConv
from headrace.pipeline.models.nn.gat import GATConv
from headrace.pipeline.models.nn.gcn import GCNConv
from headrace.pipeline.models.nn.gin import GINConv
from headrace.pipeline.models.nn.sage import SAGEConv

__all__ = ["ClusterGCNConv", "GATConv", "GCNConv", "GINConv", "SAGEConv"]


def __dir__() -> list[str]:
    # The layers, not the modules that they are in.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
