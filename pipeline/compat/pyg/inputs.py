"""What seeds and links may be: said by name before PyG's constructors, which assert it bare or read on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import remote_backend_utils
from torch_geometric.sampler.base import DataType

from headrace.ops.errors import InputError
from headrace.pipeline.compat.pyg.graph import edge_attributes, kind_of, node_types_of_stores
from headrace.pipeline.data.arrays import is_mask_of_integers, zeros_and_ones


def check_nodes(data: Any, input_nodes: Any, input_time: Any = None, input_id: Any = None) -> None:
    """Refuse seeds that the data do not have, before anything is read of them.

    Parameters
    ----------
    data
        A ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore).
    input_nodes
        Ids or a mask; where there are types a type, or a type with them.
    input_time: [num_seeds], optional
        Times of the seeds.
    input_id: [num_seeds], optional
        What the seeds are called.

    Raises
    ------
    InputError
        For a type that is none, ids of more than one dimension, a mask of another size, other lengths.
    """
    node_type, ids = _type_and_ids(data, input_nodes)
    is_mask = isinstance(ids, Tensor) and ids.dtype == torch.bool
    size = None
    if ids is None or is_mask:
        size = _num_nodes(data, node_type)
    if is_mask and size is not None:
        check_mask(ids, size, "NeighborLoader")
    if ids is not None and not is_mask:
        ids = _whole_numbers(ids)
        if ids.ndim != 1:
            raise InputError(
                f"NeighborLoader: expected ids of one dimension, got shape {list(ids.shape)}; flatten them"
            )
        _refuse_mask_of_integers(ids, _num_nodes(data, node_type))
    count = size if ids is None else int(ids.count_nonzero()) if is_mask else len(ids)
    for name, one, values in (("input_time", "a time", input_time), ("input_id", "an id", input_id)):
        _check_length("NeighborLoader", name, one, values, count, "seeds")


def _refuse_mask_of_integers(ids: Any, num_nodes: int | None) -> None:
    """Refuse zeros and ones for all nodes: a mask that would be read as the ids 0 and 1."""
    if num_nodes is not None and is_mask_of_integers(torch.as_tensor(ids, device="cpu"), num_nodes):
        raise InputError(f"NeighborLoader: expected ids or a boolean mask, got {zeros_and_ones(num_nodes)}")


def check_mask(mask: Tensor, num_nodes: int, loader: str) -> None:
    """Refuse a mask of another size than the nodes.

    Raises
    ------
    InputError
        Naming the loader.
    """
    if mask.shape != (num_nodes,):
        raise InputError(
            f"{loader}: expected a mask with an entry for each of {num_nodes} nodes, got one of shape "
            f"{list(mask.shape)}; pass ids where not all nodes have an entry"
        )


def check_links(data: Any, edge_label_index: Any, *, label: Any = None, time: Any = None, input_id: Any = None) -> None:
    """Refuse links that the data do not have, before anything is read of them.

    Parameters
    ----------
    data
        A ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore).
    edge_label_index
        The links, int[2, num_links], or None for all edges; where there are types an edge type, or one with them. Links
        need not be of an edge type that has edges, but their ends are of types that have nodes.
    label, time, input_id: [num_links, ...], optional
        Labels of the links, their times, and what they are called.

    Raises
    ------
    InputError
        For a type that is none, links of another shape, other lengths.
    """
    links = _links_of(data, edge_label_index)
    count = None
    if links is not None:
        if not isinstance(links, Tensor):
            raise InputError(
                f"LinkNeighborLoader: expected edge_label_index to be a tensor int[2, num_links], got "
                f"{type(links).__name__}; convert it by torch.as_tensor"
            )
        if links.ndim != 2 or links.shape[0] != 2 or links.dtype == torch.bool:
            raise InputError(
                f"LinkNeighborLoader: expected edge_label_index, int[2, num_links], got {links.dtype} of shape "
                f"{list(links.shape)}; sources are the first row and destinations the second"
            )
        count = links.shape[1]
    for name, one, values in (
        ("edge_label", "a label", label),
        ("edge_label_time", "a time", time),
        ("input_id", "an id", input_id),
    ):
        _check_length("LinkNeighborLoader", name, one, values, count, "links")


def _type_and_ids(data: Any, input_nodes: Any) -> tuple[str | None, Any]:
    """Return the type of seeds, None where there are none, and their ids or mask, None for all."""
    types = _node_types(data)
    if types is None:
        all_are_known = kind_of(data) == DataType.homogeneous
        if input_nodes is None and not all_are_known:
            raise InputError("NeighborLoader: expected input_nodes beside a (FeatureStore, GraphStore), got None")
        return None, input_nodes
    node_type, ids = input_nodes, None
    if isinstance(input_nodes, list | tuple) and len(input_nodes) == 2:
        node_type, ids = input_nodes
    if not isinstance(node_type, str):
        raise InputError(
            f"NeighborLoader: expected input_nodes to be a node type, or (node type, ids or mask), got "
            f"{_shown(input_nodes)}; there are {types}"
        )
    if node_type not in types:
        raise InputError(
            f"NeighborLoader: expected seeds of a node type of the data, got {node_type!r}; there are {types}"
        )
    return node_type, ids


def _links_of(data: Any, given: Any) -> Any:
    """Return the links that were given, or all edges where their number is known without a conversion."""
    kind, node_types = kind_of(data), _node_types(data)
    if kind == DataType.homogeneous:
        links = data.edge_index if given is None else given
        if links is None:
            raise InputError("LinkNeighborLoader: expected edge_label_index or data.edge_index, got neither")
        return links
    edge_types = data.edge_types if kind == DataType.heterogeneous else list(edge_attributes(data[1]))
    edge_type, links = given, None
    if isinstance(given, list | tuple) and len(given) == 2 and not isinstance(given[0], str):
        edge_type, links = given
    if node_types is None:
        if edge_type is not None or given is None:
            raise InputError(
                f"LinkNeighborLoader: expected (None, links) of a GraphStore without types, got {_shown(given)}"
            )
        return links
    if not (isinstance(edge_type, list | tuple) and edge_type and all(isinstance(part, str) for part in edge_type)):
        raise InputError(
            f"LinkNeighborLoader: expected edge_label_index to be an edge type, or (edge type, links), got "
            f"{_shown(given)}; there are {edge_types}"
        )
    name = tuple(edge_type)
    if kind == DataType.heterogeneous:
        name = data._to_canonical(*name)  # noqa: SLF001 - PyG's reading of short names
    if links is None and name not in edge_types:
        raise InputError(f"LinkNeighborLoader: expected an edge type of the data, got {name}; there are {edge_types}")
    if not {name[0], name[-1]} <= set(node_types):
        raise InputError(
            f"LinkNeighborLoader: expected links between node types of the data, got {name}; there are {node_types}"
        )
    if links is None and kind == DataType.heterogeneous:
        if "edge_index" not in data[name]:
            raise InputError(
                f"LinkNeighborLoader: expected links beside the edge type {name}, whose edges are in a matrix, got "
                "none; pass (edge type, links), such as torch_geometric.utils.to_edge_index(adj_t)[0].flip(0)"
            )
        return data[name].edge_index
    return links


def _node_types(data: Any) -> list[str] | None:
    """Return the types of the nodes; None where there are none."""
    kind = kind_of(data)
    if kind == DataType.homogeneous:
        return None
    if kind == DataType.heterogeneous:
        return list(data.node_types)
    return None if None in edge_attributes(data[1]) else node_types_of_stores(*data)


def _num_nodes(data: Any, node_type: str | None) -> int | None:
    """Return how many nodes there are of a type; None where nothing says it."""
    kind = kind_of(data)
    if kind == DataType.homogeneous:
        return int(data.num_nodes or 0)
    if kind == DataType.heterogeneous:
        size = data[node_type].num_nodes
        return None if size is None else int(size)
    if node_type is not None:
        return int(remote_backend_utils.num_nodes(*data, node_type))
    size = edge_attributes(data[1])[None].size
    return None if size is None else int(max(size))


def _whole_numbers(ids: Any) -> Any:
    """Return ids as a tensor or an array, not copied where they are one already."""
    if isinstance(ids, Tensor):
        return ids
    try:
        array = np.asarray(ids)
    except ValueError:  # of rows of several lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind == "b":
        raise InputError("NeighborLoader: expected a mask to be a tensor, got booleans; convert it by torch.as_tensor")
    if array.dtype.kind not in "iu" and (array.size or array.dtype.kind == "O"):
        raise InputError(f"NeighborLoader: expected integer ids or a mask of nodes, got {_shown(ids)}")
    return array


def _check_length(loader: str, name: str, one: str, values: Any, count: int | None, what: str) -> None:
    """Refuse what does not have a row for each of the items; of a number that is not known it is left open."""
    if values is None:
        return
    if not isinstance(values, Tensor):
        came = type(values).__name__
        raise InputError(f"{loader}: expected {name} to be a tensor, got {came}; write {name}=torch.as_tensor({name})")
    if values.ndim == 0 or count not in (None, len(values)):
        raise InputError(
            f"{loader}: expected {name} with {one} for each of {count} {what}, got shape {list(values.shape)}"
        )


def _shown(value: Any) -> str:
    """Return a value for a message, long ones by their kind alone."""
    if isinstance(value, list | tuple) and len(value) <= 3:
        return "(" + ", ".join(map(_shown, value)) + ")"
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
