"""Classes, functions and methods of PyG, DGL and GraphBolt: the expression here, where a name does not exist."""

from __future__ import annotations

from collections.abc import Iterable


def _sampler(verb: str, arguments: str = "graph, fanouts=[...]") -> str:
    return f"a sampler is a verb of plans: hr.ItemSampler(ids, batch_size=...).{verb}({arguments})"


_LOADER = "call .loader() on a plan, such as hr.ItemSampler(ids, batch_size=...).sample_neighbor(graph, fanouts=[...])"
_OF_PYG = "write `import headrace.pyg` for the loaders with PyG's names"
_SAMPLE_NEIGHBOR = _sampler("sample_neighbor")
_LABOR = _sampler("sample_layer_neighbor")
_BY_TIME = "graph, fanouts=[...], time=..., strictly_before=True"
_TEMPORAL = "write .sample_neighbor(" + _BY_TIME + ")"
_TEMPORAL_LAYER = "write .sample_layer_neighbor(" + _BY_TIME + ")"
_NEGATIVES = "write hr.ItemSampler(pairs, batch_size=...).sample_uniform_negative(graph, ratio=...)"
_DATASET = "run `headrace convert FOLDER DATASET` once, and write hr.open_dataset(DATASET)"
_STORE = 'write hr.FeatureStore(node={"x": tensor}, edge={...})'
_ITEMS = "give the ids to hr.ItemSampler(ids, batch_size=...)"
_ITEMS_BY_TYPE = 'give ids by type to hr.ItemSampler({"paper": ids}, batch_size=...)'
_BLOCKS = "batch.blocks has what each hop sampled"
_PARTITION = "write hr.Partition.metis(graph, num_parts), or run `headrace partition DATASET --parts N`"
_HGT = (
    _sampler("sample_neighbor", "graph, fanouts={edge_type: [...]}") + ", or .sample_ladies(graph, layer_sizes=[...])"
)
_BUDGET = "write hr.ItemSampler(ids, cost=costs, budget=...), which bounds the cost of each batch"
_PREFETCH = "write .prefetch(workers=, depth=), or nothing: loaders make batches ahead by themselves"
_NO_GRAPHS = "headrace samples one large graph; for many small graphs keep torch_geometric.loader"
_TORCH_SAMPLER = (
    "keep it from torch_geometric, and give it to headrace.pyg.NeighborLoader(..., sampler=sampler), which follows it"
)
_SAINT = 'write .sample_saint(graph, "node", budget=...) behind a source; by "edge" or "walk" are the others'

