"""Fetch features in shards from their owners: two rounds (FastSample, arXiv 2311.17847, hybrid partitioning)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data import CPU, FeatureName
from headrace.pipeline.lowered.ranks.decode_rows import DecodeRows
from headrace.pipeline.lowered.ranks.exchange_ids import ExchangeIds, ReturnIds
from headrace.pipeline.lowered.ranks.fetch_edges import FetchEdges
from headrace.pipeline.lowered.ranks.fetch_owned import ExchangeRows, FetchOwned
from headrace.pipeline.partition.part_owners import PartEdges
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.passes.shards import sharded_edges, sharded_features
from headrace.pipeline.plan import Facts, Machine, Rule, Stage, Window
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.sharded_feature import ShardedFeature


def _route(fetch: FetchFeature, facts: Facts, machine: Machine) -> Window | None:
    """Put an exchange of ids before each fetch from shards, and an exchange of rows after it.

    Ranks that share batches have found the edges of their own nodes, whose rows they have.
    """
    features = sharded_features(fetch)
    edges = {} if facts.shares_layers else sharded_edges(fetch.wanted)
    if machine.world_size == 1 or not (features or edges):
        return None
    stages: list[Stage] = []
    for names in _by_owners(features):
        ids = ExchangeIds(features[names[0]].router, renumber=False)
        owned = fetch.wanted.of_nodes(names).as_stored()
        stages += [ids, FetchOwned(owned), ExchangeRows(names), ReturnIds(keep=False)]
    at_owners = fetch.wanted.of_nodes(features)
    if features and fetch.dtype is not None:
        stages.append(DecodeRows(at_owners))
    for nodes, of_edges in _by_nodes(edges):
        stages.append(FetchEdges(fetch.wanted.of_edges(of_edges), nodes))
    return (*stages, *fetch.rest(replace(at_owners, edge=tuple(edges))))


def _copy_behind(copy: CopyTo, between: Window, fetch: FetchFeature, facts: Facts, machine: Machine) -> Window | None:
    """Move a copy to after a fetch from shards, unless ranks exchange rows where it leads.

    A function of the user in between gets what is there: rows then go to CPU memory and back.
    """
    del facts
    called = any(stage.calls_users for stage in between)
    stays = called or copy.moves_to == CPU or machine.exchanges_at(copy.moves_to)
    in_shards = machine.world_size > 1 and (sharded_features(fetch) or sharded_edges(fetch.wanted))
    return (*between, fetch, copy) if in_shards and not stays else None


def _by_owners(features: dict[FeatureName, ShardedFeature]) -> list[tuple[FeatureName, ...]]:
    """Return the names of features, grouped by equal owners and equal copies."""
    groups: list[tuple[FeatureName, ...]] = []
    for name, feature in features.items():
        for i, group in enumerate(groups):
            if features[group[0]].lies_as(feature):
                groups[i] = (*group, name)
                break
        else:
            groups.append((name,))
    return groups


def _by_nodes(edges: dict[FeatureName, PartEdges]) -> list[tuple[Partition, list[FeatureName]]]:
    """Return the names of edge features, grouped by equal owners of the destinations."""
    groups: list[tuple[Partition, list[FeatureName]]] = []
    for name, of_part in edges.items():
        known = next((names for nodes, names in groups if nodes is of_part.nodes or nodes == of_part.nodes), None)
        if known is None:
            groups.append((of_part.nodes, [name]))
        else:
            known.append(name)
    return groups


RULES = (
    Rule("rows are exchanged on the CPU: copy_to behind the fetch", (CopyTo, ..., FetchFeature), _copy_behind),
    Rule(
        "fetch from shards -> exchange_ids, fetch_owned, exchange_rows, return_ids; of edges -> fetch_edges",
        (FetchFeature,),
        _route,
    ),
)
