"""Edges by type, as users have them: ids that count from 0 within the type of each end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.names import close_name
from headrace.pipeline.data.arrays import as_cpu_tensor, as_ids, as_rows, describe, whole_number
from headrace.pipeline.data.graph_sources import EdgeList, Relation, attributes_of_nodes, join_relations
from headrace.pipeline.data.type_attributes import value_without

_STAGE = "Graph.from_coo"
_ADVICE = 'write from_coo({("user", "buys", "item"): (src, dst)}, num_nodes={"user": 10, "item": 20})'


def edges_by_type(
    edges: Mapping[Any, Any],
    num_nodes: Any,
    edge_attrs: Any,
    node_attrs: Any,
    beside: Mapping[str, Any],
) -> EdgeList:
    """Return the edges of all types in one id space; `hr.Graph.from_coo` documents the arguments.

    Parameters
    ----------
    edges
        Sources and destinations by (source type, relation, destination type).
    num_nodes
        Numbers of nodes by type, or None.
    edge_attrs, node_attrs
        By type, then by name.
    beside
        Arguments that edges by type leave no room for; they are None.

    Raises
    ------
    InputError
        If anything is of another form, ids are out of range, or attributes have other numbers of rows than their type.
    """
    for name, value in beside.items():
        if value is not None:
            raise InputError(f"{_STAGE}: expected edges by type without {name}, got both; leave {name} out")
    ends = {_edge_type(name): _ends(name, both) for name, both in edges.items()}
    of_edges = _by_type(edge_attrs, "edge_attrs", ends)
    known = dict.fromkeys(name for triple in ends for name in (triple[0], triple[2]))
    of_nodes = _by_type(node_attrs, "node_attrs", None)
    counts = _counts(num_nodes, known, ends, of_nodes)
    for name in of_nodes:
        if name not in counts:
            raise InputError(f"{_STAGE}: node_attrs: there is no node type {name!r}; the types are {list(counts)}")
    for triple, both in ends.items():
        for end, ids, node_type in zip(("source", "destination"), both, (triple[0], triple[2]), strict=True):
            _check_range(f"{end} ids of {triple}", ids, node_type, counts[node_type])
    relations = [
        Relation(name, *both, _rows(of_edges.get(name, {}), len(both[0]), name, "edge")) for name, both in ends.items()
    ]
    _check_complete({relation.name: relation.edge_attrs for relation in relations}, "edge")
    rows = {name: _rows(of_nodes.get(name, {}), count, name, "node") for name, count in counts.items()}
    _check_complete(rows, "node")
    names = list(dict.fromkeys(name for some in rows.values() for name in some))
    joined = join_relations(counts, relations, None, _STAGE)
    nodes = attributes_of_nodes(list(rows), list(rows.values()), list(counts.values()), names, _STAGE)
    return replace(joined, node_attrs=nodes)


def _edge_type(name: Any) -> tuple[str, str, str]:
    if not (isinstance(name, tuple) and len(name) == 3 and all(isinstance(part, str) for part in name)):
        raise InputError(
            f"{_STAGE}: expected edge types (source type, relation, destination type) as keys, got {name!r}; {_ADVICE}"
        )
    return name


def _ends(name: Any, both: Any) -> tuple[Tensor, Tensor]:
    is_array = isinstance(both, (Tensor, np.ndarray))
    if not (isinstance(both, tuple | list) or (is_array and both.ndim == 2)) or len(both) != 2:
        came = describe(both) if is_array or not isinstance(both, tuple | list) else f"{len(both)} entries"
        raise InputError(f"{_STAGE}: expected (src, dst) of edge type {name!r}, got {came}; {_ADVICE}")
    src, dst = (as_ids(ids, f"{end} of {name!r}") for end, ids in zip(("src", "dst"), both, strict=True))
    if len(src) != len(dst):
        raise InputError(
            f"{_STAGE}: expected src and dst of edge type {name!r} to have equal lengths, got {len(src)} and {len(dst)}"
        )
    return src, dst


def _by_type(attrs: Any, what: str, types: Mapping[Any, Any] | None) -> dict[Any, Mapping[str, Any]]:
    """Return attributes by type and name."""
    given = {} if attrs is None else attrs
    if not isinstance(given, Mapping) or not all(isinstance(some, Mapping) for some in given.values()):
        raise InputError(
            f"{_STAGE}: expected {what} of edges by type to be {{type: {{name: values}}}}, got "
            f"{type(given).__name__}{f' with the keys {list(given)[:5]}' if isinstance(given, Mapping) else ''}"
        )
    unknown = [name for name in given if types is not None and name not in types]
    if unknown:
        raise InputError(f"{_STAGE}: {what}: there is no edge type {unknown[0]!r}; the types are {list(types or ())}")
    return dict(given)


def _counts(
    num_nodes: Any,
    known: Mapping[str, None],
    ends: Mapping[tuple[str, str, str], tuple[Tensor, Tensor]],
    of_nodes: Mapping[Any, Mapping[str, Any]],
) -> dict[str, int]:
    """Return the number of nodes of each type: as given, or the rows of an attribute, or the largest id plus one."""
    given = {} if num_nodes is None else num_nodes
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InputError(
            f'{_STAGE}: expected num_nodes of edges by type to be {{"user": 10, "item": 20}}, got {num_nodes!r}'
        )
    # Types without edges are welcome, but for those that may be a typing error of one whose number is not given.
    left = [name for name in known if name not in given]
    for name in given:
        if name not in known and (meant := close_name(name, left)):
            raise InputError(
                f"{_STAGE}: expected num_nodes of the types of the edges, got {name!r}; did you mean {meant!r}? Give "
                "the numbers of all types where both exist"
            )
    counts = {
        name: whole_number(count, f"{_STAGE}: num_nodes[{name!r}]", 0, InputError) for name, count in given.items()
    }
    for name in (name for name in known if name not in counts):
        first = next(iter(of_nodes.get(name, {}).values()), None)
        rows = None if first is None else as_cpu_tensor(first, f"node_attrs[{name!r}]")
        ids = [ids for triple, both in ends.items() for ids, end in zip(both, triple[::2], strict=True) if end == name]
        largest = max((int(some.max()) for some in ids if some.numel()), default=-1)
        counts[name] = largest + 1 if rows is None else (list(rows.shape) or [0])[0]
    return counts


def _check_range(what: str, ids: Tensor, node_type: str, count: int) -> None:
    if not ids.numel():
        return
    low, high = (int(one) for one in torch.aminmax(ids))
    if low < 0 or high >= count:
        raise InputError(
            f"{_STAGE}: expected {what} to count within type {node_type!r}, in [0, {count}), got ids from {low} to "
            f"{high}; correct them, or num_nodes[{node_type!r}]"
        )


def _rows(attrs: Mapping[str, Any], count: int, name: Any, of: str) -> dict[str, Tensor]:
    return {one: as_rows(value, count, f"{of}_attrs[{name!r}][{one!r}]", each=of) for one, value in attrs.items()}


def _check_complete(of_types: Mapping[Any, Mapping[str, Tensor]], of: str) -> None:
    """Refuse an attribute that only some types have, unless its name gives the value of the others."""
    for name in dict.fromkeys(one for some in of_types.values() for one in some):
        lacking = [one for one, some in of_types.items() if name not in some]
        if lacking and value_without(name) is None:
            raise InputError(
                f"{_STAGE}: expected {of} attribute {name!r} on every {of} type, got none on {lacking}; add it there, "
                "or keep it in hr.FeatureStore, which takes features by type (times and weights alone may be missing)"
            )
