"""Finding the edges of a layer where they are held, and telling the masters of their sources."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.ops import Hop, group_by_owner, unique_and_inverse
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.edge_shard import EdgeShard
from headrace.pipeline.distributed.exchange import Traffic, without_own
from headrace.pipeline.distributed.mirrors import Mirrors, to_masters, to_mirrors
from headrace.pipeline.partition.node_owners import compactor_of


class FoundEdges(NamedTuple):
    """The in-edges of a layer that this rank holds, and who is to exchange rows for them.

    Parameters
    ----------
    hop
        The edges by mirrored destination, in the order of `destinations`.
    indices: int[num_edges]
        Their sources among the mirrored ones.
    destinations, sources
        Mirrors of the layer's output and of its input.
    nodes: int64[num_src]
        The nodes of its input whose master this rank is, the destinations first.
    traffic
        What it took.
    """

    hop: Hop
    indices: Tensor
    destinations: Mirrors
    sources: Mirrors
    nodes: Tensor
    traffic: Traffic


def find_edges(shard: EdgeShard, destinations: Tensor, comm: Comm, num_threads: int = 1) -> FoundEdges:
    """Find all in-edges of a layer: two rounds.

    Masters tell the ranks that hold in-edges of the destinations, and these tell the masters of the sources.

    Parameters
    ----------
    shard
        What this rank holds.
    destinations: int64[num_dst]
        Those whose master this rank is.
    comm
        The channel.
    """
    mirrored, hop = _in_edges(shard, destinations, comm, num_threads)
    asked = _Asked.of(shard, hop, comm)
    # The nodes that the layer adds come behind its destinations, in the order in which ranks ask for them.
    compacted = compactor_of(shard.masters).compact(destinations, asked.ids)
    sources = Mirrors(compacted.indices, asked.num_own, asked.send_counts, asked.receive_counts)
    traffic = Traffic(rounds=2, collectives=4, sent_bytes=8 * (mirrored.num_sent + asked.num_sent))
    return FoundEdges(hop, asked.indices, mirrored, sources, compacted.ids, traffic)


def find_edges_within(shard: EdgeShard, nodes: Tensor, comm: Comm, num_threads: int = 1) -> FoundEdges:
    """Find the edges among the nodes of a batch, whichever rank holds them: four rounds.

    Beyond `find_edges`, the masters of sources answer whether these are in the batch, and ranks tell the masters of
    destinations of which an edge is left.

    Parameters
    ----------
    shard, comm
        As for `find_edges`.
    nodes: int64[n]
        The nodes of the batch whose master this rank is.
    """
    mirrored, hop = _in_edges(shard, nodes, comm, num_threads)
    asked = _Asked.of(shard, hop, comm)
    places = compactor_of(shard.masters).compact(nodes, asked.ids).indices
    asking = Mirrors(places, asked.num_own, asked.send_counts, asked.receive_counts)
    inside = places < len(nodes)
    known, sources = _keep(comm, asking, inside)
    kept = known[asked.indices.long()]
    number = known.cumsum(0) - 1
    indptr = starts_of(kept)[hop.indptr]
    left = indptr.diff() > 0
    (heard,) = to_masters(comm, (mirrored, left))
    found = Hop(torch.cat([indptr[:1], indptr[1:][left]]), hop.neighbors[kept], hop.positions[kept])
    indices = number[asked.indices.long()[kept]].to(asked.indices.dtype)
    # Ids as above, and a byte for each source that others asked for and each destination that others told of.
    sent = 8 * (mirrored.num_sent + asked.num_sent) + asking.num_sent + mirrored.num_received
    traffic = Traffic(rounds=4, collectives=6, sent_bytes=sent)
    return FoundEdges(found, indices, mirrored.kept(heard, left), sources, nodes, traffic)


def _keep(comm: Comm, asking: Mirrors, inside: Tensor) -> tuple[Tensor, Mirrors]:
    """Let masters say which of the nodes that were asked for are kept: at mirrors, and as mirrors of these."""
    (known,) = to_mirrors(comm, (asking, inside))
    return known, asking.kept(inside, known)


class _Asked(NamedTuple):
    """Sources, as the ranks that hold their edges ask the masters for them.

    Parameters
    ----------
    indices: int[num_edges]
        The sources of edges among those that this rank asks for.
    ids: int64[num_own + sum(send_counts)]
        What is asked of this rank: by itself, then by the others.
    num_own, send_counts, receive_counts
        As of `Mirrors`.
    """

    indices: Tensor
    ids: Tensor
    num_own: int
    send_counts: tuple[int, ...]
    receive_counts: tuple[int, ...]

    @property
    def num_sent(self) -> int:
        """Ids that this rank sends to other ones."""
        return sum(self.receive_counts)

    @staticmethod
    def of(shard: EdgeShard, hop: Hop, comm: Comm) -> _Asked:
        sources, source_of = unique_and_inverse(hop.neighbors.long())
        grouped = group_by_owner(sources, shard.masters.owner(sources), comm.world_size, first=comm.rank)
        counts, num_own = without_own(grouped.counts, comm.rank)
        asking = comm.all_to_all_counts(counts)
        came = comm.all_to_all(grouped.ids[num_own:], counts, asking)
        indices = grouped.places[source_of].to(hop.neighbors.dtype)
        ids = torch.cat([grouped.ids[:num_own], came])
        return _Asked(indices, ids, num_own, tuple(asking), tuple(counts))


def _in_edges(shard: EdgeShard, destinations: Tensor, comm: Comm, num_threads: int) -> tuple[Mirrors, Hop]:
    """Tell the ranks that hold in-edges of destinations, and return what this one holds of those that it is told."""
    holders = shard.who_holds(destinations)
    grouped = group_by_owner(holders.rows, holders.ranks, comm.world_size, first=comm.rank)
    counts, num_own = without_own(grouped.counts, comm.rank)
    telling = comm.all_to_all_counts(counts)
    told = destinations[grouped.ids]
    came = comm.all_to_all(told[num_own:], counts, telling)
    hop = shard.in_edges(torch.cat([told[:num_own], came]), num_threads)
    return Mirrors(grouped.ids, num_own, tuple(counts), tuple(telling)), hop
