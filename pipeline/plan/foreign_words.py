"""Arguments and attributes of PyG, DGL and GraphBolt: their names here, or their replacements."""

from __future__ import annotations

_FIRST_HOP_FIRST = "the hop next to the seeds first: PyG's order, while DGL and GraphBolt begin at the input side"
_ATTRIBUTE = "the name of an edge attribute, given by edge_attrs= when the graph is made"
_BACKGROUND = (
    ".prefetch(workers=, depth=) in the plan sets how many background threads make batches, .loader(num_threads=) how "
    "many threads one kernel call uses; both are on by themselves"
)
_IN_THREADS = "batches are made by threads of this process, so there is nothing to set; " + _BACKGROUND
_ITEMS = "give it to hr.ItemSampler, which begins the plan"
_DEVICE = "put .copy_to(device) into the plan, behind what works in CPU memory"
_RANKS = "each rank takes its share by itself from torch.distributed, or by .loader(rank=, world_size=)"
_TIME = "the name of times, given by edge_attrs= or node_attrs= when the graph is made"
_GPU_CACHE = (
    'hr.CachedFeature(source, place="cuda") keeps features on a GPU, .copy_to("cuda") before the sampler the graph'
)
_OTHER_EDGES = (
    "messages go along the edges that were drawn ('directional'); after the sampler chain .induce_subgraph(graph) for "
    "all edges among the sampled nodes ('induced'), or .make_bidirectional() for both directions"
)
_NEGATIVES = "chain .sample_uniform_negative(graph, ratio=...) behind hr.ItemSampler(pairs), before the sampler"

#: Foreign word -> the parameters with its meaning; an error names the first that the stage has.
SAME: dict[str, tuple[str, ...]] = {
    "data": ("graph", "items"),
    "g": ("graph",),
    "G": ("graph",),
    "fanout": ("fanouts", "layer_sizes"),
    "fanouts": ("layer_sizes", "fanout"),
    "num_neighbors": ("fanouts", "layer_sizes", "fanout"),
    "num_samples_per_layer": ("layer_sizes", "fanouts"),
    "nodes_per_layer": ("layer_sizes", "fanouts"),
    "num_layers": ("num_hops",),
    "num_hops": ("num_layers",),
    "prob": ("weight",),
    "prob_name": ("weight",),
    "probs_name": ("weight",),
    "weight_attr": ("weight",),
    "time_attr": ("time",),
    "node_timestamp_attr_name": ("time",),
    "edge_timestamp_attr_name": ("time",),
    "temporal_strategy": ("strategy",),
    "edge_weight": ("weight",),
    "importance_sampling": ("importance",),
    "num_random_walks": ("num_walks",),
    "num_traversals": ("walk_length",),
    "termination_prob": ("restart",),
    "negative_ratio": ("ratio",),
    "neg_sampling_ratio": ("ratio",),
    "neg_ratio": ("ratio",),
    "num_negatives": ("ratio",),
    "num_neg_samples": ("ratio",),
    "amount": ("ratio",),
    "k": ("ratio",),
    "dst_weight": ("node_weight",),
    "src_weight": ("source_weight",),
    "include_reverse_edges": ("reverse",),
    "reverse_etypes": ("reverse",),
    "reverse_etypes_mapping": ("reverse",),
    "return_eids": ("edge_ids",),
    "return_edge_ids": ("edge_ids",),
    "include_original_edge_id": ("edge_ids",),
    "seeds_pre_time_window": ("window",),
    "cluster_data": ("partition",),
    "batch_size": ("clusters_per_batch",),
    "sample_coverage": ("num_samples",),
    "feature_store": ("store",),
    "features": ("store",),
    "node_features": ("node",),
    "edge_features": ("edge",),
    "node_feature_keys": ("node",),
    "edge_feature_keys": ("edge",),
    "node_feats": ("node",),
    "edge_feats": ("edge",),
    "prefetch_node_feats": ("node",),
    "prefetch_edge_feats": ("edge",),
    "prefetch_labels": ("labels",),
    "label": ("labels",),
    "item_set": ("items",),
    "input_nodes": ("items",),
    "node_ids": ("items",),
    "indices": ("items",),
    "node_idx": ("items",),
    "train_idx": ("items",),
    "seeds": ("items",),
    "transformer": ("function",),
    "fn": ("function",),
    "func": ("function",),
    "num_workers": ("workers",),
    "buffer_size": ("depth",),
    "prefetch_factor": ("depth",),
}

#: Foreign word -> the value that the parameter here expects, if it differs.
MEANING: dict[str, str] = {
    "fanout": _FIRST_HOP_FIRST,
    "num_neighbors": _FIRST_HOP_FIRST,
    "nodes_per_layer": _FIRST_HOP_FIRST,
    "num_samples_per_layer": _FIRST_HOP_FIRST,
    "prob": _ATTRIBUTE,
    "prob_name": _ATTRIBUTE,
    "probs_name": _ATTRIBUTE,
    "weight_attr": _ATTRIBUTE,
    "edge_weight": _ATTRIBUTE,
    "time_attr": _TIME,
    "node_timestamp_attr_name": _TIME,
    "edge_timestamp_attr_name": _TIME,
    "importance_sampling": 'a number of rounds, or "*" where DGL has -1',
}

