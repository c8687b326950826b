"""What plans read and make: graphs, items, blocks, batches.

Wings above import the names that most of them use from here.
"""

from headrace.pipeline.data.arrays import (
    as_cpu_tensor,
    as_ids,
    as_number,
    check_kind,
    describe,
    is_one_of,
    refuse_gradient,
    shown,
    version_reader,
    whole_number,
)
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.checks import as_list, check_switches, trusted
from headrace.pipeline.data.digest import exact_digest, sampled_digest
from headrace.pipeline.data.feature_names import FeatureName, is_name
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.graph_types import edge_types_of, node_types_of
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.data.label_range import LabelRange
from headrace.pipeline.data.node_ids import check_known_by_own_ids
from headrace.pipeline.data.place import CPU, DISK, Place
from headrace.pipeline.data.seen import Seen, argument
from headrace.pipeline.data.split_items import Items
from headrace.pipeline.data.times import as_times, times_of
from headrace.pipeline.data.types import TypedIds, TypeName, TypeOffsets, type_number

__all__ = [
    "CPU",
    "DISK",
    "Block",
    "FeatureName",
    "Graph",
    "GraphView",
    "ItemSet",
    "Items",
    "LabelRange",
    "MiniBatch",
    "Place",
    "Seen",
    "TypeName",
    "TypeOffsets",
    "TypedIds",
    "argument",
    "as_cpu_tensor",
    "as_ids",
    "as_list",
    "as_number",
    "as_times",
    "check_kind",
    "check_known_by_own_ids",
    "check_switches",
    "describe",
    "edge_types_of",
    "exact_digest",
    "is_name",
    "is_one_of",
    "node_types_of",
    "refuse_gradient",
    "sampled_digest",
    "shown",
    "times_of",
    "trusted",
    "type_number",
    "version_reader",
    "whole_number",
]
