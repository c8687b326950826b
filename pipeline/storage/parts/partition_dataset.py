"""Data sets cut into parts: what `Dataset.partition` does."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from headrace.ops.errors import InputError
from headrace.pipeline.data import FeatureName, check_kind, check_switches, describe
from headrace.pipeline.data.feature_names import is_name, listed
from headrace.pipeline.data.registry import register
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.storage.dataset.dataset import Dataset
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.parts.write_parts import Cut, write_parts


@register
def partition_dataset(
    data: Dataset,
    partition: Partition | EdgePartition,
    folder: str | os.PathLike[str],
    *,
    features: Collection[FeatureName] | None,
    whole: str | Collection[FeatureName] | None,
    overwrite: bool,
    progress: bool,
) -> None:
    """Write the parts of a data set; `hr.Dataset.partition` documents it."""
    check_switches("Dataset.partition", overwrite=overwrite, progress=progress)
    advice = "make one: hr.Partition.hash(num_nodes, num_parts), or hr.Partition.of(owners)"
    expected = "Dataset.partition: expected partition to be an hr.Partition, or an hr.EdgePartition"
    check_kind(partition, (Partition, EdgePartition), expected, advice, InputError)
    advice = "write data.partition(partition, folder)"
    check_kind(folder, (str, os.PathLike), "Dataset.partition: expected folder to be a path", advice, InputError)
    write_parts(Path(folder), cut_of(data, partition, features, whole), overwrite=overwrite, progress=progress)


def cut_of(
    data: Dataset,
    partition: Partition | EdgePartition,
    features: Collection[FeatureName] | None = None,
    whole: str | Collection[FeatureName] | None = None,
) -> Cut:
    """Return what is written of a data set that is cut.

    Raises
    ------
    InputError
        If it is a part, or has no such features.
    """
    store, names = data.store, _names(features, "features")
    if names is not None:
        for name in names:
            if name not in store.node and name not in store.edge:
                known = ", ".join(map(listed, (*store.node, *store.edge)))
                raise InputError(f"Dataset.partition: expected features among {known}, got {name!r}")
        store = with_features(store, names)
    of_edges = partition if isinstance(partition, EdgePartition) else None
    if of_edges is not None and of_edges.graph is not data.graph:
        raise InputError(
            "Dataset.partition: expected an hr.EdgePartition of the graph of the data set, got one of another graph; "
            "make it of data.graph"
        )
    nodes = partition.nodes if isinstance(partition, EdgePartition) else partition
    beside = data.items, data.ids, data.notes, data.checksum
    return Cut(data.graph, nodes, store, _names(whole, "whole"), *beside, edges=of_edges)


def with_features(store: FeatureStore, names: Collection[FeatureName]) -> FeatureStore:
    """Return a store with those of its features that are named."""
    return FeatureStore(*({key: one[key] for key in one if key in names} for one in (store.node, store.edge)))


def _names(names: str | Collection[FeatureName] | None, argument: str) -> list[FeatureName] | None:
    """Return names of features."""
    if names is None or isinstance(names, str):
        return None if names is None else [names]
    if isinstance(names, Mapping) or not isinstance(names, Collection) or getattr(names, "ndim", 1) == 0:
        raise InputError(
            f"Dataset.partition: expected {argument} to be names of features, such as ['y'], got {describe(names)}; "
            "list them"
        )
    for name in names:
        if not is_name(name):
            raise InputError(
                f"Dataset.partition: expected {argument} to be names of features, such as 'y' or ('paper', 'y'), got "
                f"{name!r} among them; list them"
            )
    return list(names)
