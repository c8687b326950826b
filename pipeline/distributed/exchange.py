"""Rows on their way between the ranks that own nodes and the ranks that need them, and what that costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from headrace.ops import InputError, compact, gather_rows, group_by_owner, scatter_add_rows
from headrace.ops.features.gather import empty_rows
from headrace.ops.forks import cached_property
from headrace.ops.sampling.compact import element_keys, nodes_and_slots
from headrace.pipeline.data import FeatureName, MiniBatch, TypedIds, type_number
from headrace.pipeline.data.feature_names import types_of
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.partition.node_owners import compactor_of
from headrace.pipeline.partition.router import RankRouter


@dataclass
class Traffic:
    """What a rank did together with the others.

    Parameters
    ----------
    rounds
        Times that it waited for all others, one after the other.
    collectives
        Collectives that it took part in. A round whose sizes the others do not know has two.
    sent_bytes
        Bytes that it sent to other ranks, without the sizes that precede them; what a sum over all ranks takes is
        counted as if each rank sent its terms to every other.
    """

    rounds: int = 0
    collectives: int = 0
    sent_bytes: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Exchange:
    """Which rows of the nodes that this rank owns go to which rank, and which rows come.

    Every rank has the counterpart: what it sends to another, that one expects. A node is owned by one rank and may be
    wanted by several. Nodes that this rank both owns and wants come first on both sides, in the same order, so their
    rows go nowhere; behind them stands what comes, rank by rank, so no row that comes has to be moved.

    Parameters
    ----------
    owned: int64[num_owned]
        The nodes of a layer that this rank owns, those of the layer before first.
    wanted: int64[num_wanted]
        The nodes whose rows this rank needs, each once: its own, then those of rank 0, of rank 1, and so on.
    num_own
        Nodes that are both: the first of `owned` and of `wanted`.
    send_rows: int64[sum(send_counts)]
        The rows of `owned` to send, those for rank 0 first.
    send_counts: world_size counts
        Rows to send to each rank, none to this one.
    receive_counts: world_size counts
        Rows that come from each rank, none from this one.
    places: int64[num_wanted], optional
        Where the nodes that `wanted` was made of are in it, if the batch still has their order.
    owned_slot: int64[num_owned], optional
    wanted_slot: int64[num_wanted], optional
        The trees of these nodes, where seeds grow trees: a node is there once for each of its trees.
    batch: (epoch, batch), optional
        The batch that it belongs to, of which ranks make sure when they exchange rows.
    stays
        Whether no row goes anywhere on any rank: the layer exchanges rows by itself (`SharedBlock`).
    """

    owned: Tensor
    wanted: Tensor
    num_own: int
    send_rows: Tensor
    send_counts: tuple[int, ...]
    receive_counts: tuple[int, ...]
    places: Tensor | None = None
    owned_slot: Tensor | None = None
    wanted_slot: Tensor | None = None
    batch: tuple[int, int] | None = None
    stays: bool = False

    @staticmethod
    def staying(nodes: Tensor, world_size: int) -> Exchange:
        """Return the exchange of a layer whose input is the rows of owned nodes, on every rank."""
        none = (0,) * world_size
        return Exchange(nodes, nodes, len(nodes), nodes.new_empty(0), none, none, stays=True)

    #: Whether `deliver` was called: no field, as two exchanges are equal before and after.
    was_called: ClassVar[bool] = False

    def deliver(self, rows: Tensor, comm: Comm) -> Tensor:
        """Send rows from owners to those who want them.

        Gradients flow back to the owners, who add up what comes for one node: their own, then in the order of the
        ranks, so that the sum is the same in every run (on a GPU the order may change).

        Parameters
        ----------
        rows: [num_owned, ...]
            Row i belongs to ``owned[i]``.
        comm
            The channel.

        Returns
        -------
        Tensor
            [num_wanted, ...], row i for ``wanted[i]``.

        Raises
        ------
        InputError
            For another number of rows. Nothing is sent then.
        PeerError
            If another rank failed or was lost.
        """
        if rows.shape[:1] != self.owned.shape:
            raise InputError(
                f"exchange: expected a row for each of the {len(self.owned)} nodes that rank {comm.rank} owns "
                f"in this layer, got {list(rows.shape)}"
            )
        vars(self)["was_called"] = True
        if self.stays:
            return rows
        delivered: Tensor = _Deliver.apply(rows, self, comm)  # type: ignore[no-untyped-call]
        return delivered

    @cached_property
    def asked_rows(self) -> Tensor:
        """The rows of `owned` that any rank wants, int64[num_own + num_sent]: this rank first, then rank by rank."""
        return torch.cat([torch.arange(self.num_own, device=self.send_rows.device), self.send_rows])

    def collect(self, values: Tensor, comm: Comm) -> Tensor:
        """Send what is known of wanted nodes to their owners: [num_wanted, ...] to one for each of `asked_rows`."""
        comm.at(self.batch)
        came = comm.all_to_all(values[self.num_own :], self.receive_counts, self.send_counts)
        return torch.cat([values[: self.num_own], came])

    def answer(self, values: Tensor, comm: Comm) -> Tensor:
        """Send something back to each who asked: one for each of `asked_rows` to [num_wanted, ...]."""
        comm.at(self.batch)
        came = comm.all_to_all(values[self.num_own :], self.send_counts, self.receive_counts)
        return torch.cat([values[: self.num_own], came])

    @property
    def num_received(self) -> int:
        """Rows that come from other ranks."""
        return sum(self.receive_counts)

    @property
    def num_sent(self) -> int:
        """Rows that go to other ranks, which is the number of ids that came from them."""
        return sum(self.send_counts)

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors under their names, in a fixed order."""
        for name in ("owned", "wanted", "send_rows", "places", "owned_slot", "wanted_slot"):
            tensor = getattr(self, name)
            if tensor is not None:
                yield name, tensor

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> Exchange:
        """Return the exchange with a function applied to its tensors."""
        changed: dict[str, Any] = {name: of_tensor(tensor) for name, tensor in self.named_tensors()}
        return dataclasses.replace(self, **changed)

    def __repr__(self) -> str:
        return f"Exchange({len(self.owned)} owned, {len(self.wanted)} wanted, {self.num_received} from other ranks)"


