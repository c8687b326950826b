"""The attributes that sampling goes by: weights and times, one for each edge or node."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.pipeline.data.arrays import describe


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
    GraphError
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
    raise GraphError(
        f"headrace.pyg: expected {argument} to name {what} of data, got {label.rpartition('.')[2]!r}, which is not a "
        f"tensor with a {one} for each of {each} but {given} as {label}; {instead}"
    )
