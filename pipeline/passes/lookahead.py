"""Fetch features with the next batches in view, where that saves reads.

A minibatch is a pure function of its index, so the next ones can be sampled before the rows of this one are read.
Behind a look-ahead cache (`tiered_cache`) that knowledge says which rows make room: Belady's rule within the window.
Where there is no cache, rows that several batches want are read once, in few large reads.
"""

from __future__ import annotations

from headrace.pipeline.lowered.fetch_ahead import FetchAhead
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Pass, Promise, Rule, Window
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.reads_ahead import gains_by_foresight

#: How much of the free memory batches in view take: caches and the model need the rest.
SHARE = 8

#: What they take where it is not known how much memory there is.
BYTES_OF_UNKNOWN = 1 << 28


def _look_ahead(fetch: FetchFeature, machine: Machine) -> Window | None:
    names = (*fetch.node, *(() if fetch.labels is None else (fetch.labels,)))
    sources = [*(fetch.store.node[name] for name in names), *(fetch.store.edge[name] for name in fetch.edge)]
    if not any(map(gains_by_foresight, sources)):
        return None
    most = machine.memory // SHARE if machine.memory else BYTES_OF_UNKNOWN
    return (FetchAhead(fetch.store, node=fetch.node, edge=fetch.edge, labels=fetch.labels, bytes_in_view=most),)


LOOKAHEAD = Pass(
    "lookahead",
    Promise.SAME_BATCHES,
    rules=(Rule("fetch_feature from disk or a look-ahead cache -> fetch_ahead", (FetchFeature,), _look_ahead),),
)