#: Foreign name of a class, a function or a method -> the expression here.
INSTEAD: dict[str, str] = {
    # Samplers and loaders of all three
    "NeighborSampler": _SAMPLE_NEIGHBOR,
    "NeighbourSampler": _SAMPLE_NEIGHBOR,
    "MultiLayerNeighborSampler": _SAMPLE_NEIGHBOR,
    "LayerNeighborSampler": _LABOR,
    "LaborSampler": _LABOR,
    "MultiLayerFullNeighborSampler": _sampler("sample_neighbor", "graph, fanouts=[-1, ...]"),
    "DataLoader": _LOADER,
    "NodeDataLoader": _LOADER,
    "DistNodeDataLoader": _LOADER,
    "dataloader": "call .loader()",
    "ShaDowKHopSampler": "headrace.pyg.ShaDowKHopSampler has PyG's arguments, .sample_shadow(graph, ...) is the verb",
    "RandomWalkNeighborSampler": _sampler("sample_pinsage", "graph, ..."),
    "PinSAGESampler": _sampler("sample_pinsage", "graph, ..."),
    # PyG
    "pyg": _OF_PYG,
    "NeighborLoader": "headrace.pyg.NeighborLoader has PyG's arguments; " + _OF_PYG,
    "LinkNeighborLoader": "headrace.pyg.LinkNeighborLoader has PyG's arguments; " + _OF_PYG,
    "NodeLoader": "keep torch_geometric.loader.NodeLoader, with node_sampler=headrace.pyg.Sampler(data, ...)",
    "LinkLoader": "keep torch_geometric.loader.LinkLoader, with link_sampler=headrace.pyg.Sampler(data, ...)",
    "HGTLoader": _HGT,
    "HGTSampler": _HGT,
    "ClusterData": "headrace.pyg.ClusterData has PyG's arguments, hr.ClusterSampler is the source of a plan",
    "ClusterLoader": "headrace.pyg.ClusterLoader has PyG's arguments, hr.ClusterSampler is the source of a plan",
    "GraphSAINTSampler": _SAINT,
    "SAINTSampler": _SAINT,
    "RandomNodeLoader": "cut the nodes into parts, hr.Partition.hash(num_nodes, num_parts), and begin the plan with "
    "hr.ClusterSampler(partition, 1).sample_in_subgraph(graph)",
    "ImbalancedSampler": _TORCH_SAMPLER,
    "DynamicBatchSampler": _BUDGET,
    "ZipLoader": "iterate zip(loader, other), each the loader of a plan",
    "DataListLoader": _NO_GRAPHS,
    "DenseDataLoader": _NO_GRAPHS,
    "TemporalDataLoader": "make a graph with edge_attrs={'time': ...}, and give the events to "
    "hr.ItemSampler(pairs, time=...), without shuffle=True",
    "PrefetchLoader": _PREFETCH,
    "CachedLoader": "keep the batches, list(loader); hr.CachedFeature keeps features",
    "AffinityMixin": ".loader(num_threads=) sets the threads; batches are made by threads of this process",
    "Data": "write hr.Graph.from_pyg(data) and hr.FeatureStore.from_pyg(data)",
    "HeteroData": "write hr.Graph.from_pyg(data) and hr.FeatureStore.from_pyg(data)",
    "RandomLinkSplit": "write hr.split_links(graph, val=0.1, test=0.1)",
    "RandomNodeSplit": "write hr.split_nodes(nodes, val=0.1, test=0.1)",
    "ToUndirected": "write graph.undirected()",
    "AddSelfLoops": "write graph.with_self_loops()",
    "GCNNorm": "write hr.gcn_norm(graph)",
    "NegativeSampling": _NEGATIVES,
    "negative_sampling": _NEGATIVES,
    "trim_to_layer": "write headrace.pyg.trim_to_layer; batch.blocks are trimmed already",
    **{name: f"write hr.nn.{name}" for name in ("SAGEConv", "GCNConv", "GATConv", "GATv2Conv", "GINConv", "PNAConv")},
    **{name: f"write hr.nn.{name}" for name in ("GINEConv", "TransformerConv", "RGCNConv", "ClusterGCNConv")},
    "HeteroConv": "write hr.nn.HeteroConv",
    # DGL
    "DGLGraph": "write hr.Graph.from_dgl(g)",
    "heterograph": "write hr.Graph.from_coo({edge_type: (src, dst)}, num_nodes={...})",
    "DistGraph": "write hr.open_dataset(folder).graph, of a folder that headrace partition made",
    "partition_graph": _PARTITION,
    "metis_partition": _PARTITION,
    "ClusterGCNSampler": "begin the plan with hr.ClusterSampler(partition, ...)",
    "as_edge_prediction_sampler": _NEGATIVES,
    "EdgeDataLoader": _NEGATIVES,
    "DistEdgeDataLoader": _NEGATIVES,
    "GraphDataLoader": _NO_GRAPHS,
    "CSVDataset": _DATASET,
    # GraphBolt
    "OnDiskDataset": _DATASET,
    "BuiltinDataset": _DATASET,
    "load_dataset": _DATASET,
    "FusedCSCSamplingGraph": "write hr.Graph.from_dgl(graph), which takes it, or hr.Graph.from_csc(indptr, indices)",
    "fused_csc_sampling_graph": "write hr.Graph.from_csc(indptr, indices)",
    "from_dglgraph": "write hr.Graph.from_dgl(g)",
    "ItemSet": _ITEMS,
    "HeteroItemSet": _ITEMS_BY_TYPE,
    "ItemSetDict": _ITEMS_BY_TYPE,
    "DistributedItemSampler": "hr.ItemSampler gives each rank of torch.distributed its share by itself",
    "BasicFeatureStore": _STORE,
    "TorchBasedFeatureStore": _STORE,
    "TorchBasedFeature": _STORE,
    "DiskBasedFeature": "write hr.DiskFeature(...)",
    "CPUCachedFeature": "write hr.CachedFeature(source, ...)",
    "GPUCachedFeature": 'write hr.CachedFeature(source, place="cuda")',
    "UniformNegativeSampler": _NEGATIVES,
    "NegativeSampler": _NEGATIVES,
    "InSubgraphSampler": _sampler("sample_in_subgraph", "graph, ..."),
    "SubgraphSampler": _SAMPLE_NEIGHBOR,
    "TemporalNeighborSampler": _TEMPORAL,
    "temporal_sample_neighbor": _TEMPORAL,
    "TemporalLayerNeighborSampler": _TEMPORAL_LAYER,
    "temporal_sample_layer_neighbor": _TEMPORAL_LAYER,
    "FeatureFetcher": 'write .fetch_feature(store, node=["x"], labels="y")',
    "MiniBatchTransformer": "write .transform(function)",
    "SampledSubgraph": _BLOCKS,
    "SampledSubgraphImpl": _BLOCKS,
    "FusedSampledSubgraphImpl": _BLOCKS,
    "Bufferer": _PREFETCH,
    "buffer": _PREFETCH,
    "Prefetcher": _PREFETCH,
    "sample_labor": "write .sample_layer_neighbor(graph, fanouts=[...])",
    "to": "write .copy_to(device)",
    "cuda": 'write .copy_to("cuda")',
    "map": "write .transform(function)",
}

