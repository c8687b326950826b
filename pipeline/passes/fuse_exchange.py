"""Fuse fetching with the exchange of rows after it."""

from __future__ import annotations

from headrace.pipeline.lowered.ranks.fetch_owned import ExchangeRows, FetchAndExchange, FetchOwned
from headrace.pipeline.plan import Facts, Machine, Rule, Window


def _fuse(fetch: FetchOwned, exchange: ExchangeRows, facts: Facts, machine: Machine) -> Window | None:
    """Read features whose sources can place rows where they go; what else is fetched stays as it is.

    A GPU copies rows faster than they come over the bus, so there each comes once.
    """
    del machine
    if facts.place is not None and not facts.place.on_host:
        return None
    fused = fetch.wanted.of_nodes(exchange.names).only(lambda source: source.places_rows)
    if not fused:
        return None
    left = fetch.wanted.without(fused)
    exchanged = tuple(name for name in exchange.names if name in left.node)
    rest = (FetchOwned(left), ExchangeRows(exchanged)) if left else ()
    return (*rest, FetchAndExchange(fused))


RULES = (Rule("fetch_owned, exchange_rows -> fetch_and_exchange", (FetchOwned, ExchangeRows), _fuse),)
