"""The part of an exchange that is about nodes of one type."""

from __future__ import annotations

from torch import Tensor

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import FeatureName, types_of
from headrace.pipeline.data.types import TypedIds, type_number
from headrace.pipeline.distributed.exchange import Exchange


def exchange_of(batch: MiniBatch, name: FeatureName) -> Exchange:
    """Return the exchange of the rows of a feature: that of the batch, or of the nodes of its type alone."""
    exchange = batch.exchanges[0]
    return exchange if isinstance(name, str) else of_type(exchange, types_of(batch, name), name)


def of_type(exchange: Exchange, types: TypedIds, name: FeatureName) -> Exchange:
    """Return an exchange of nodes of one type, which are named by their numbers within it.

    Both sides know of what type a node is by its id, so nothing is asked.
    """
    number = type_number(types.node_types, name[0])
    owned, wanted = types.of(exchange.owned), types.of(exchange.wanted)
    is_wanted, is_sent = wanted.types == number, owned.types[exchange.send_rows] == number
    places = exchange.places
    if places is not None:
        places = wanted.numbers[places[wanted.types[places] == number]]

    def counts(of_them: Tensor, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(part.sum()) for part in of_them.split(list(sizes)))  # type: ignore[no-untyped-call]

    return Exchange(
        owned=owned.within(name[0]),
        wanted=wanted.within(name[0]),
        num_own=int(is_wanted[: exchange.num_own].sum()),
        send_rows=owned.numbers[exchange.send_rows[is_sent]],
        send_counts=counts(is_sent, exchange.send_counts),
        receive_counts=counts(is_wanted[exchange.num_own :], exchange.receive_counts),
        places=places,
        batch=exchange.batch,
        stays=exchange.stays,
    )
