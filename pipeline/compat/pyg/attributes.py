"""Attributes and methods that loaders refuse when they are made: those without rows, and those that nothing calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.data.storage import EdgeStorage, NodeStorage
from torch_geometric.typing import TensorFrame
from torch_geometric.utils import is_sparse

from headrace.ops.errors import InputError
from headrace.pipeline.compat.pyg.adjacency import MATRICES
from headrace.pipeline.compat.pyg.slicing import dim_of
from headrace.pipeline.data.arrays import describe


def check_attributes(data: Any, loader: str) -> None:
    """Refuse attributes of nodes or edges of which no rows can be taken.

    Without that they fail at the first batch, or are in every batch as a whole, as PyG has what it does not know. What
    has a row neither for each node nor for each edge is of the whole graph, and every batch has it.

    Parameters
    ----------
    data
        A ``Data`` or a ``HeteroData``; a (FeatureStore, GraphStore) takes rows itself.
    loader
        Who asks.

    Raises
    ------
    InputError
        For the first such attribute; it says what to write instead.
    """
    if isinstance(data, tuple):
        return
    for label, store in _stores_of(data):
        sizes = _sizes(store)
        for name, value in store.items():
            fault = None if name in MATRICES and is_sparse(value) else _fault(store, name, value, sizes)
            if fault is not None:
                came, instead = fault
                one = f"{label}.{name}"
                raise InputError(
                    f"{loader}: expected {one} to be a tensor, a NumPy array of numbers or a list, to take rows of, "
                    f"got {came}; write {instead.format(one)}"
                )


def _stores_of(data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, HeteroData):
        for store in (*data.node_stores, *data.edge_stores):
            yield f"data[{store._key!r}]", store  # noqa: SLF001 - PyG's name of the type
    else:
        yield "data", data._store  # noqa: SLF001 - PyG's own way to an attribute by its name


def _fault(store: Any, name: str, value: Any, sizes: set[int]) -> tuple[str, str] | None:
    """Return what an attribute is that has rows which cannot be taken, and what to write; None where all is well."""
    if isinstance(value, Tensor):
        return _fault_of_tensor(store, name, value, sizes)
    if isinstance(value, np.ndarray):
        return _fault_of_array(store, name, value, sizes)
    if isinstance(value, tuple) and hasattr(value, "_fields") and len(value) in sizes:
        return f"a named tuple {type(value).__name__}", "{0} = list({0})"
    shape = tuple(value.sizes()) if is_sparse(value) else getattr(value, "shape", None)
    if isinstance(value, TensorFrame) or not isinstance(shape, tuple) or not shape or shape[0] not in sizes:
        return None
    came = f"a {type(value).__name__} of shape {list(shape)}"
    if is_sparse(value):
        return came, "{0} = {0}.to_torch_sparse_coo_tensor()"
    if hasattr(value, "toarray"):
        return came, (
            "{0} = torch.from_numpy({0}.toarray()), or of m = {0}.tocoo() the sparse "
            "torch.sparse_coo_tensor(np.stack([m.row, m.col]), m.data, m.shape)"
        )
    return came, "{0} = torch.as_tensor({0}.to_numpy())" if hasattr(value, "to_numpy") else "{0} = torch.as_tensor({0})"


def _fault_of_tensor(store: Any, name: str, value: Tensor, sizes: set[int]) -> tuple[str, str] | None:
    if value.is_nested:
        return "a nested tensor", "{0} = torch.nested.to_padded_tensor({0}, 0.0)"
    if value.ndim == 0:
        return None
    dim = dim_of(store, name, value)
    kind = str(value.layout).removeprefix("torch.")
    if not isinstance(dim, int):
        if is_sparse(value):
            return f"the matrix of a whole graph, {kind} of shape {list(value.shape)}", (
                "data.adj_t = {0} if its entries are the edges, {0}.values() of a coalesced matrix as an attribute of "
                "edges in its order, or del {0}"
            )
        # Of Data without types these are of the whole graph; stores of types take no other answer.
        return None if store._key is None else (f"a tensor with __cat_dim__ {dim}", "data.name = {0}, and del {0}")  # noqa: SLF001
    if value.layout not in (torch.strided, torch.sparse_coo) and value.shape[dim] in sizes:
        return f"a tensor of layout {kind} and shape {list(value.shape)}", "{0} = {0}.to_sparse_coo()"
    return None


def _fault_of_array(store: Any, name: str, value: np.ndarray[Any, Any], sizes: set[int]) -> tuple[str, str] | None:
    dim = dim_of(store, name, value) if value.ndim else None
    if not isinstance(dim, int) or value.shape[dim] not in sizes:
        return None
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return (
            "a masked array, whose mask no tensor has",
            "{0} = {0}.filled(0), and the mask as an attribute of its own",
        )
    try:
        torch.from_numpy(np.empty(0, dtype=value.dtype))
    except (TypeError, ValueError):
        came = f"a NumPy array of {value.dtype} and shape {list(value.shape)}"
        if not value.dtype.isnative:
            return came, '{0} = {0}.astype({0}.dtype.newbyteorder("="))'
        if value.dtype.kind in "mM":
            return came, '{0} = {0}.astype("int64")'
        return came, '{0} = {0}.astype("float64")' if value.dtype.kind in "fc" else "{0} = {0}.tolist()"
    return None


def _sizes(store: Any) -> set[int]:
    """Return the numbers of rows that make a value one of nodes or of edges."""
    sizes = set()
    if isinstance(store, NodeStorage) and store.can_infer_num_nodes:
        sizes.add(int(store.num_nodes or 0))
    if isinstance(store, EdgeStorage):
        sizes.add(int(store.num_edges))
    return sizes


def column(value: Any, label: str, argument: str, counts: dict[str, int]) -> Tensor:
    """Return weights or times as a tensor of one dimension in CPU memory.

    Parameters
    ----------
    value
        What the data have under the name.
    label
        How a user writes it: ``data.time``.
    argument
        The argument that names it: "weight_attr" or "time_attr".
    counts
        What there may be one for each of: ``{"edges": 700}``.

    Raises
    ------
    InputError
        If it is no such tensor; it says what came and what to write.
    """
    one = argument.removesuffix("_attr")
    given = f"a {type(value).__name__}"
    instead = f"give it one {one} for each"
    fits = np.size(value) in counts.values() if isinstance(value, np.ndarray | list | tuple) else False
    if isinstance(value, Tensor) and value.is_nested:
        given = "a nested tensor"
    elif isinstance(value, Tensor) and value.layout != torch.strided:
        given = f"{describe(value)} of layout {str(value.layout).removeprefix('torch.')}"
        instead = f"write {label} = {label}.to_dense()"
    elif isinstance(value, Tensor):
        if value.ndim == 1 and len(value) in counts.values():
            return value.detach().cpu()
        given = describe(value)
        if value.numel() in counts.values():
            instead = f"write {label} = {label}.reshape(-1)"
    elif isinstance(value, np.ndarray):
        given = f"a NumPy array {describe(value)}"
        plain = value.dtype.kind in "biuf"
        if fits:
            as_numbers = "" if plain else '.astype("int64")' if value.dtype.kind in "mM" else '.astype("float64")'
            instead = f"write {label} = torch.as_tensor({label}{as_numbers})"
    elif fits:
        given, instead = f"a {type(value).__name__} of {len(value)}", f"write {label} = torch.as_tensor({label})"
    each = " or ".join(f"{count} {name}" for name, count in counts.items())
    what = "an edge attribute" if argument == "weight_attr" else "an attribute of nodes or edges"
    raise InputError(
        f"headrace.pyg: expected {argument} to name {what} of data, got {label.rpartition('.')[2]!r}, which is not a "
        f"tensor with a {one} for each of {each} but {given} as {label}; {instead}"
    )


def is_overridden(loader: Any, name: str) -> bool:
    """Return whether a subclass of the user, or the loader itself, has a method of its own."""
    if name in vars(loader):
        return True
    for one in type(loader).__mro__:
        if one.__module__.startswith("headrace."):
            return False
        if name in vars(one):
            return True
    return False


def check_overrides(loader: Any, names: tuple[str, ...]) -> None:
    """Refuse methods that PyG's loader would call for each batch, and a plan does not.

    Raises
    ------
    InputError
        If a subclass has one of them.
    """
    for name in names:
        if is_overridden(loader, name):
            raise InputError(
                f"{type(loader).__name__}: expected no {name} of its own in a subclass, got one, which batches of a "
                "plan do not pass through; override filter_fn(out), or pass transform= or transform_sampler_output="
            )
