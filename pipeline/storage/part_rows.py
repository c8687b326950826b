"""By which nodes or edges rows of features are divided among parts, and of which a part holds copies."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import InputError
from headrace.pipeline.data.arrays import as_ids
from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.data.types import TypeOffsets
from headrace.pipeline.partition.kinds import TypePartition
from headrace.pipeline.partition.part_owners import PartEdges, PartOwners
from headrace.pipeline.partition.partition import Partition


def edges_of_part(partition: Partition) -> PartEdges | None:
    """Return the edges by which rows of edges, or of one type of them, are divided; None for rows of nodes."""
    whole = partition.whole if isinstance(partition, TypePartition) else partition
    return whole if isinstance(whole, PartEdges) else None


def check_knows(partition: Partition, part: int) -> None:
    """Refuse owners as another part of a graph knows them, which has the places of its own nodes alone.

    Raises
    ------
    InputError
        If so.
    """
    whole = partition.whole if isinstance(partition, TypePartition) else partition
    if isinstance(whole, PartOwners) and whole.part != part:
        raise InputError(
            f"ShardedFeature: expected owners that know the places of part {part}, got those of part {whole.part}, "
            f"which knows its own alone; take hr.open_dataset(parts, rank={part}).part.partition"
        )


def owners_of_rows(name: FeatureName, owners: Partition, types: TypeOffsets | None) -> Partition:
    """Return the owners of the rows of a feature of nodes, or of edges, that is cut as these are."""
    return owners if isinstance(name, str) or types is None else owners.of_type(types, name[0])


def nodes_to_copy(cached: ArrayLike | Tensor, partition: Partition) -> Tensor:
    """Return the nodes that are named, int64[n] ascending.

    Raises
    ------
    InputError
        If `cached` holds other than integers in [0, num_nodes), or for edges.
    """
    _refuse_edges(partition)
    ids: Tensor = torch.unique(as_ids(cached, "cached").to(torch.int64))
    if len(ids) and not 0 <= int(ids[0]) <= int(ids[-1]) < partition.num_nodes:
        raise InputError(
            f"expected cached to be nodes below {partition.num_nodes}, got ids from {int(ids[0])} to {int(ids[-1])}"
        )
    return ids


def check_cached(cached: Tensor, partition: Partition, part: int) -> None:
    """Refuse copies of rows that there are not, that come twice, or that this rank owns, and of those of edges."""
    _refuse_edges(partition)
    in_range = not len(cached) or (int(cached.min()) >= 0 and int(cached.max()) < partition.num_nodes)
    if not in_range or len(torch.unique(cached)) != len(cached):
        raise InputError(
            f"ShardedFeature: expected cached to be distinct nodes below {partition.num_nodes}, got repeats or others"
        )
    if bool((partition.owner(cached.to(torch.int64)) == part).any()):
        raise InputError(f"ShardedFeature: cached holds nodes that part {part} owns itself; leave them out")


def _refuse_edges(partition: Partition) -> None:
    """Refuse copies of rows of edges, of which ranks ask the owners of the destinations."""
    if edges_of_part(partition) is not None:
        raise InputError("ShardedFeature: expected cached of nodes alone, got it for edges; leave it out")