#: Foreign word -> the alternative, if no parameter has its meaning.
ADVICE: dict[str, str] = {
    "data": "make an hr.Graph by hr.Graph.from_pyg or hr.Graph.from_dgl",
    "mask": "make the mask an edge attribute and sample by it, weight=: edges of weight 0 are never drawn",
    "replace": "only sample_neighbor draws with replacement",
    "num_steps": "an epoch goes once through the items of the source",
    "batch_dependency": "sample_layer_neighbor alone has batches that depend on each other",
    "deduplicate": "nodes are always deduplicated; a sampled hop lists every node once",
    "subgraph_type": _OTHER_EDGES,
    "directed": _OTHER_EDGES,
    "edge_dir": "in-edges are sampled; for out-edges make the graph with src and dst exchanged",
    "disjoint": "sample_neighbor and sample_layer_neighbor alone grow trees of seeds",
    "time": "sample_neighbor and sample_layer_neighbor alone keep to times; those of seeds go to hr.ItemSampler(time=)",
    "time_attr": "sample_neighbor and sample_layer_neighbor alone keep to times, time=",
    "input_time": "give the times of seeds to hr.ItemSampler(items, time=...)",
    "edge_label_time": "give the times of pairs to hr.ItemSampler(pairs, time=...)",
    "temporal_strategy": "sample_neighbor alone takes the most recent edges, strategy=",
    "edge_label_index": "give hr.ItemSampler the pairs, or (pairs, labels)",
    "sampler": "a sampler is a stage: chain .sample_neighbor(graph, fanouts), or another one",
    "graph_sampler": "a sampler is a stage: chain .sample_neighbor(graph, fanouts), or another one",
    "neighbor_sampler": "a sampler is a stage: chain .sample_neighbor(graph, fanouts), or another one",
    "transform": "chain .transform(function) where it is to run",
    "collate_fn": "chain .transform(function) where it is to run",
    "num_workers": _BACKGROUND,
    "workers": _BACKGROUND,
    "depth": _BACKGROUND,
    "prefetch_factor": _BACKGROUND,
    "buffer_size": _BACKGROUND,
    "use_prefetch_thread": _BACKGROUND,
    "pin_prefetcher": _BACKGROUND,
    "overlap_fetch": _BACKGROUND,
    "overlap_graph_fetch": _BACKGROUND,
    "asynchronous": _BACKGROUND,
    "persistent_workers": _IN_THREADS,
    "worker_init_fn": _IN_THREADS,
    "multiprocessing_context": _IN_THREADS,
    "filter_per_worker": _IN_THREADS,
    "num_threads": "it is an argument of .loader()",
    "device": _DEVICE,
    "output_device": _DEVICE,
    "use_uva": "leave it out: behind .copy_to('cuda') GPUs read features in pinned CPU memory in place",
    "gpu_cache": _GPU_CACHE,
    "num_gpu_cached_edges": _GPU_CACHE,
    "gpu_cache_threshold": _GPU_CACHE,
    "non_blocking": "a copy to a GPU never waits for the training loop",
    "exclude": "chain .exclude_seed_edges(reverse=...) before the sampler",
    "negative_sampler": _NEGATIVES,
    "neg_sampling": _NEGATIVES,
    "drop_uneven_inputs": "all ranks have the same number of batches, and the last may be short",
    "minibatcher": "chain .transform(function) where it is to run",
    "pin_memory": "call batch.pin_memory(), by .transform if it is to happen ahead",
    "use_ddp": _RANKS,
    "ddp_seed": _RANKS,
    "cooperative": "it is a switch of the loader, .loader(cooperative=True)",
    "generator": "there is no generator state; hr.ItemSampler(seed=) keys everything random in the plan",
    "seed": "hr.ItemSampler(seed=) keys everything random in the plan",
    "batch_size": _ITEMS,
    "shuffle": _ITEMS,
    "drop_last": _ITEMS,
    "input_nodes": _ITEMS,
    "items": _ITEMS,
}

_CUTS = (
    "hr.ItemSampler(items, batch_size=, shuffle=, drop_last=) makes the batches; loader.set_epoch(epoch) takes the "
    "place of sampler.set_epoch, and each epoch has another order without it"
)

#: Attribute of torch's DataLoader, or of its subclasses in DGL and PyG -> its equivalent in a loader.
_OF_LOADERS: dict[str, str] = {
    "dataset": "keep the items that hr.ItemSampler was given; len(loader) is the number of batches",
    "batch_size": "keep the number that hr.ItemSampler was given; batch.num_seeds is that of a batch",
    "sampler": _CUTS,
    "batch_sampler": _CUTS,
    "drop_last": _CUTS,
    "shuffle": _CUTS,
    "timeout": "a batch that cannot be made raises its error, so nothing waits without end",
    "in_order": "batches come in their order, whichever thread makes them",
    "pin_memory_device": ADVICE["pin_memory"],
    "data": "keep the graph and the store that the plan was given",
    "graph": "keep the graph that the plan was given",
    "to": "put .copy_to(device) into the plan",
    "enable_cpu_affinity": ADVICE["num_threads"].replace("it is", "num_threads= is"),
}

#: Methods and attributes of a loader that users may look for in a plan.
_OF_OUR_LOADERS = (
    "close",
    "epoch",
    "epochs",
    "explain",
    "load_state_dict",
    "node",
    "profile",
    "set_epoch",
    "state_dict",
    "stats",
)


def instead_on_loader(name: str) -> str | None:
    """Return the equivalent of an attribute that a loader does not have; None if unknown."""
    return _OF_LOADERS.get(name) or ADVICE.get(name)


def instead_on_plan(name: str) -> str | None:
    """Return the equivalent of an attribute that a plan does not have; None if unknown."""
    if name in _OF_OUR_LOADERS:
        return f"it is of the loader: plan.loader().{name}"
    from headrace.pipeline.plan.foreign_names import INSTEAD  # loaded for an error alone

    return INSTEAD.get(name) or instead_on_loader(name)
