"""Plans of lowered stages, chained as if these had verbs: passes make them, and users cannot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.exchange_ids import ExchangeIds
from headrace.pipeline.lowered.exchange_rows import ExchangeRows
from headrace.pipeline.lowered.fetch_and_exchange import FetchAndExchange
from headrace.pipeline.lowered.fetch_owned import FetchOwned
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.hop import SampleHop
from headrace.pipeline.lowered.return_ids import ReturnIds
from headrace.pipeline.lowered.sample_at_owners import SampleAtOwners
from headrace.pipeline.lowered.sample_hop_together import SampleHopTogether
from headrace.pipeline.lowered.walk_hop import WalkHop
from headrace.pipeline.plan import rewriting
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.verify import Language, verify
from headrace.pipeline.storage.wanted import Wanted

STAGES = {
    stage.name: stage
    for stage in (
        Compact,
        ExchangeIds,
        ExchangeRows,
        ReturnIds,
        SampleAtOwners,
        SampleFused,
        SampleHop,
        SampleHopTogether,
        WalkHop,
    )
}


def _fetching(stage):
    """Return what makes a stage that fetches of the parameters of `fetch_feature`."""
    return lambda store, node: stage(Wanted(store, node=tuple(node)))


STAGES |= {stage.name: _fetching(stage) for stage in (FetchAndExchange, FetchOwned)}

BOTH = Language(lambda stage: None)


class HandMade(Plan):
    """A plan that has lowered stages for verbs, too, and runs in spite of them."""

    def then(self, stage):
        return HandMade((*self.stages, stage))

    def __getattr__(self, name):
        if name not in STAGES:
            raise AttributeError(name)
        return lambda *args, **named: self.then(STAGES[name](*args, **named))

    def loader(self, **options):
        with legal():
            return super().loader(**options)


_lock = threading.Lock()
_inside: list[Any] = []


@contextmanager
def legal() -> Iterator[None]:
    """Let plans that come to the passes speak their language."""
    with _lock:
        _inside.append(rewriting.verify)
        rewriting.verify = lambda plan, language=BOTH: verify(plan, language)
    try:
        yield
    finally:
        with _lock:  # ranks are threads, and the last one puts back what the first one found
            found = _inside.pop()
            if not _inside:
                rewriting.verify = found


def hand_made(plan: Plan) -> HandMade:
    """Return a plan to which lowered stages can be chained."""
    return HandMade(plan.stages)