_OWN_LAYERS = "PyG's own layers take `h, edge_index, size = block.to_pyg(h)`, as conv(h, edge_index, size=size)"
_RELATIONS = (
    'aggregate each relation and add the results, block.relation(edge_type).aggregate(x, reduce="mean"); or end the '
    "plan with .to_pyg(), for the model of PyG as it is"
)

_MODEL = (
    "write a torch.nn.Module with one layer of hr.nn for each block, such as hr.nn.SAGEConv: "
    "for conv, block in zip(self.convs, batch.blocks, strict=True): h = conv(h, block).relu()"
)

#: Name of a layer of PyG or DGL, or of what makes models of them -> how to write it with blocks.
_LAYERS: dict[str, str] = {
    **dict.fromkeys(("HeteroGraphConv", "to_hetero"), "write hr.nn.HeteroConv, with a layer for each edge type"),
    **dict.fromkeys(("FastRGCNConv", "RelGraphConv"), "write hr.nn.RGCNConv"),
    **dict.fromkeys(("HGTConv", "HANConv", "HeteroLinear", "to_hetero_with_bases"), _RELATIONS),
    "MessagePassing": "write a torch.nn.Module whose forward calls block.aggregate(x, reduce=...) or block.attend(...)",
    "GraphConv": "write hr.nn.GraphConv for that of PyG, hr.nn.GCNConv for that of DGL",
    **dict.fromkeys(("GraphSAGE", "GCN", "GAT", "GIN", "BasicGNN"), _MODEL),
    "Linear": "write torch.nn.Linear",
    "Sequential": "write torch.nn.ModuleList of layers, one for each block",
    "LayerNorm": "write torch.nn.LayerNorm, which takes each row alone",
}


def instead_of(name: str, verbs: Iterable[str] = ()) -> str | None:
    """Return the expression for a verb, or for a name of another library, in any case; None if unknown."""
    words = {
        _plain(verb): f"write hr.ItemSampler(ids, batch_size=...).{verb}(...), a plan has the verbs" for verb in verbs
    }
    words |= {_plain(word): text for word, text in INSTEAD.items()}
    return INSTEAD.get(name) or words.get(_plain(name)) or _LAYERS.get(name)


def instead_of_layer(name: str) -> str | None:
    """Return how to write a layer that `hr.nn` does not have; None for what may be a typing error, or no layer."""
    if name in _LAYERS:
        return _LAYERS[name]
    return f"SAGEConv, GCNConv, GATConv and GINConv are here; {_OWN_LAYERS}" if name.endswith("Conv") else None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
