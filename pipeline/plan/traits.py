"""What stages say of themselves: what they have in parts, know of nodes, read of the user's memory, and show."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from headrace.pipeline.data import GraphView, Seen, TypeOffsets, version_reader

if TYPE_CHECKING:
    from headrace.pipeline.distributed.graph_shard import GraphShard
    from headrace.pipeline.partition.partition import Partition


@dataclass(frozen=True)
class RankTraits:
    """What a stage does where several ranks run it.

    Attributes
    ----------
    collective
        Whether the stage communicates, so that every rank must run it for the same batches in the same order.
    cooperates
        Whether running the stage on each rank's own nodes yields, in union, the single-process result.
    shares_layers
        Whether each rank then has a share of one batch, with layers that exchange rows in the model.
    keeps_rows
        For a stage that rewrites ids: whether features fetched earlier still match the batch.
    same_parameters
        Whether the parameters of the stage must be the same on ranks that make batches together.
    reverses_edges
        Whether edges of the batch may then lead to the source of the edge whose id they have.
    """

    collective: bool = False
    cooperates: bool = True
    shares_layers: bool = False
    keeps_rows: bool = False
    same_parameters: bool = True
    reverses_edges: bool = False


@dataclass(frozen=True)
class Divided:
    """Data of a stage that are divided among ranks.

    Parameters
    ----------
    what
        The name of the data, for messages.
    partition
        The owner of each node.
    part
        The rank of this part; None if all ranks have the same data.
    """

    what: str
    partition: Partition
    part: int | None = None


@dataclass(frozen=True)
class KnownNodes:
    """The nodes to which ids in a stage refer.

    Parameters
    ----------
    what
        The name of the graph or data, for messages.
    num_nodes
        The number of nodes.
    types
        Their types; None if unknown.
    """

    what: str
    num_nodes: int
    types: TypeOffsets | None = None


class Watched(NamedTuple):
    """Memory that a stage reads and a training loop may write.

    Parameters
    ----------
    what
        The name of the memory, for messages.
    version
        Returns the number of writes; None if writes are not counted.
    """

    what: str
    version: Callable[[], int | None]


class Shown(NamedTuple):
    """A parameter of a stage as texts show it, unless it has its default.

    Parameters
    ----------
    name, value
        The parameter.
    default
        Its default; `dataclasses.MISSING` for none.
    named
        Whether the name is shown.
    """

    name: str
    value: Any
    default: Any = MISSING
    named: bool = False

    @staticmethod
    def of_fields(value: Any) -> list[Shown]:
        """Return the fields of a dataclass, and of values that are shown as its parameters; first those by position."""
        found: list[Shown] = []
        for one in fields(value):
            part = getattr(value, one.name)
            if getattr(part, "shown_as_parameters", False):
                found += Shown.of_fields(part)
            else:
                found.append(Shown(one.name, part, one.default, bool(one.kw_only)))
        return sorted(found, key=lambda one: one.named)


def watched_tables(seen: Iterable[Seen]) -> tuple[Watched, ...]:
    """Return arrays that tables were made of as memory that a training loop may write."""
    readers = [(one.what, version_reader(one.array)) for one in seen]
    return tuple(Watched(what, reader) for what, reader in readers if reader is not None)


def shard_of_graph(graph: object) -> GraphShard | None:
    """Return a graph if it is a shard, otherwise None. If the module of shards is not loaded, there are none."""
    if "headrace.pipeline.distributed.graph_shard" not in sys.modules:
        return None
    from headrace.pipeline.distributed.graph_shard import GraphShard

    return graph if isinstance(graph, GraphShard) else None


def graphs_of(stage: Any) -> tuple[GraphView, ...]:
    """Return the graphs that a stage reads: its own, or those of the stages that it runs."""
    graphs: tuple[GraphView, ...] | None = getattr(stage, "graphs", None)
    if graphs is not None:
        return graphs
    graph = getattr(stage, "graph", None)
    return (graph,) if isinstance(graph, GraphView) else ()


def divided_graph(graph: object) -> tuple[Divided, ...]:
    """Return the part of a graph that is a shard."""
    shard = shard_of_graph(graph)
    return () if shard is None else (Divided("the shard of the graph", shard.partition, shard.part),)


def same(left: Any, right: Any) -> bool:
    """Whether two parameter values are equal; arrays by content, everything else by ``==``."""
    if left is right:
        return True
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return type(left) is type(right) and bool(left == right)
