"""Attributes of several types as one tensor, those of one type behind those of the other; also where some have none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data.arrays import check_not_rounded, describe

#: The names of the attributes to take, or the value of each where a type does not have it; None for the default.
Wanted = str | Sequence[str] | Mapping[str, float] | None

#: The time of what has none: it has always been there. In integers the smallest one stands for it.
ALWAYS = -math.inf


def as_wanted(wanted: Wanted) -> Wanted:
    """Return attributes to take as a collection, also where a user gives the name of one."""
    return [wanted] if isinstance(wanted, str) else wanted


def join_attributes(
    of_types: Mapping[Any, Mapping[str, Tensor]], sizes: Sequence[int], wanted: Wanted, what: str, stage: str
) -> dict[str, Tensor]:
    """Return each attribute over all types.

    Types without an attribute get the value that `wanted` has for it. Without one they have always been there where it
    is their time, and count 1 where it is their weight, which the name says; other attributes that only some types have
    are refused where they are asked for, and otherwise left out with a warning.

    Parameters
    ----------
    of_types
        For each type the attributes it has, of a row each.
    sizes
        The numbers of nodes, or of edges, of the types.
    wanted
        What to take; None for all.
    what
        "node" or "edge".
    stage
        Who asks.

    Raises
    ------
    InputError
        If an attribute is not there, only some types have one that is asked for by name, or types disagree in what it
        is.
    """
    known = dict.fromkeys(name for attributes in of_types.values() for name in attributes)
    joined = {}
    for name in known if wanted is None else wanted:
        fill = wanted[name] if isinstance(wanted, Mapping) else value_without(name)
        parts = [attributes.get(name) for attributes in of_types.values()]
        lacking = [one for one, part in zip(of_types, parts, strict=True) if part is None]
        if fill is None and lacking:
            how = f"{stage.partition('.')[2]}({what}_attrs={{{name!r}: 0.0}}) fills in a value"
            if wanted is None:
                warn_user(
                    f"{stage}: left out {what} attribute {name!r}, which {lacking} do not have; {how}, {what}_attrs=[] "
                    "leaves all out, and hr.FeatureStore takes it by type",
                )
                continue
            raise InputError(
                f"{stage}: expected {what} attribute {name!r} on every {what} type, got none on {lacking}; add it "
                f"there, or choose the attributes to take: {what}_attrs=[...] ([] takes none), where {how}"
            )
        if len(lacking) == len(parts):
            raise InputError(f"{stage}: there are no {what} attributes {[name]}; those that exist are {sorted(known)}")
        joined[name] = _joined(name, dict(zip(of_types, parts, strict=True)), sizes, fill, what, stage)
    return joined


def _joined(
    name: str, parts: Mapping[Any, Tensor | None], sizes: Sequence[int], fill: float | None, what: str, stage: str
) -> Tensor:
    """Return one attribute over all types."""
    there = {one: part for one, part in parts.items() if part is not None}
    if fill == ALWAYS:
        there = _times_of_one_kind(there, all_there=len(there) == len(parts))
    first = next(iter(there.values()))
    if len({(part.dtype, part.shape[1:]) for part in there.values()}) > 1:
        kinds = {one: describe(part) for one, part in there.items()}
        raise InputError(
            f"{stage}: expected {what} attribute {name!r} with one dtype and one row shape, got {kinds}; make them "
            f"agree, or choose the attributes to take: {what}_attrs=[...] ([] takes none)"
        )
    if len(there) == len(parts):
        return torch.cat(list(there.values()))
    assert fill is not None  # looked at by the caller
    if fill == ALWAYS:
        fill = always_in(first.dtype)
    if not first.dtype.is_floating_point and fill != int(fill):
        raise InputError(
            f"{stage}: expected a whole number for {what} attribute {name!r} of {first.dtype}, got {fill!r}; give one, "
            "or convert the attribute to floating point"
        )
    shape = first.shape[1:]
    return torch.cat(
        [
            there[one] if one in there else torch.full((size, *shape), fill, dtype=first.dtype, device="cpu")
            for one, size in zip(parts, sizes, strict=True)
        ]
    )


def _times_of_one_kind(times: dict[Any, Tensor], *, all_there: bool) -> dict[Any, Tensor]:
    """Return times as the widest of their kind where types differ in it, or the earliest one has to have room."""
    dtypes = {part.dtype for part in times.values()}
    if any(dtype.is_floating_point for dtype in dtypes):
        dtype = torch.float64
        differ = len(dtypes) > 1
    else:
        dtype = torch.int64
        differ = len(dtypes) > 1 or not all_there
    return {one: part.to(dtype) for one, part in times.items()} if differ else times


def always_in(dtype: torch.dtype) -> float:
    """Return what stands for `ALWAYS` in a dtype: of integers the smallest one."""
    is_whole = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return torch.iinfo(dtype).min if is_whole else ALWAYS


def value_without(name: str) -> float | None:
    """Return the value of what has no attribute of a name; None where there is no such value."""
    if name in ("time", "timestamp") or name.endswith("_time"):
        return ALWAYS
    return 1 if name == "weight" or name.endswith("_weight") else None


def rows_in(value: Any, num_rows: int) -> Tensor | None:
    """Return numbers in a tensor, an array or a list as a tensor if they have a row for each, else None."""
    if isinstance(value, list) and len(value) == num_rows:
        try:
            listed, value = value, np.asarray(value)
        except ValueError:  # of rows of several lengths
            return None
        check_not_rounded(listed, value, "an attribute that is a list")
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        value = torch.from_numpy(np.ascontiguousarray(value))
    return value if isinstance(value, Tensor) and value.ndim and len(value) == num_rows else None
