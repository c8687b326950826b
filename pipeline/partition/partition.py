"""Partitions: which of several ranks owns each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import InputError, group_by_owner
from headrace.ops.partition.louvain import louvain_owners
from headrace.ops.partition.metis import metis_owners
from headrace.ops.partition.stream import stream_owners
from headrace.pipeline.data.arrays import as_node_mask, whole_number
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.node_ids import check_known_by_own_ids
from headrace.pipeline.data.types import TypeName, TypeOffsets
from headrace.pipeline.partition.limits import MOST_PARTS, MOST_SEED
from headrace.pipeline.partition.node_owners import NodeOwners
from headrace.pipeline.partition.report import PartitionReport, report_nodes


class Partition(NodeOwners):
    """Assign every node of a graph to one of `num_parts` owners.

    ==================  ===========================================================================================
    :meth:`range`       contiguous ranges of ids, for graphs that were reordered; :meth:`range_of` given sizes
    :meth:`hash`        even loads on any graph, without a table; nearly all edges are cut
    :meth:`stream`      one look at each row: for graphs of any size
    :meth:`metis`       the fewest edges cut, and equal shares of labelled nodes; needs some copies of the graph
    :meth:`louvain`     communities, packed; needs some copies of the graph as well
    :meth:`of`          a table of your own
    ==================  ===========================================================================================

    :meth:`of_type` returns the owners of one node type, :meth:`report` the costs of a partition. :meth:`order` and
    :meth:`ranges` turn any partition into ranges of a reordered graph.

    >>> import torch
    >>> import headrace as hr
    >>> partition = hr.Partition.range(10, 4)
    >>> partition.owner(torch.arange(10)).tolist()
    [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]

    Parameters
    ----------
    num_nodes
        Nodes of the graph.
    num_parts
        The number of owners, which is that of ranks.

    Raises
    ------
    InputError
        For numbers that are not integers, are negative, or for no part.
    """

    @staticmethod
    def range(num_nodes: int, num_parts: int) -> Partition:
        """Cut the ids into contiguous ranges whose sizes differ by one at most.

        Use it after a reordering that puts related nodes next to each other.
        """
        from headrace.pipeline.partition.kinds import RangePartition

        nodes = whole_number(num_nodes, "Partition.range: num_nodes", 0, InputError)
        parts = whole_number(num_parts, "Partition.range: num_parts", 1, InputError, MOST_PARTS)
        return RangePartition([nodes * (part + 1) // parts - nodes * part // parts for part in range(parts)])

    @staticmethod
    def range_of(sizes: Sequence[int]) -> Partition:
        """Cut the ids into contiguous ranges of given sizes.

        Parameters
        ----------
        sizes
            The number of nodes of each part; empty parts are fine.

        Raises
        ------
        InputError
            If there is no part, or a size is not an integer of at least 0.
        """
        from headrace.pipeline.partition.kinds import RangePartition

        return RangePartition(sizes)

    @staticmethod
    def hash(num_nodes: int, num_parts: int) -> Partition:
        """Scatter the nodes over the parts by a hash of their ids: even loads on any graph, and no table."""
        from headrace.pipeline.partition.kinds import HashPartition

        return HashPartition(num_nodes, num_parts)

    @staticmethod
    def of(owners: Any, num_parts: int | None = None) -> Partition:
        """Use a table of owners, such as one that METIS returned.

        Parameters
        ----------
        owners: integer[num_nodes]
            The part of each node. It is copied; later writes change no partition.
        num_parts
            Number of parts; by default one more than the largest owner.

        Raises
        ------
        InputError
            If the owners are not one-dimensional integers in [0, num_parts).
        """
        from headrace.pipeline.partition.kinds import TablePartition

        return TablePartition(owners, num_parts)

    @staticmethod
    def metis(
        graph: Graph,
        num_parts: int,
        *,
        balance: ArrayLike | Tensor | None = None,
        balance_edges: bool = False,
        seed: int = 0,
    ) -> Partition:
        """Cut few edges, by METIS (Karypis and Kumar, 1998). Directions and parallel edges count, loops do not.

        Parts have up to 1.03 times the mean number of nodes, more where parts are small; beyond 8 parts some may be
        empty. Nodes without edges go to the smallest parts. Needs pymetis, of the extra ``partition``, and about 110
        bytes of memory per edge.

        Parameters
        ----------
        balance: bool[num_nodes] or integer[n], optional
            Nodes, by mask or ids, such as the training nodes, of which every part should have an equal share, too. The
            constraints are METIS's own (multi-constraint partitioning, Karypis and Kumar, SC 1998), and each holds to
            about 1.03 times the mean.
        balance_edges
            Whether every part should have an equal share of the edges as well, each with the part of its destination:
            for ranks, whose memory and work they are. It cuts more edges.
        seed
            The same seed gives the same parts, on one machine and one version of METIS.

        Raises
        ------
        ModuleNotFoundError
            If pymetis is not installed.
        InputError
            If `balance` names no nodes of the graph, or a number is out of range.
        """
        check_known_by_own_ids(graph, "Partition.metis")
        check_switches("Partition.metis", balance_edges=balance_edges)
        parts, seed = _settings(num_parts, seed, "Partition.metis")
        mask = None
        if balance is not None:
            mask = as_node_mask(balance, graph.num_nodes, "balance").numpy()
        owners = metis_owners(graph.indptr, graph.indices, parts, labelled=mask, balance_edges=balance_edges, seed=seed)
        return _of(owners, parts)

    @staticmethod
    def louvain(graph: Graph, num_parts: int | None = None, *, seed: int = 0) -> Partition:
        """Keep communities together: those that the Louvain method (arXiv 0803.0476) finds, packed into equal parts.

        Without `num_parts` each community is a part of its own size, as `ClusterSampler` takes them. Else
        communities are placed from the largest on, each in the smallest part. A community that does not fit is split,
        so that no part has more than 1.03 times the mean number of nodes (rounded up). Use it if there are more
        communities than parts. Needs igraph, of the extra ``louvain``, and several copies of the graph; it takes ten
        times as long as METIS.

        Parameters
        ----------
        num_parts
            Parts of equal sizes, one for each rank. None leaves communities as they are found.
        seed
            The same seed gives the same parts, on one version of igraph.

        Raises
        ------
        ModuleNotFoundError
            If igraph is not installed.
        InputError
            If a number is out of range.
        """
        check_known_by_own_ids(graph, "Partition.louvain")
        parts, seed = _settings(1 if num_parts is None else num_parts, seed, "Partition.louvain")
        packed = None if num_parts is None else parts
        return _of(louvain_owners(graph.indptr, graph.indices, packed, seed=seed), packed)

    @staticmethod
    def stream(
        graph: Graph,
        num_parts: int,
        *,
        slack: float = 0.05,
        passes: int = 1,
        shuffle: bool = False,
        seed: int = 0,
    ) -> Partition:
        """Put each node in the part with most of its in-neighbours: linear deterministic greedy.

        For graphs of any size (Stanton and Kliot, KDD 2012). It only takes memory for the table of owners, 4 bytes per
        node, and a pass takes one to four seconds per 100 million edges. It reads only in-neighbours, so the first pass
        uses the whole neighbourhood only if edges exist in both directions. More passes cut fewer edges: three are a
        good choice. `headrace.ops.partition.stream` has the rule.

        Parameters
        ----------
        slack
            No part has more than (1 + slack) times the mean number of nodes, or the mean rounded up.
        passes
            The number of times that all nodes are placed; from the second pass on, the parts of all in-neighbours are
            known.
        shuffle
            Visit nodes in a random order given by `seed`, not by id. It is slower; use it if the order of ids is bad
            for this method.

        Raises
        ------
        InputError
            If a number is out of range.
        """
        check_known_by_own_ids(graph, "Partition.stream")
        check_switches("Partition.stream", shuffle=shuffle)
        parts, seed = _settings(num_parts, seed, "Partition.stream")
        rounds = whole_number(passes, "Partition.stream: passes", 1, InputError, 1 << 20)
        owners = stream_owners(
            graph.indptr, graph.indices, parts, slack=slack, passes=rounds, shuffle=shuffle, seed=seed
        )
        return _of(owners, parts)

    def of_type(self, types: TypeOffsets, name: TypeName) -> Partition:
        """Return the partition of the nodes of one type, by their ids within it, for features of the type in shards.

        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([0, 1], [2, 3], node_types={"author": 2, "paper": 2})
        >>> papers = hr.Partition.range_of([3, 1]).of_type(graph.node_types, "paper")
        >>> papers.owned(0).tolist(), papers.owned(1).tolist()
        ([0], [1])

        Parameters
        ----------
        types
            The types of all nodes: ``graph.node_types``.
        name
            The type.

        Raises
        ------
        InputError
            If the types have another number of nodes.
            If there is no such type.
        """
        from headrace.pipeline.partition.kinds import TypePartition

        if not isinstance(types, TypeOffsets) or types.num_ids != self.num_nodes:
            raise InputError(
                f"Partition.of_type: expected the types of the partition's {self.num_nodes} nodes, got {types!r}; pass "
                "graph.node_types of the graph that was partitioned"
            )
        return TypePartition(self, types.id_range(name))

    def order(self) -> Tensor:
        """Return the nodes sorted by part, ascending in each part: int64[num_nodes], for `Graph.reordered`."""
        if self.num_parts > MOST_PARTS:  # whose counters take more than sorting does
            return self._owners.argsort(stable=True)
        return group_by_owner(torch.arange(self.num_nodes, device="cpu"), self._owners, self.num_parts).ids

    def ranges(self) -> Partition:
        """Return the partition of nodes that were reordered by `order`: ranges, P + 1 numbers in place of a table."""
        from headrace.pipeline.partition.kinds import RangePartition

        return RangePartition(self.sizes)

    def report(self, graph: Graph, labelled: ArrayLike | Tensor | None = None) -> PartitionReport:
        """Return the costs of the partition on a graph: edges cut, balance, copies of nodes.

        Parameters
        ----------
        graph
            A graph of `num_nodes` nodes.
        labelled: bool[num_nodes] or integer[n], optional
            Nodes, by mask or ids, such as the training nodes, whose balance is reported, too.

        Raises
        ------
        InputError
            If the graph has another number of nodes.
            If `labelled` names no nodes of the graph.
        """
        return report_nodes(graph, self._owners, self.num_parts, labelled)


def _settings(num_parts: int, seed: int, what: str) -> tuple[int, int]:
    parts = whole_number(num_parts, f"{what}: num_parts", 1, InputError, MOST_PARTS)
    return parts, whole_number(seed, f"{what}: seed", 0, InputError, MOST_SEED)


def _of(owners: Tensor, num_parts: int | None) -> Partition:
    """Take a table that nobody else holds: a copy would double the memory."""
    from headrace.pipeline.partition.kinds import TablePartition

    return TablePartition(owners, num_parts, copy=False)