def exchange_ids(
    nodes: Tensor,
    router: RankRouter,
    comm: Comm,
    *,
    slot: Tensor | None = None,
    meanwhile: Callable[[Tensor], None] | None = None,
) -> Exchange:
    """Ask the owners of nodes for what this rank wants, and learn what the others want of it: one round.

    Parameters
    ----------
    nodes: int64[num_wanted]
        Distinct ones. `Exchange.places` leads from their order to that of `Exchange.wanted`; it is None if `meanwhile`
        gets the places.
    router
        The rank to get each from: its owner, or this one where it has a copy.
    comm
        The channel for the ids.
    slot: int64[num_wanted], optional
        Their trees, over all ranks: what is distinct then are nodes in trees.
    meanwhile
        Called with the places, int64[num_wanted], while this rank waits for the others. It changes the order of what
        the batch has to that of `Exchange.wanted`.
    """
    num_nodes = router.partition.num_nodes
    ids = nodes if slot is None else element_keys(nodes, slot, num_nodes)
    grouped = group_by_owner(ids, router.rank_of(nodes), comm.world_size, first=comm.rank)
    receive_counts, num_own = without_own(grouped.counts, comm.rank)
    wait_with = None if meanwhile is None else partial(meanwhile, grouped.places)
    send_counts = comm.all_to_all_counts(receive_counts, meanwhile=wait_with)
    asked = comm.all_to_all(grouped.ids[num_own:], receive_counts, send_counts)
    # What this rank wants of itself comes first, so that the nodes of the layer before begin the list.
    renumber = compactor_of(router.partition).compact if slot is None else compact
    compacted = renumber(grouped.ids[:num_own], asked)
    owned, owned_slot = compacted.ids, None
    wanted, wanted_slot = grouped.ids, None
    if slot is not None:
        owned, owned_slot = nodes_and_slots(compacted.ids, num_nodes)
        wanted, wanted_slot = nodes_and_slots(grouped.ids, num_nodes)
    return Exchange(
        owned=owned,
        wanted=wanted,
        num_own=num_own,
        send_rows=compacted.indices,
        send_counts=tuple(send_counts),
        receive_counts=tuple(receive_counts),
        places=grouped.places if meanwhile is None else None,
        owned_slot=owned_slot,
        wanted_slot=wanted_slot,
        batch=comm.place,
    )


class _Deliver(torch.autograd.Function):
    """All-to-all of rows; backward sends gradients the other way and adds them up at the owner."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: Exchange, comm: Comm) -> Tensor:
        ctx.exchange, ctx.comm = exchange, comm
        num_own, shape = exchange.num_own, (len(exchange.wanted), *rows.shape[1:])
        out = empty_rows(shape, rows.dtype, rows.device)
        out[:num_own] = rows[:num_own]
        sent = take_rows(rows, exchange.send_rows)
        comm.at(exchange.batch)
        comm.all_to_all(sent, exchange.send_counts, exchange.receive_counts, out=out[num_own:])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        exchange, comm = ctx.exchange, ctx.comm
        num_own = exchange.num_own
        comm.at(exchange.batch)
        returned = comm.all_to_all(gradient[num_own:], exchange.receive_counts, exchange.send_counts)
        summed = gradient.new_zeros((len(exchange.owned), *gradient.shape[1:]))
        summed[:num_own] = gradient[:num_own]
        # The exchange made its rows: nobody waits for a device to look at them.
        return scatter_add_rows(summed, exchange.send_rows, returned, trusted=True), None, None


def take_rows(rows: Tensor, ids: Tensor) -> Tensor:
    """Return ``rows[ids]``, through which no gradient flows, with all of torch's threads: models wait for it.

    Ids are an exchange's own, so that nobody waits for a device to look at them.
    """
    return gather_rows(rows.detach(), ids, num_threads=torch.get_num_threads(), trusted=True)


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

    own, others = is_wanted.split([exchange.num_own, exchange.num_received])  # type: ignore[no-untyped-call]
    coming = others.split(list(exchange.receive_counts))
    going = is_sent.split(list(exchange.send_counts))  # type: ignore[no-untyped-call]
    num_own, *counts = part_sums((own, *coming, *going))
    return Exchange(
        owned=owned.within(name[0]),
        wanted=wanted.within(name[0]),
        num_own=num_own,
        send_rows=owned.numbers[exchange.send_rows[is_sent]],
        send_counts=tuple(counts[len(coming) :]),
        receive_counts=tuple(counts[: len(coming)]),
        places=places,
        batch=exchange.batch,
        stays=exchange.stays,
    )


def without_own(counts: Tensor, rank: int) -> tuple[list[int], int]:
    """Return how many go to each other rank, and how many stay."""
    listed = counts.tolist()
    num_own, listed[rank] = listed[rank], 0
    return listed, num_own


def part_sums(parts: Iterable[Tensor]) -> list[int]:
    """Return the sum of each of some tensors, for which the host waits once."""
    sums = [part.sum() for part in parts]
    listed: list[int] = torch.stack(sums).tolist() if sums else []
    return listed
