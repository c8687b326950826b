"""The functions of `headrace.ops`, imported plainly: the package imports this module when the first is asked for."""

from headrace.ops.aggregate.attention import Attended, attend
from headrace.ops.aggregate.attention_scores import AttentionDropout, AttentionScores
from headrace.ops.aggregate.autograd import aggregate_with_grad, attend_with_grad
from headrace.ops.aggregate.extreme import Extremes, spmm_extreme
from headrace.ops.aggregate.spmm import sddmm, spmm
from headrace.ops.aggregate.transpose import Transposed, transpose_csc
from headrace.ops.cache.index import CacheIndex
from headrace.ops.cache.line_cache import LineCache
from headrace.ops.cache.set_index import SetIndex, SetLookup
from headrace.ops.errors import HeadraceError, InputError, PeerError, PlanError, StateError
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
from headrace.ops.random.dependency import BlendedKey, dependent_key
from headrace.ops.random.dropout import dropout_mask
from headrace.ops.random.rng import stream_key
from headrace.ops.random.shuffle import shuffled_range
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
    "EdgeLaw",
    "EdgePositions",
    "Extremes",
    "FetchedRows",
    "Grouped",
    "HeadraceError",
    "Hop",
    "HopRule",
    "InputError",
    "JoinedHops",
    "LaborImportance",
    "LaborImportanceRule",
    "LaborRule",
    "LadiesDraw",
    "LadiesRule",
    "LatestRule",
    "LayerReducer",
    "LineCache",
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
