"""Out-degrees of DGL's blocks: a rank has only some of the out-edges of a node, and DGL's layers may ask for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.distributed.exchange import Exchange


def count_on_all_ranks(argument: Any, exchange: Exchange, comm: Comm) -> Any:
    """Return a DGL block whose ``out_degrees`` are those of one process's block; anything else as it is.

    DGL's `GraphConv` divides by them (``norm="both"``, its default, and ``"left"``). In-degrees need no help: a rank
    has all sampled in-edges of the destinations that it owns. Every rank calls a layer, so every rank comes to the
    count, which takes two collectives and is made only if the layer asks.

    Parameters
    ----------
    argument
        An argument of a layer. A block of the user is not changed: the layer gets a copy that shares its edges.
    exchange
        That of the layer's sources.
    comm
        The channel of the model.
    """
    if not getattr(argument, "is_block", False):
        return argument

    def out_degrees(u: Any = None, etype: Any = None) -> Tensor:
        own: Tensor = argument.out_degrees(etype=etype)
        total = own.new_zeros(len(exchange.owned))
        total.index_add_(0, exchange.asked_rows, exchange.collect(own, comm))
        degrees = exchange.deliver(total, comm)
        return degrees if u is None else degrees[u]

    counting = argument.local_var()
    counting.out_degrees = out_degrees
    return counting
