"""Plans of lowered stages, chained as if these had verbs: passes make them, and users cannot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from headrace.pipeline.lowered._hop import Hop
from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.ranks.exchange_ids import ExchangeIds, ReturnIds
from headrace.pipeline.lowered.ranks.fetch_owned import ExchangeRows, FetchAndExchange, FetchOwned
from headrace.pipeline.lowered.sample_hop import RuleHop, SampleHop
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
        SampleFused,
        SampleHop,
        WalkHop,
    )
}


def _fetching(stage):
    """Return what makes a stage that fetches of the parameters of `fetch_feature`."""
    return lambda store, node: stage(Wanted(store, node=tuple(node)))


STAGES |= {stage.name: _fetching(stage) for stage in (FetchAndExchange, FetchOwned)}


#: Parameters of a stage that samples by a rule, beside those of its hop.
OF_STAGE = ("layer", "expand", "finder")


def by_rule(stage, graph, rule, **named):
    """Return a stage that samples by a rule, of the parameters of its hop and its own."""
    own = {name: named.pop(name) for name in OF_STAGE if name in named}
    return stage(Hop(graph, rule, **named), **own)


def fused(graph, rules, *, key_layers, first_layer=0, expand="all", **named):
    """Return the fused stage of some hops."""
    hops = [Hop(graph, rule, key_layer=layer, **named) for rule, layer in zip(rules, key_layers, strict=True)]
    return SampleFused(tuple(hops), first_layer=first_layer, expand=expand)


BOTH = Language(lambda stage: None)


class HandMade(Plan):
    """A plan that has lowered stages for verbs, too, and runs in spite of them."""

    def then(self, stage):
        return HandMade((*self.stages, stage))

    def __getattr__(self, name):
        if name not in STAGES:
            raise AttributeError(name)
        if name == "sample_fused":
            return lambda *args, **named: self.then(fused(*args, **named))
        stage = STAGES[name]
        make = partial(by_rule, stage) if isinstance(stage, type) and issubclass(stage, RuleHop) else stage
        return lambda *args, **named: self.then(make(*args, **named))

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
