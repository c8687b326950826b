"""Names of features: of all nodes or edges, or of those of one type; and the ids that each is read for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from torch import Tensor

from headrace.ops.errors import FeatureError
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
    ids = [block.edge_ids[block.edge_types == number] for block in edge_blocks(batch) if block.edge_ids is not None]
    return tuple(of_block - first for of_block in ids)


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


def label_ids_of(batch: MiniBatch, labels: LabelNames | None) -> tuple[Tensor, ...]:
    """Return which rows of each label the seeds of a batch need: in the shape of the seeds, or for those of its type.

    Raises
    ------
    FeatureError
        If a seed is of another type.
    """
    if not isinstance(labels, Mapping):
        return tuple(_ids_of_all(batch, name) for name in label_names(labels))
    found, num_found = [], 0
    for name in label_names(labels):
        ids, is_of_type = _within_type(batch, name)
        found.append(ids[is_of_type])
        num_found += len(found[-1])
    if num_found < batch.seeds.numel():
        raise seeds_of_others(labels)
    return tuple(found)


def as_labels(labels: LabelNames | None, rows: Sequence[Tensor]) -> Tensor | dict[TypeName, Tensor]:
    """Return the rows of labels as a batch has them: by type where seeds have several."""
    return dict(zip(labels, rows, strict=True)) if isinstance(labels, Mapping) else rows[0]


def _ids_of_all(batch: MiniBatch, name: FeatureName) -> Tensor:
    if isinstance(name, str):
        return batch.seeds
    ids, is_of_type = _within_type(batch, name)
    if not bool(is_of_type.all()):
        raise seeds_of_others(name)
    return ids


def _within_type(batch: MiniBatch, name: FeatureName) -> tuple[Tensor, Tensor]:
    """Return the seeds by their numbers in a type, and which of them are of it."""
    nodes = types_of(batch, name).node_types.id_range(name[0])
    ids = batch.seeds - nodes.start
    return ids, (ids >= 0) & (ids < len(nodes))


def seeds_of_others(labels: LabelNames) -> FeatureError:
    """Return the error for labels of some types, and seeds of another."""
    names = label_names(labels)
    types, own = (" or ".join(repr(name[part]) for name in names) for part in (0, 1))
    return FeatureError(
        f"fetch_feature: expected seeds of type {types}, of which {own} is a label, got others; name one for each, "
        'labels={"paper": "y", "author": "z"}, or one that all nodes have, or pass them with the items'
    )


def types_of(batch: MiniBatch, name: FeatureName) -> TypedIds:
    """Return the nodes of a batch with their types.

    Raises
    ------
    FeatureError
        If the batch has none.
    """
    if batch.types is None:
        raise FeatureError(
            f"fetch_feature: expected a batch of a graph with types for the feature {name!r}, got one without; put the "
            "sampler before, and give the graph node_types="
        )
    return batch.types


def listed(name: FeatureName) -> str:
    """Return a name as it is written in a store: ``node["paper", "x"]``."""
    return repr(name) if isinstance(name, str) else ", ".join(map(repr, name))
