"""Array functions on graphs and features, which the stages of headrace.pipeline call.

Functions take and return CPU tensors (NumPy arrays and memory maps are accepted for inputs that are only read).
Functions with a kernel for GPUs run on the GPU if their main argument is there (`headrace.ops.gpu`). They do not depend
on stages or plans, and are *pure*: the result depends on the arguments alone. Random choices are no exception. A draw
is addressed by a 64-bit stream key and a global node id (see `headrace.ops.random.rng`), so results are the same bits
for any number of threads, in any order of calls, in any process, on either device.

====================  ==============================================================================================
Build a graph         `coo_to_csc` sorts an edge list by destination
Renumber a graph      `reorder_csc` puts its nodes into another order
Score nodes           `sum_to_sources` and `reach_sources` work against the direction of messages
Check a graph         `check_csc` and `check_weights`, for arrays not built here; `has_parallel_edges`
Address randomness    `stream_key` returns the key of (seed, epoch, batch, layer, purpose); `dependent_key` that of
                      a LABOR hop whose batches depend on each other
Order items           `shuffled_range` gives any chunk of a shuffled range, of more than 2**20 items without the rest
Pick edges            `sample_hop` applies a rule to a frontier: a `NeighborRule`, `LatestRule`, `LaborRule`,
                      `LaborImportanceRule`, `LadiesRule`; with types, one for each relation (`ByRelation`, `TypedRows`)
Look at a layer       `labor_importance` and `draw_ladies` give the probabilities by which layer-wise rules draw; a
                      `LayerReducer` lets them decide for a frontier that was cut in parts
Find and draw links   `find_edges`, for the edges that samplers are not to pick; `draw_negatives`
Walk                  `random_walk`, and `pinsage_neighbors` for the nodes that walks visit most
Draw subgraphs        `draw_nodes`, `draw_edges`, `induced_subgraph`, and the norms of GraphSAINT (`ops.saint`)
Renumber nodes        `compact`, `Compactor` and `unique_and_inverse`
Fuse these steps      `BlockSampler` runs hop, compact, hop, compact ... in one call, with the same result
Join the hops         `join_hops` lists the edges of a minibatch, each once
Fetch features        `gather_rows`; `decode_rows` for those stored in fewer bytes; `gather_rows_with_grad` and
                      `scatter_add_rows` for gradients
Fetch from tiers      `locate_rows` returns the tables with the rows (`TierSizes`), `gather_tables` reads them
Keep copies of rows   `CacheIndex` finds rows in the slots of a cache; `SetIndex` does so on a GPU
Aggregate messages    `spmm`, `spmm_extreme`, `attend`, and `sddmm` for gradients of weights, on rows that may come in
                      parts; `transpose_csc` for the way back; `aggregate_with_grad`, `attend_with_grad`
Drop elements         `dropout_mask`
Find owners           `hash_owners`, `group_by_owner`, `positions_in_parts`
Place large arrays    `use_huge_pages`
Free or keep memory   `trim_pool`, `keep_freed_memory`
====================  ==============================================================================================

A graph is CSC over in-neighbours: ``indices[indptr[v]:indptr[v + 1]]`` are the sources of the edges into ``v``. Two
hops of ten neighbours look like this::

    csc = ops.coo_to_csc(src, dst, num_nodes)
    sampler = ops.BlockSampler(csc.indptr, csc.indices, csc.edge_ids)
    keys = [ops.stream_key(seed, epoch, batch, layer, ops.rng.NEIGHBOR) for layer in range(2)]
    sampled = sampler.sample(seeds, [ops.NeighborRule(10), ops.NeighborRule(10)], keys)
    x = ops.gather_rows(features, sampled.n_id)

Compiled kernels are in ``ops/native``: plain C++17 without Python. They release the GIL. `headrace.ops.reference` has a
slow, obvious NumPy version of each function; tests compare the bits of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.ops.names import later as _later

if TYPE_CHECKING:
    from headrace.ops.aggregate.attention import Attended, attend
    from headrace.ops.aggregate.attention_scores import AttentionDropout, AttentionScores
    from headrace.ops.aggregate.autograd import aggregate_with_grad, attend_with_grad
    from headrace.ops.aggregate.extreme import Extremes, spmm_extreme
    from headrace.ops.aggregate.spmm import sddmm, spmm
    from headrace.ops.aggregate.transpose import Transposed, transpose_csc
    from headrace.ops.cache.index import CacheIndex
    from headrace.ops.cache.line_cache import LineCache
    from headrace.ops.cache.set_index import SetIndex, SetLookup
    from headrace.ops.errors import (
        DeviceError,
        FeatureError,
        GraphError,
        HeadraceError,
        InputError,
        ItemsError,
        LoaderError,
        PeerError,
        PlanError,
        StateError,
        UsageError,
    )
    from headrace.ops.features.decode import decode_rows
    from headrace.ops.features.freed_memory import keep_freed_memory
    from headrace.ops.features.gather import gather_rows
    from headrace.ops.features.huge_pages import use_huge_pages
    from headrace.ops.features.memory_pool import trim_pool
    from headrace.ops.features.scatter import gather_rows_with_grad, scatter_add_rows
    from headrace.ops.features.tiers import TierSizes, gather_tables, locate_rows
    from headrace.ops.graphs.csc import Csc, check_csc, coo_to_csc, has_parallel_edges
    from headrace.ops.graphs.reorder import reorder_csc
    from headrace.ops.graphs.spread import reach_sources, sum_to_sources
    from headrace.ops.partition.owners import Grouped, group_by_owner, hash_owners, positions_in_parts
    from headrace.ops.random import rng as rng
    from headrace.ops.random.dependency import BlendedKey, dependent_key
    from headrace.ops.random.dropout import dropout_mask
    from headrace.ops.random.rng import stream_key
    from headrace.ops.random.shuffle import shuffled_range
    from headrace.ops.sampling import saint as saint
    from headrace.ops.sampling.block_sampler import BlockSampler
    from headrace.ops.sampling.compact import Compacted, Compactor, compact, unique_and_inverse
    from headrace.ops.sampling.edge_positions import EdgePositions
    from headrace.ops.sampling.fetch_rows import FetchedRows, fetch_rows, sample_fetched
    from headrace.ops.sampling.find_edges import find_edges
    from headrace.ops.sampling.join_hops import JoinedHops, join_hops
    from headrace.ops.sampling.labor import LaborImportance, labor_importance
    from headrace.ops.sampling.ladies import LadiesDraw, draw_ladies
    from headrace.ops.sampling.layer_reducer import LayerReducer
    from headrace.ops.sampling.negatives import draw_negatives
    from headrace.ops.sampling.rules import (
        ByRelation,
        HopRule,
        LaborImportanceRule,
        LaborRule,
        LadiesRule,
        LatestRule,
        NeighborRule,
        Rule,
    )
    from headrace.ops.sampling.saint import (
        EdgeLaw,
        NodeLaw,
        Subgraph,
        draw_edges,
        draw_nodes,
        edge_law,
        inclusion_probability,
        induced_subgraph,
        node_law,
        subgraph_weights,
    )
    from headrace.ops.sampling.sample import Hop, check_weights, sample_hop
    from headrace.ops.sampling.sampled import Sampled, SampledHop, Trees
    from headrace.ops.sampling.typed_rows import TypedRows, typed_rows
    from headrace.ops.sampling.walk import Visits, WeightSums, pinsage_neighbors, random_walk, weight_sums

__all__ = [
    "Attended",
    "AttentionDropout",
    "AttentionScores",
    "BlendedKey",
    "BlockSampler",
    "ByRelation",
    "CacheIndex",
    "Compacted",
    "Compactor",
    "Csc",
    "DeviceError",
    "EdgeLaw",
    "EdgePositions",
    "Extremes",
    "FeatureError",
    "FetchedRows",
    "GraphError",
    "Grouped",
    "HeadraceError",
    "Hop",
    "HopRule",
    "InputError",
    "ItemsError",
    "JoinedHops",
    "LaborImportance",
    "LaborImportanceRule",
    "LaborRule",
    "LadiesDraw",
    "LadiesRule",
    "LatestRule",
    "LayerReducer",
    "LineCache",
    "LoaderError",
    "NeighborRule",
    "NodeLaw",
    "PeerError",
    "PlanError",
    "Rule",
    "Sampled",
    "SampledHop",
    "SetIndex",
    "SetLookup",
    "StateError",
    "Subgraph",
    "TierSizes",
    "Transposed",
    "Trees",
    "TypedRows",
    "UsageError",
    "Visits",
    "WeightSums",
    "aggregate_with_grad",
    "attend",
    "attend_with_grad",
    "check_csc",
    "check_weights",
    "compact",
    "coo_to_csc",
    "decode_rows",
    "dependent_key",
    "draw_edges",
    "draw_ladies",
    "draw_negatives",
    "draw_nodes",
    "dropout_mask",
    "edge_law",
    "fetch_rows",
    "find_edges",
    "gather_rows",
    "gather_rows_with_grad",
    "gather_tables",
    "group_by_owner",
    "has_parallel_edges",
    "hash_owners",
    "inclusion_probability",
    "induced_subgraph",
    "join_hops",
    "keep_freed_memory",
    "labor_importance",
    "locate_rows",
    "node_law",
    "pinsage_neighbors",
    "positions_in_parts",
    "random_walk",
    "reach_sources",
    "reorder_csc",
    "sample_fetched",
    "sample_hop",
    "scatter_add_rows",
    "sddmm",
    "shuffled_range",
    "spmm",
    "spmm_extreme",
    "stream_key",
    "subgraph_weights",
    "sum_to_sources",
    "transpose_csc",
    "trim_pool",
    "typed_rows",
    "unique_and_inverse",
    "use_huge_pages",
    "weight_sums",
]

# The names of each module, which is loaded when one of them is asked for the first time.
_NAMES = {
    "aggregate.attention": "Attended attend",
    "aggregate.attention_scores": "AttentionDropout AttentionScores",
    "aggregate.autograd": "aggregate_with_grad attend_with_grad",
    "aggregate.extreme": "Extremes spmm_extreme",
    "aggregate.spmm": "sddmm spmm",
    "aggregate.transpose": "Transposed transpose_csc",
    "cache.index": "CacheIndex",
    "cache.line_cache": "LineCache",
    "cache.set_index": "SetIndex SetLookup",
    "errors": (
        "DeviceError FeatureError GraphError HeadraceError InputError ItemsError LoaderError PeerError PlanError "
        "StateError UsageError"
    ),
    "features.decode": "decode_rows",
    "features.gather": "gather_rows",
    "features.freed_memory": "keep_freed_memory",
    "features.huge_pages": "use_huge_pages",
    "features.memory_pool": "trim_pool",
    "features.scatter": "gather_rows_with_grad scatter_add_rows",
    "features.tiers": "TierSizes gather_tables locate_rows",
    "graphs.csc": "Csc check_csc coo_to_csc has_parallel_edges",
    "graphs.reorder": "reorder_csc",
    "graphs.spread": "reach_sources sum_to_sources",
    "partition.owners": "Grouped group_by_owner hash_owners positions_in_parts",
    "random.dependency": "BlendedKey dependent_key",
    "random.dropout": "dropout_mask",
    "random.rng": "stream_key",
    "random.shuffle": "shuffled_range",
    "sampling.block_sampler": "BlockSampler",
    "sampling.compact": "Compacted Compactor compact unique_and_inverse",
    "sampling.edge_positions": "EdgePositions",
    "sampling.fetch_rows": "FetchedRows fetch_rows sample_fetched",
    "sampling.find_edges": "find_edges",
    "sampling.join_hops": "JoinedHops join_hops",
    "sampling.labor": "LaborImportance labor_importance",
    "sampling.ladies": "LadiesDraw draw_ladies",
    "sampling.layer_reducer": "LayerReducer",
    "sampling.negatives": "draw_negatives",
    "sampling.rules": "ByRelation HopRule LaborImportanceRule LaborRule LadiesRule LatestRule NeighborRule Rule",
    "sampling.saint": (
        "EdgeLaw NodeLaw Subgraph draw_edges draw_nodes edge_law inclusion_probability induced_subgraph node_law "
        "subgraph_weights"
    ),
    "sampling.sample": "Hop check_weights sample_hop",
    "sampling.sampled": "Sampled SampledHop Trees",
    "sampling.typed_rows": "TypedRows typed_rows",
    "sampling.walk": "Visits WeightSums pinsage_neighbors random_walk weight_sums",
}
_MODULES = {name: f"headrace.ops.{module}" for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = {"rng": "headrace.ops.random.rng", "saint": "headrace.ops.sampling.saint"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = _later(__name__, _MODULES, _SUBMODULES)
