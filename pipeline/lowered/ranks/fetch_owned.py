"""Features of nodes at their owners: fetching rows there, exchanging them between ranks, and both in one stage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.features.gather import empty_rows, gather_rows
from headrace.pipeline.data import CPU, FeatureName, MiniBatch, Place
from headrace.pipeline.distributed.exchange import Exchange, exchange_of, take_rows
from headrace.pipeline.lowered._fetch_stage import FetchStage
from headrace.pipeline.plan import Counts, MapStage, RankTraits, Runner, RunSettings
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import add_counts, place_rows, read_rows
from headrace.pipeline.storage.wanted import Wanted


@dataclass(frozen=True, eq=False, repr=False)
class FetchOwned(FetchStage):
    """Read node features of the nodes that this rank owns, between an exchange of ids and one of rows.

    The passes ``cooperative`` and ``fetch_at_owners`` make it from ``fetch_feature``.

    Parameters
    ----------
    wanted
        Node features.
    """

    name: ClassVar[str] = "fetch_owned"
    lowered: ClassVar[bool] = True

    wanted: Wanted

    @property
    def reads(self) -> frozenset[str]:
        return self.wanted.reads | {"exchanges"}

    def runner(self, settings: RunSettings) -> Runner:
        return self.fetching_here(settings)


@dataclass(frozen=True, eq=False, repr=False)
class ExchangeRows(MapStage):
    """Send node features that were fetched for owned nodes to the inputs of ``blocks[0]``.

    Every row was read by its owner alone. The passes ``cooperative`` (arXiv 2310.12403) and ``fetch_at_owners``
    (FastSample, arXiv 2311.17847) put it behind the stages that fetch.

    Parameters
    ----------
    names
        The features.
    """

    name: ClassVar[str] = "exchange_rows"
    lowered: ClassVar[bool] = True

    ranks: ClassVar[RankTraits] = RankTraits(collective=True)
    reads: ClassVar[frozenset[str]] = frozenset({"n_id", "exchanges", "node"})
    writes: ClassVar[frozenset[str]] = frozenset({"node"})

    names: tuple[FeatureName, ...]

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            node = {}
            counts = {"rounds": len(self.names), "collectives": len(self.names), "sent_bytes": 0, "bytes_from_rank": 0}
            for name in self.names:
                exchange = exchange_of(batch, name)
                rows = exchange.deliver(batch.node[name], comm)
                row_bytes = math.prod(rows.shape[1:]) * rows.element_size()
                counts["sent_bytes"] += row_bytes * exchange.num_sent
                counts["bytes_from_rank"] += row_bytes * exchange.num_received
                node[name] = rows if exchange.places is None else take_rows(rows, exchange.places)
            return batch.replace(node={**batch.node, **node}), counts

        return run


@dataclass(frozen=True, eq=False, repr=False)
class FetchAndExchange(FetchStage):
    """Read the node features of owned nodes to where they go: to the inputs of ``blocks[0]``, and to other ranks.

    What ``fetch_owned`` and ``exchange_rows`` do, without copies in between: a row that several ranks want is read for
    each of them, which takes no longer than to copy it if it is in memory (``loader.stats()`` counts as ``rows`` each
    row once, and as ``reread_rows`` how often it was read again). The pass ``fuse_exchange`` makes the stage of these
    two; turn it off for files that are far larger than memory.

    Parameters
    ----------
    wanted
        Node features whose sources write rows where they are wanted.

    Raises
    ------
    InputError
        For a source that only returns rows.
    """

    name: ClassVar[str] = "fetch_and_exchange"
    lowered: ClassVar[bool] = True

    reads_at: ClassVar[Place | None] = CPU
    ranks: ClassVar[RankTraits] = RankTraits(collective=True)

    wanted: Wanted

    def __post_init__(self) -> None:
        for name, source in self._sources():
            if not source.places_rows:
                raise InputError(f"fetch_and_exchange: the source of {name!r} has no read_into; use fetch_feature")

    @property
    def reads(self) -> frozenset[str]:
        return self.wanted.reads | {"exchanges"}

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        threads = settings.num_threads
        # What sources state of their rows is asked once: small batches feel each call.
        sources = [(name, source, source.shape[1:], source.dtype, source.row_bytes) for name, source in self._sources()]

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            counts: dict[str, int] = {}
            node = dict(batch.node)
            of_names = list[tuple[Exchange, int]]()
            for name, source, width, dtype, row_bytes in sources:
                exchange = exchange_of(batch, name)
                of_names.append((exchange, row_bytes))
                num_own = exchange.num_own
                own, asked = exchange.owned[:num_own], gather_rows(exchange.owned, exchange.send_rows)
                # Nodes that two trees have are wanted once, and their rows are copied in the end.
                copied = exchange.places is not None and exchange.places.shape != exchange.wanted.shape
                order = None if exchange.places is None or copied else _inverse(exchange.places)
                sizes = exchange.send_counts, exchange.receive_counts
                rows = empty_rows((exchange.wanted.shape[0], *width), dtype)
                sent = read_rows(source, asked, counts, num_threads=threads)
                # This rank's own rows are read while the others' are on their way.
                read_own = partial(place_rows, source, own, totals=counts, num_threads=threads)
                if order is None:
                    read_own = partial(read_own, rows[:num_own])
                    comm.all_to_all(sent, *sizes, out=rows[num_own:], meanwhile=read_own)
                else:
                    read_own = partial(read_own, rows, places=order[:num_own])
                    came = comm.all_to_all(sent, *sizes, meanwhile=read_own)
                    gather_rows(
                        came,
                        torch.arange(len(came), device="cpu"),
                        out=rows,
                        places=order[num_own:],
                        num_threads=threads,
                    )
                node[name] = gather_rows(rows, exchange.places) if copied and exchange.places is not None else rows
            counts |= {"rows": 0, "bytes": 0}  # those that are sent; each row that is owned counts once
            for exchange, row_bytes in of_names:
                add_counts(counts, _counts(exchange, row_bytes))
            return batch.replace(node=node), counts

        return run

    def _sources(self) -> list[tuple[FeatureName, FeatureSource]]:
        return list(zip(self.wanted.node, self.wanted.sources(), strict=True))


def _counts(exchange: Exchange, row_bytes: int) -> Counts:
    num_rows, num_sent = exchange.owned.shape[0], sum(exchange.send_counts)
    return {
        "rows": num_rows,
        "bytes": row_bytes * num_rows,
        "reread_rows": exchange.num_own + num_sent - num_rows,
        "rounds": 1,
        "collectives": 1,
        "sent_bytes": row_bytes * num_sent,
        "bytes_from_rank": row_bytes * sum(exchange.receive_counts),
    }


def _inverse(places: Tensor) -> Tensor:
    """Return which node of the batch each of ``exchange.wanted`` is."""
    numbers = torch.arange(len(places), device=places.device)
    return gather_rows(numbers, numbers, out=torch.empty_like(places), places=places)
