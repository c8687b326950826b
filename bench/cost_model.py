"""A cost model of loading a batch: counted work over rates. Nothing in it is fitted.

With b bytes a row, rates in bytes a second and links counted one way:

    sampling = edges / edge_rate                                                   (1)
             + 8 asked inside / peer + 8 asked outside / network                   (2)
             + collectives of ids * latency                                        (3)
    copying  = missed b / host                                                     (4)
             + (rows - missed) b / gather                                          (5)
             + remote inside b / peer + remote outside b / network                 (6)
             + 2 wanted b / gather                                                 (7)
             + collectives of rows * latency                                       (8)

(2), (3) and (6) to (8) are those of cooperative ranks alone. (5) is what the cache has; (7) packs and unpacks. Of the
P - 1 other ranks, those of the same machine are "inside". Nothing overlaps, loads are even, and a link gives all that
it promises: a lower bound of the time, except where sampling would run on a faster processor than the one that
`edge_rate` was measured on.

Independent ranks of several machines read the rows that they miss from their own host, if it holds all features, and
otherwise find only the share of one machine there. The rest, "away", is read by others of their hosts, comes over the
network and is unpacked, while they read as much for others:

             + away b / network + away b / gather                                  (9)
"""

from __future__ import annotations

from dataclasses import dataclass

from counted_work import Work
from published_cooperative import Hardware

ID_BYTES = 8


@dataclass(frozen=True)
class Rates:
    """What a rank has. Bytes a second one way; edges a second; seconds.

    Parameters
    ----------
    edges
        Sampled edges a second.
    host, gather
        Rows read from the memory of its host, and rows gathered within its own memory, each byte counted once.
    peer, network
        To ranks of the same machine, and of others.
    ranks_a_machine
        Ranks that share a machine.
    latency
        Of a collective.
    """

    edges: float
    host: float
    gather: float
    peer: float
    network: float
    ranks_a_machine: int
    latency: float


@dataclass(frozen=True)
class Cost:
    """Seconds of a batch."""

    sampling: float
    copying: float

    @property
    def total(self) -> float:
        return self.sampling + self.copying


def rates_of(hardware: Hardware, edges: float, network: float, latency: float, ranks_a_machine: int) -> Rates:
    """Return the rates of published hardware, whose links are given for both directions together."""
    # A gather within memory reads a byte and writes it.
    host, gather, peer = hardware.host / 2, hardware.memory / 2, hardware.peer / 2
    return Rates(edges, host, gather, peer, network, ranks_a_machine, latency)


def cost(work: Work, rates: Rates, world_size: int, row_bytes: float, *, features_on_each_machine: bool) -> Cost:
    """Return the time of a batch; see the formulas above."""
    machines = -(-world_size // rates.ranks_a_machine)
    outside = 0.0 if machines == 1 else 1 - (rates.ranks_a_machine - 1) / (world_size - 1)

    def exchange(count: float, size: float) -> float:
        return count * size * ((1 - outside) / rates.peer + outside / rates.network)

    sampling = work.edges / rates.edges
    copying = (work.rows - work.missed) * row_bytes / rates.gather
    if work.collectives:
        sampling += exchange(work.asked, ID_BYTES) + (work.collectives - 1) * rates.latency
        copying += exchange(work.remote, row_bytes) + 2 * work.wanted * row_bytes / rates.gather + rates.latency
    copying += work.missed * row_bytes / rates.host
    if not work.collectives and not features_on_each_machine:
        away = work.missed * (1 - 1 / machines)
        copying += away * row_bytes * (1 / rates.network + 1 / rates.gather)
    return Cost(sampling, copying)
