"""Names of features: of all nodes or edges, or of those of one type; and the ids that each is read for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.pipeline.data.by_type import ByType
from headrace.pipeline.data.relation_block import edges_by_type, places_of_type
from headrace.pipeline.data.types import TypedIds, TypeName, type_number

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch
    from headrace.pipeline.data.block import Block

T = TypeVar("T")

#: "x" is a feature of all nodes (or edges), ("paper", "x") one of those of a type.
FeatureName: TypeAlias = str | tuple[TypeName, str]

#: The name of what seeds are labelled with; of seeds of several types one for each type.
LabelNames: TypeAlias = FeatureName | Mapping[TypeName, str]


def is_name(name: object) -> bool:
    """Whether something can be the name of a feature."""
    if isinstance(name, str):
        return True
    if not isinstance(name, tuple) or len(name) != 2:
        return False
    of_type, own = name
    return isinstance(own, str) and (isinstance(of_type, str) or _is_triple(of_type))


def own_type(name: FeatureName) -> TypeName | None:
    """Return the type whose nodes or edges a feature is of; None for one of all."""
    return None if isinstance(name, str) else name[0]


def _is_triple(name: Any) -> bool:
    return isinstance(name, tuple) and len(name) == 3 and all(isinstance(part, str) for part in name)


def node_ids_of(batch: MiniBatch, name: FeatureName) -> Tensor:
    """Return which rows of a node feature a batch needs: `n_id`, or the nodes of the type by their own numbers."""
    return batch.n_id if isinstance(name, str) else types_of(batch, name).within(name[0])


def edge_ids_of(batch: MiniBatch, name: FeatureName) -> tuple[Tensor, ...]:
    """Return which rows of an edge feature each block needs: its edges, or those of the type by their own numbers.

    A block that several layers share needs them once; `of_layers` leads from blocks to layers.
    """
    if isinstance(name, str):
        return tuple(block.edge_ids for block in edge_blocks(batch) if block.edge_ids is not None)
    types = types_of(batch, name)
    number = type_number(types.edge_types, name[0])
    first = int(types.edge_types.offsets[number])
    return tuple(
        block.edge_ids[places_of_type(block, number, types)] - first
        for block in edge_blocks(batch)
        if block.edge_ids is not None
    )


def read_types(batch: MiniBatch, *, nodes: bool, edges: bool, seeds: bool) -> ByType | None:
    """Let a GPU tell of which types nodes, edges or seeds of a batch are: of all at once, so that the host waits once.

    Returns the places of seeds, in the order of memory, by type, if those were asked for and are on a GPU.
    """
    types = batch.types
    if types is None or device_of(batch.n_id) is None:
        return None
    of_seeds = ByType(types.node_types.numbers_of(batch.seeds.flatten()), types.node_types.num_types) if seeds else None
    of_edges = [edges_by_type(block, types) for block in edge_blocks(batch)] if edges else []
    ByType.read([*([types.by_type] if nodes else []), *of_edges, *([] if of_seeds is None else [of_seeds])])
    return of_seeds


def of_layers(batch: MiniBatch, of_blocks: Iterable[T]) -> tuple[T, ...]:
    """Return for each layer what its block has, from what blocks have in the order of `edge_ids_of`."""
    known = dict(zip(edge_blocks(batch), of_blocks, strict=True))
    return tuple(known[block] for block in batch.blocks if block in known)


def edge_blocks(batch: MiniBatch) -> list[Block]:
    """Return the blocks that have edge ids, each once."""
    return [block for block in dict.fromkeys(batch.blocks) if block.edge_ids is not None]


def label_names(labels: LabelNames | None) -> tuple[FeatureName, ...]:
    """Return the features that labels are, in the order in which they are read."""
    if isinstance(labels, Mapping):
        return tuple(labels.items())
    return () if labels is None else (labels,)


def label_ids_of(batch: MiniBatch, labels: LabelNames | None, by_type: ByType | None = None) -> tuple[Tensor, ...]:
    """Return which rows of each label the seeds of a batch need: in the shape of the seeds, or for those of its type.

    Of which types seeds are tells `by_type`, of `read_types`; without it the host may wait for that.

    Raises
    ------
    InputError
        If a seed is of another type.
    """
    if not isinstance(labels, Mapping):
        return tuple(_ids_of_all(batch, name, by_type) for name in label_names(labels))
    found, num_found = [], 0
    for name in label_names(labels):
        if by_type is None:
            ids, is_of_type = _within_type(batch, name)
            found.append(ids[is_of_type])
        else:
            ids, number = batch.seeds.flatten(), type_number(types_of(batch, name).node_types, name[0])
            found.append(ids[by_type.places(number)] - types_of(batch, name).node_types.id_range(name[0]).start)
        num_found += len(found[-1])
    if num_found < batch.seeds.numel():
        raise seeds_of_others(labels)
    return tuple(found)


def as_labels(labels: LabelNames | None, rows: Sequence[Tensor]) -> Tensor | dict[TypeName, Tensor]:
    """Return the rows of labels as a batch has them: by type where seeds have several."""
    return dict(zip(labels, rows, strict=True)) if isinstance(labels, Mapping) else rows[0]


def _ids_of_all(batch: MiniBatch, name: FeatureName, by_type: ByType | None) -> Tensor:
    if isinstance(name, str):
        return batch.seeds
    ids, is_of_type = _within_type(batch, name)
    if by_type is None:
        are_all = bool(is_of_type.all())
    else:
        are_all = by_type.count(type_number(types_of(batch, name).node_types, name[0])) == ids.numel()
    if not are_all:
        raise seeds_of_others(name)
    return ids


def _within_type(batch: MiniBatch, name: FeatureName) -> tuple[Tensor, Tensor]:
    """Return the seeds by their numbers in a type, and which of them are of it."""
    nodes = types_of(batch, name).node_types.id_range(name[0])
    ids = batch.seeds - nodes.start
    return ids, (ids >= 0) & (ids < len(nodes))


def seeds_of_others(labels: LabelNames) -> InputError:
    """Return the error for labels of some types, and seeds of another."""
    names = label_names(labels)
    types, own = (" or ".join(repr(name[part]) for name in names) for part in (0, 1))
    return InputError(
        f"fetch_feature: expected seeds of type {types}, of which {own} is a label, got others; name one for each, "
        'labels={"paper": "y", "author": "z"}, or one that all nodes have, or pass them with the items'
    )


def types_of(batch: MiniBatch, name: FeatureName) -> TypedIds:
    """Return the nodes of a batch with their types.

    Raises
    ------
    InputError
        If the batch has none.
    """
    if batch.types is None:
        raise InputError(
            f"fetch_feature: expected a batch of a graph with types for the feature {name!r}, got one without; put the "
            "sampler before, and give the graph node_types="
        )
    return batch.types


def listed(name: FeatureName) -> str:
    """Return a name as it is written in a store: ``node["paper", "x"]``."""
    return repr(name) if isinstance(name, str) else ", ".join(map(repr, name))
