"""Fetch features in shards from their owners: two rounds (FastSample, arXiv 2311.17847, hybrid partitioning)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered.exchange_ids import ExchangeIds
from headrace.pipeline.lowered.exchange_rows import ExchangeRows
from headrace.pipeline.passes.shards import in_order, sharded_features
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Pass, Promise, Rule, Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.sharded_feature import ShardedFeature


def _route(stages: Window, machine: Machine) -> Window | None:
    """Put an exchange of ids before, and one of rows behind, every fetch from shards that has none yet."""
    if machine.world_size == 1:
        return None
    rewritten: list[Stage] = []
    for stage in stages:
        features = sharded_features(stage) if isinstance(stage, FetchFeature) else {}
        if not isinstance(stage, FetchFeature) or not features or _ids_are_at_owners(rewritten):
            rewritten.append(stage)
            continue
        others = tuple(name for name in stage.node if name not in features)
        for names in _by_owners(features):
            fetch = replace(stage, node=names, edge=(), labels=None)
            ids = ExchangeIds(features[names[0]].partition, renumber=False)
            rewritten += [ids, fetch, ExchangeRows(names, keep=False)]
        if others or stage.edge or stage.labels is not None:
            rewritten.append(replace(stage, node=others))
    return in_order(tuple(rewritten)) if len(rewritten) > len(stages) else None


def _by_owners(features: dict[str, ShardedFeature]) -> list[tuple[str, ...]]:
    """Return the names of features, those together that lie, and are copied, in the same places."""
    groups: list[tuple[str, ...]] = []
    for name, feature in features.items():
        for i, group in enumerate(groups):
            if features[group[0]].lies_as(feature):
                groups[i] = (*group, name)
                break
        else:
            groups.append((name,))
    return groups


def _ids_are_at_owners(before: list[Stage]) -> bool:
    """Whether the vertices of the batch are those that this rank owns, behind an exchange of ids and before its end."""
    exchanges = [stage for stage in before if isinstance(stage, (ExchangeIds, ExchangeRows))]
    return bool(exchanges) and isinstance(exchanges[-1], ExchangeIds)


FETCH_AT_OWNERS = Pass(
    "fetch_at_owners",
    Promise.SAME_BATCHES,
    rules=(Rule("fetch from shards -> exchange_ids, fetch, exchange_rows", (), _route),),
    optional=False,
)
"""Not optional: a rank cannot read rows that it does not have."""
