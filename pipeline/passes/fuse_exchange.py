"""Fuse fetching with the exchange of rows behind it."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.features import PlacingSource
from headrace.pipeline.machine import Machine
from headrace.pipeline.passes.rewrite import Pass, Promise, Rule, Window
from headrace.pipeline.stage import Stage
from headrace.pipeline.stages.exchange_rows import ExchangeRows
from headrace.pipeline.stages.fetch_and_exchange import FetchAndExchange
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.prefetch import Prefetch


def _fuse(stages: Window, machine: Machine) -> Window | None:
    """Read features whose sources can place rows where they go; what else is fetched stays as it is."""
    del machine
    for end, exchange in enumerate(stages):
        if isinstance(exchange, ExchangeRows):
            start = end
            while isinstance(stages[start - 1], (FetchFeature, Prefetch)):
                start -= 1
            fused = _fused(stages[start:end], exchange)
            if fused is not None:
                return (*stages[:start], *fused, *stages[end + 1 :])
    return None


def _fused(fetches: Window, exchange: ExchangeRows) -> Window | None:
    """Return what takes the place of stages that fetch, and of the exchange behind them."""
    sources = [
        (name, fetch.store.node[name]) for fetch in fetches if isinstance(fetch, FetchFeature) for name in fetch.node
    ]
    fused = {name for name, source in sources if name in exchange.names and isinstance(source, PlacingSource)}
    if not fused:
        return None
    rewritten: list[Stage] = []
    for fetch in fetches:
        if not isinstance(fetch, FetchFeature):
            rewritten.append(fetch)
            continue
        names = tuple(name for name in fetch.node if name in fused)
        kept = tuple(name for name in fetch.node if name not in fused)
        if kept or fetch.edge or fetch.labels is not None:
            rewritten.append(replace(fetch, node=kept, upstream=None))
        if names:
            rewritten.append(FetchAndExchange(fetch.store, node=names))
    left = tuple(name for name in exchange.names if name not in fused)
    return (*rewritten, replace(exchange, names=left, upstream=None))


FUSE_EXCHANGE = Pass(
    "fuse_exchange",
    Promise.SAME_BATCHES,
    rules=(Rule("fetch_feature, exchange_rows -> fetch_and_exchange, exchange_rows", (), _fuse),),
)
