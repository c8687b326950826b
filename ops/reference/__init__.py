"""Slow, obvious NumPy versions of every function of headrace.ops: the oracles of the tests.

Nothing here is fast or shares code with the kernels. Arrays are NumPy arrays, ids are int64, loops are Python loops,
and each function is the sentence that defines its counterpart. Bits agree with the kernels, floating point included:
all of it is IEEE double precision in the written order, with no library call whose rounding is not specified.
"""

from __future__ import annotations

from headrace.ops.reference import aggregate, join_hops, layer, links, pad, partition, reorder, saint, spread, walk
from headrace.ops.reference.blocks import Sampled, SampledHop, sample_blocks
from headrace.ops.reference.cache import CacheIndex
from headrace.ops.reference.csc import coo_to_csc, has_parallel_edges
from headrace.ops.reference.dropout import dropout_mask
from headrace.ops.reference.fetch_rows import FetchedRows, fetch_rows
from headrace.ops.reference.hop import Hop, sample_hop
from headrace.ops.reference.owners import group_by_owner, hash_owners, positions_in_parts
from headrace.ops.reference.picks import pick_labor, pick_labor_weighted, pick_uniform, pick_weighted
from headrace.ops.reference.random import (
    bounded,
    edge_variates,
    labor_variate,
    philox4x32,
    stream_key,
    stream_variates,
    stream_words,
)
from headrace.ops.reference.real_variates import negative_log, normal_quantile, normal_variate, turn, unit_interval
from headrace.ops.reference.renumber import compact, unique_and_inverse
from headrace.ops.reference.rows import decode_rows, gather_rows, locate_rows, scatter_add_rows
from headrace.ops.reference.set_cache import SetCache
from headrace.ops.reference.shuffle import feistel, fisher_yates, shuffled_range

__all__ = [
    "CacheIndex",
    "FetchedRows",
    "Hop",
    "Sampled",
    "SampledHop",
    "SetCache",
    "aggregate",
    "bounded",
    "compact",
    "coo_to_csc",
    "decode_rows",
    "dropout_mask",
    "edge_variates",
    "feistel",
    "fetch_rows",
    "fisher_yates",
    "gather_rows",
    "group_by_owner",
    "has_parallel_edges",
    "hash_owners",
    "join_hops",
    "labor_variate",
    "layer",
    "links",
    "locate_rows",
    "negative_log",
    "normal_quantile",
    "normal_variate",
    "pad",
    "partition",
    "philox4x32",
    "pick_labor",
    "pick_labor_weighted",
    "pick_uniform",
    "pick_weighted",
    "positions_in_parts",
    "reorder",
    "saint",
    "sample_blocks",
    "sample_hop",
    "scatter_add_rows",
    "shuffled_range",
    "spread",
    "stream_key",
    "stream_variates",
    "stream_words",
    "turn",
    "unique_and_inverse",
    "unit_interval",
    "walk",
]
