"""What `headrace partition` takes of a data set: all of its graph and features, and items to balance."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.cli.parser import meant
from headrace.pipeline.data import FeatureName, ItemSet, edge_types_of, node_types_of
from headrace.pipeline.storage.dataset.dataset import Dataset
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.graph_files import GraphFiles
from headrace.pipeline.storage.parts.partition_dataset import with_features


def read_dataset(data: Dataset, options: argparse.Namespace) -> GraphFiles:
    """Return the graph and the features of a data set that options name, and what is left out.

    Raises
    ------
    HeadraceError
        If the data set has no feature of a name that was asked for.
    """
    store = data.store
    if options.features is not None:
        keys = node_features(store, options.features, "--features", and_edges=True)
        store = with_features(store, keys)
    taken = {*store.node, *store.edge}
    left_out = {
        f"feature {text_of_feature(key)}": "--features does not name it"
        for key in (*data.store.node, *data.store.edge)
        if key not in taken
    }
    return GraphFiles(data.graph, store, _to_balance(data, options.balance), left_out)


def node_features(
    store: FeatureStore, texts: Sequence[str], option: str, *, and_edges: bool = False
) -> set[FeatureName]:
    """Return the keys of features that an option names.

    Raises
    ------
    InputError
        If there is no such feature.
    """
    known = {text_of_feature(key): key for key in (*store.node, *(store.edge if and_edges else ()))}
    for text in texts:
        if text not in known:
            raise InputError(f"{option}: expected some of {', '.join(known)}, got {text!r}{meant(text, known)}")
    return {known[text] for text in texts}


def owners_in(data: Dataset, name: str) -> Tensor:
    """Return the feature of nodes that has the number of each one's part: [num_nodes] of integers.

    Raises
    ------
    InputError
        If not all nodes have that feature, or it is something else.
    """
    node = data.store.node
    keys: list[FeatureName] = [name] if name in node else [(one, name) for one in node_types_of(data.graph).names]
    sources = [node.in_contract(key) for key in keys if key in node]
    if len(sources) < len(keys) or any(one.dtype.is_floating_point or one.shape[1:] for one in sources):
        known = ", ".join(map(text_of_feature, node)) or "none"
        raise InputError(
            f"--owners {name}: expected a feature of all nodes, of every type, that is one integer, among {known}; "
            "name it without its type"
        )
    return torch.cat([one.read(torch.arange(one.num_rows, device="cpu")).rows for one in sources])


def text_of_feature(key: FeatureName) -> str:
    """Return how options name a feature: x, or paper.x, or user,buys,item.x."""
    if isinstance(key, str):
        return key
    return f"{key[0] if isinstance(key[0], str) else ','.join(key[0])}.{key[1]}"


def _to_balance(data: Dataset, name: str | None) -> dict[str, NDArray[Any]]:
    """Return what can be shared out evenly: the items that are nodes, and a mask among the features of all nodes."""
    found = {}
    for one, items in data.items.items() if name is not None else ():
        given = ItemSet.of(items, allow_none=True).in_space(node_types_of(data.graph), edge_types_of(data.graph))
        if not given.are_pairs:
            found[one] = given.all_ids().numpy()
    if name is not None and name in data.store.node:
        source = data.store.node.in_contract(name)
        found[name] = source.read(torch.arange(source.num_rows, device="cpu")).rows.numpy()
    return found
