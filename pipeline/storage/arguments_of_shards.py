"""What `write_shards` and `load_shards` are given: refused by name where it is something else, as in another order."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data import GraphView, describe
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.storage.features import FeatureStore

#: What makes one of what may have been given in its place.
_ADVICE = {
    "partition": "make one of it: headrace.Partition.of(owners), or headrace.Partition.hash(num_nodes, num_parts)",
    "store": "wrap the arrays: headrace.FeatureStore(node={'x': x})",
}


def check_arguments(path: object, graph: object, partition: object, store: object, whole: object) -> None:
    """Refuse arguments of `write_shards` that are not what they should be.

    Raises
    ------
    InputError
        With what each of the four is: several are wrong where their order is another.
    """
    wrong = {
        name: f"{name} to be {what}, got {_came(value)}"
        for name, value, kinds, what in (
            ("path", path, (str, os.PathLike), "the path of a folder"),
            ("graph", graph, (GraphView,), "a headrace.Graph"),
            ("partition", partition, (Partition,), "a headrace.Partition"),
            ("store", store, (FeatureStore, type(None)), "a headrace.FeatureStore"),
        )
        if not isinstance(value, kinds)
    }
    if wrong:
        advice = "write write_shards(path, graph, partition, store)"
        if len(wrong) == 1:
            advice = _ADVICE.get(next(iter(wrong)), advice)
        raise InputError(f"write_shards: expected {'; '.join(wrong.values())}; {advice}")
    if (
        isinstance(whole, Mapping)
        or not isinstance(whole, (str, Collection, type(None)))
        or getattr(whole, "ndim", 1) == 0
    ):
        raise InputError(
            f"write_shards: expected whole to be names of node features, such as ['y'], got {_came(whole)}; list them"
        )


def folder_of_shards(path: object, cached: object) -> Path:
    """Return the folder that `load_shards` is given.

    Raises
    ------
    InputError
        If it is no path.
        If `cached` is not by names.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(
            f"load_shards: expected the path of a folder that write_shards made, got {_came(path)}; write "
            "load_shards(path, part)"
        )
    if not isinstance(cached, (Mapping, type(None))):
        raise InputError(
            f"load_shards: expected cached to be nodes by the name of a feature, such as {{'x': ids}}, got "
            f"{_came(cached)}; name the feature"
        )
    return Path(path)


def _came(value: object) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return describe(value)
    return repr(value) if value is None or isinstance(value, (int, float)) else f"a {type(value).__name__}"
