"""Layers on blocks: those of PyG, with most of its parameters, on every kind of block and over graphs in shards.

A layer is called as ``conv(x, block)``, where `x` has a row for each source of the block; it returns a row for each
destination. PyG's layer is called as ``conv((x, x[:num_dst]), edge_index, size=...)``. Parameters have the names and
shapes of PyG's layers of the same class, so ``load_state_dict`` accepts theirs. Kernels that write no message per edge
compute `SAGEConv`, `GraphConv`, `GCNConv`, `GATConv`, `GINConv`, `RGCNConv` and `ClusterGCNConv`; `GATv2Conv`,
`GINEConv`, `PNAConv` and `TransformerConv`, whose messages depend on more than a row and a weight, write them. Where
ranks share edges, and over shards, those of one part are in memory. Aggregations and their gradients do not depend on
the number of threads, which is torch's (``torch.set_num_threads``), or on the device: GPUs have the same kernels. A GPU
without CuPy, and other devices, use operations of torch, which write messages.

Rows of float16 and bfloat16 are added up in float32 and come back as they were given. Under ``torch.autocast`` layers
that end in a product of matrices (`SAGEConv`, `GINConv`, `ClusterGCNConv`) return its dtype, and others float32.
Blocks whose edges ranks share take narrow rows under autocast alone.

``torch.compile(model, fullgraph=True)`` makes one graph of a model of these layers, or of ``block.aggregate`` and
``block.attend``, from torch 2.4 on. Loaders mark the sizes of batches as dynamic, so that it compiles once for all.

`BatchNorm` and `GraphNorm` leave out the rows that ``plan.pad()`` has added. `CapturedStep` repeats steps on padded
batches as CUDA graphs.

Where it differs:

- *Weights.* If a block has importance weights (``block.weight``: LABOR by weight, LADIES, PinSAGE), means, sums and
  softmaxes use them automatically. PyG's and DGL's layers use only weights that are passed.
- *GCN.* ``GCNConv`` adds a loop to each node that has none, as PyG's; DGL's ``GraphConv`` adds none. Degrees of both
  ends count in-edges and loops in the block; DGL's ``norm="both"`` counts out-edges of sources. For degrees of the
  whole graph fetch `hr.gcn_norm`.
- *GAT.* In ``GATConv`` each destination attends to itself, as in PyG's. In DGL's it does not; use
  ``add_self_loops=False``. The output of a destination without edges is then the bias, where DGL's layer refuses the
  graph. Dropout draws other numbers than PyG and DGL. There is no ``feat_drop`` of DGL: call a dropout yourself.
- *Parameters.* ``in_channels`` has no -1, for lazy layers. There is no ``cached`` of `GCNConv`, ``residual`` and
  ``fill_value`` of `GATConv`, ``act`` of `PNAConv`, rows by number of `RGCNConv`, and ``aggr`` is no list.
- *SAGE, GIN.* As PyG's, and as DGL's ``GINConv`` and ``SAGEConv`` of "mean" and "pool" (``aggr="max", project=True``).
  ``aggr`` of `SAGEConv` is only "mean", "sum" or "max", and GIN only sums.
- *GraphConv.* It is PyG's; DGL's layer of this name is `GCNConv`.
- *Two node types.* In a relation between two types (``block.relation(edge_type)``) destinations are not sources. There
  `SAGEConv`, `GraphConv`, `GINConv`, `GINEConv`, `GATv2Conv`, `TransformerConv` and `RGCNConv` take a pair,
  ``conv((x_src, x_dst), block)``, as PyG's do; the others refuse it. `HeteroConv` has a layer for each relation.

>>> import headrace as hr, torch
>>> graph = hr.Graph.from_coo([1, 2, 2], [0, 0, 1], num_nodes=3)
>>> block = next(iter(hr.ItemSampler([0, 1]).sample_neighbor(graph, fanouts=[-1]).loader())).blocks[0]
>>> hr.nn.SAGEConv(4, 2)(torch.randn(block.num_src, 4), block).shape
torch.Size([2, 2])
"""

from typing import TYPE_CHECKING

from headrace.ops.names import refusal
from headrace.pipeline.data.dynamic_sizes import mark_dynamic
from headrace.pipeline.models.captured_step import CapturedStep
from headrace.pipeline.models.nn.gat import GATConv
from headrace.pipeline.models.nn.gatv2 import GATv2Conv
from headrace.pipeline.models.nn.gcn import ClusterGCNConv, GCNConv
from headrace.pipeline.models.nn.gin import GINConv, GINEConv
from headrace.pipeline.models.nn.hetero import HeteroConv
from headrace.pipeline.models.nn.norms import BatchNorm, GraphNorm
from headrace.pipeline.models.nn.pna import PNAConv
from headrace.pipeline.models.nn.rgcn import RGCNConv
from headrace.pipeline.models.nn.sage import GraphConv, SAGEConv
from headrace.pipeline.models.nn.transformer import TransformerConv
from headrace.pipeline.plan.foreign_names import instead_of_layer

__all__ = [
    "BatchNorm",
    "CapturedStep",
    "ClusterGCNConv",
    "GATConv",
    "GATv2Conv",
    "GCNConv",
    "GINConv",
    "GINEConv",
    "GraphConv",
    "GraphNorm",
    "HeteroConv",
    "PNAConv",
    "RGCNConv",
    "SAGEConv",
    "TransformerConv",
    "mark_dynamic",
]

if not TYPE_CHECKING:  # a checker would take any name
    __getattr__ = refusal("headrace.nn", __all__, instead_of_layer)


def __dir__() -> list[str]:
    # The layers, not the modules that they are in.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
